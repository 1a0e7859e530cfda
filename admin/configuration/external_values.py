"""External values: template variables that configuration takes from the environment or from files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from admin.configuration.small_files import FileTooLarge, read_small
from admin.core.cluster_resources.values import ExternalValue, ExternalValues

#: How long a file is taken to be unchanged after it was read.
_FRESH_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class ExternalSource:
    """Where the value of a configuration key comes from; the environment is read once."""

    key: str
    value: ExternalValue | None = None
    path: str = ""  #: of a file

    def read(self) -> ExternalValue:
        """The value as it is now."""
        return self.value or _read_file(self.path)


def external_source(item: Mapping[str, Any]) -> str:
    """Where a value comes from, in words."""
    source = item["valueFrom"]
    return f"environment variable {source['env']}" if "env" in source else f"file {source['filePath']}"


def external_sources(section: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[ExternalSource]:
    """The sources of the variables of `cluster_resources` that have no value in the file."""
    data = {"templateData": section.get("templateData", {})}
    data |= {f"customData.{domain}": items for domain, items in section.get("customData", {}).items()}
    for place, items in data.items():
        for name, item in items.items():
            key = f"cluster_resources.{place}.{name}"
            if isinstance(item, str):
                continue
            source = item["valueFrom"]
            if "filePath" in source:
                yield ExternalSource(key=key, path=source["filePath"])
            else:
                text = environment.get(source["env"]) or None
                problem = "" if text else f"the admin's environment variable {source['env']} is not set, or is empty."
                value = ExternalValue(source=external_source(item), text=text, problem=problem)
                yield ExternalSource(key=key, value=value)


def _read_file(path: str) -> ExternalValue:
    """The text of a file without the newline at its end, which editors put there."""
    source = f"file {path}"
    try:
        text = read_small(path).decode().removesuffix("\n")
    except OSError as error:
        return ExternalValue(source=source, problem=f"the file {path} cannot be read: {error.strerror}.")
    except FileTooLarge as error:
        return ExternalValue(source=source, problem=f"the file {path} {error}")
    except UnicodeDecodeError:
        return ExternalValue(source=source, problem=f"the file {path} is not text in UTF-8.")
    if not text:
        return ExternalValue(source=source, problem=f"the file {path} is empty.")
    return ExternalValue(source=source, text=text)


class ExternalReader:
    """Reads external values again when a second has passed."""

    def __init__(self, sources: tuple[ExternalSource, ...], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._sources = sources
        self._monotonic = monotonic
        self._reading = threading.Lock()
        self._read_at = float("-inf")
        self._current: ExternalValues = {}

    def current(self) -> ExternalValues:
        """The values by their configuration keys; the same object as before while none has changed."""
        now = self._monotonic()
        if now - self._read_at >= _FRESH_SECONDS:
            with self._reading:
                values = {source.key: source.read() for source in self._sources}
                if values != self._current:
                    self._current = values
                self._read_at = now
        return self._current
