"""Configuration of the agent: one YAML file, each key of which the command line can replace.

endpoint: https://rainbow.example.org    # where the admin listens
cluster: alpha                           # the name this cluster registered with
engine: slurm                            # local, slurm, or one that a package brings
engineOptions: {}                        # what the engine takes; unknown ones are refused
stateDirectory: /var/lib/rainbow-agent   # for one agent only; on a disk that outlives a reboot
tokenFile: /etc/rainbow/alpha.token      # written by `rainbow-agent register`
caFile: /etc/rainbow/ca.pem              # certificate authorities to trust for https
slots: 10                                # executions at once
want: 10                                 # new executions to take with one sync
pollSeconds: 0.5                         # how often the engine is asked what has become of them
plugins: []                              # plugins that this cluster offers
properties: {}                           # anything else worth knowing of it
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent.engines.base import closest

DEFAULT_ENDPOINT = "http://127.0.0.1:8088"
DEFAULT_ENGINE = "local"
_MOST = 1000


class ConfigError(Exception):
    """A configuration that cannot be used: the key, the reason and the remedy."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that the agent is told."""

    cluster: str
    state_directory: Path
    token_file: Path
    endpoint: str = DEFAULT_ENDPOINT
    engine: str = DEFAULT_ENGINE
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    ca_file: str | None = None
    slots: int = 10
    want: int = 10
    poll_seconds: float | None = None
    plugins: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)


#: Each key of the file, with the type it has and that type's name.
_KEYS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "endpoint": (str, "a URL"),
    "cluster": (str, "a name"),
    "engine": (str, "a name"),
    "engineOptions": (dict, "a mapping"),
    "stateDirectory": (str, "a path"),
    "tokenFile": (str, "a path"),
    "caFile": (str, "a path"),
    "slots": (int, "a whole number"),
    "want": (int, "a whole number"),
    "pollSeconds": ((int, float), "a number"),
    "plugins": (list, "a list"),
    "properties": (dict, "a mapping"),
}


def load_config(file: Path | None, typed: Mapping[str, Any]) -> Config:
    """The configuration from a file and the command line, whose keys are those of the file; None is not typed."""
    given = {**(_read(file) if file else {}), **{key: value for key, value in typed.items() if value is not None}}
    for key, value in given.items():
        _check(key, value)
    if not given.get("cluster"):
        raise ConfigError("cluster: is missing: name the cluster with --cluster, or in the configuration file")
    base = file.parent if file else Path()
    cluster = given["cluster"]
    state = _path(given.get("stateDirectory"), base) or default_state_directory(cluster)
    ca_file = _path(given.get("caFile"), base)
    return Config(
        cluster=cluster,
        endpoint=given.get("endpoint", DEFAULT_ENDPOINT),
        engine=given.get("engine", DEFAULT_ENGINE),
        engine_options=given.get("engineOptions", {}),
        state_directory=state,
        token_file=_path(given.get("tokenFile"), base) or state / "token",
        ca_file=str(ca_file) if ca_file else None,
        slots=given.get("slots", Config.slots),
        want=given.get("want", Config.want),
        poll_seconds=given.get("pollSeconds"),
        plugins=tuple(given.get("plugins", ())),
        properties=given.get("properties", {}),
    )


def default_config_file() -> Path | None:
    """The file that is read where none is named, if it is there."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return next(
        (path for path in (home / "rainbow/agent.yaml", Path("/etc/rainbow/agent.yaml")) if path.is_file()), None
    )


def default_state_directory(cluster: str) -> Path:
    """Where state is kept where no place is named."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    return home / "rainbow/agent" / cluster


def _read(path: Path) -> dict[str, Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses a key that is given twice."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            names = [getattr(key, "value", None) for key, _value in node.value]
            for name in names:
                if isinstance(name, str) and names.count(name) > 1:
                    raise ConfigError(f"{path}: {name}: is given twice: keep one")
            return super().construct_mapping(node, deep=deep)

    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must be a mapping of keys such as cluster and engine")
    for key in document:
        if key not in _KEYS:
            raise ConfigError(f"{path}: {key}: there is no such key{closest(str(key), _KEYS)}")
    return document


def _check(key: str, value: Any) -> None:
    """Refuse a value that does not fit its key."""
    kind, name = _KEYS[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ConfigError(f"{key}: must be {name}, is {value!r}")
    if rule := _RULES.get(key):
        fits, wanted = rule
        if not fits(value):
            raise ConfigError(f"{key}: must be {wanted}, is {value!r}")


def _is_url(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "slots": (lambda number: 1 <= number <= _MOST, f"from 1 to {_MOST}"),
    "want": (lambda number: 1 <= number <= _MOST, f"from 1 to {_MOST}"),
    "pollSeconds": (lambda number: 0.01 <= number <= 60, "from 0.01 to 60"),
    "cluster": (
        lambda name: re.fullmatch(r"[A-Za-z0-9_.-]{1,255}", name) is not None and name not in (".", ".."),
        "letters, digits, '_', '.' and '-'",
    ),
    "endpoint": (_is_url, "written as http://HOST:PORT or https://HOST:PORT"),
    "plugins": (lambda names: all(isinstance(name, str) for name in names), "a list of names"),
}


def _path(text: str | None, base: Path) -> Path | None:
    """A path, relative to the file that names it."""
    return (base / Path(text).expanduser()).absolute() if text else None
