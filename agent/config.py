"""Configuration of the agent: one YAML file, whose keys can be overridden on the command line.

`rainbow-agent run --help` explains each key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ctl.client.errors import InvalidFile
from ctl.client.words import did_you_mean, snake_case
from ctl.client.yaml_files import load_mapping, read_source

_MOST = 1000
_PATHS = ("stateDirectory", "tokenFile", "caFile")


class ConfigError(Exception):
    """The configuration is invalid: the key, the reason and the remedy."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of an agent."""

    cluster: str
    state_directory: Path
    token_file: Path
    endpoint: str = "http://127.0.0.1:8088"
    engine: str = "local"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    ca_file: str | None = None
    run_as: str = ""
    slots: int = 10
    want: int = 10
    poll_seconds: float | None = None
    plugins: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)


class _Key(NamedTuple):
    """What the value of a key must be."""

    type: type | tuple[type, ...]
    type_name: str
    is_valid: Callable[[Any], bool] = lambda value: True
    requirement: str = ""


def _is_cluster_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.-]{1,255}", text) is not None and text not in (".", "..")


def _is_url(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _is_count(number: int) -> bool:
    return 1 <= number <= _MOST


_KEYS = {
    "endpoint": _Key(str, "a URL", _is_url, "written as http://HOST:PORT or https://HOST:PORT"),
    "cluster": _Key(str, "a name", _is_cluster_name, "letters, digits, '_', '.' and '-'"),
    "engine": _Key(str, "a name"),
    "engineOptions": _Key(dict, "a mapping"),
    "stateDirectory": _Key(str, "a path"),
    "tokenFile": _Key(str, "a path"),
    "caFile": _Key(str, "a path"),
    "runAs": _Key(str, "the name of a user"),
    "slots": _Key(int, "a whole number", _is_count, f"from 1 to {_MOST}"),
    "want": _Key(int, "a whole number", _is_count, f"from 1 to {_MOST}"),
    "pollSeconds": _Key((int, float), "a number", lambda number: 0.01 <= number <= 60, "from 0.01 to 60"),
    "plugins": _Key(list, "a list", lambda names: all(isinstance(name, str) for name in names), "a list of names"),
    "properties": _Key(dict, "a mapping"),
}


def load_config(file: Path | None, options: Mapping[str, Any]) -> Config:
    """The settings in a file, overridden by options of the command line with the same keys; None is no option.

    Paths in the file are relative to the file, those of options to the current directory.
    """
    typed = {key: value for key, value in options.items() if value is not None}
    typed |= {key: str(_path(typed[key], Path())) for key in _PATHS if typed.get(key)}
    settings = {**(_read(file) if file else {}), **typed}
    for key, value in settings.items():
        _check(key, value)
    if not settings.get("cluster"):
        raise ConfigError("cluster: is missing: name the cluster with --cluster, or in the configuration file")
    base = file.parent if file else Path()
    state = _path(settings.get("stateDirectory"), base) or default_state_directory(settings["cluster"])
    ca_file = _path(settings.get("caFile"), base)
    read = {
        "state_directory": state,
        "token_file": _path(settings.get("tokenFile"), base) or state / "token",
        "ca_file": str(ca_file) if ca_file else None,
        "plugins": tuple(settings.get("plugins", ())),
    }
    return Config(**{snake_case(key): value for key, value in settings.items()} | read)


def default_config_file() -> Path | None:
    """The file that is read if none is named: the first that exists, else None."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return next(
        (path for path in (home / "rainbow/agent.yaml", Path("/etc/rainbow/agent.yaml")) if path.is_file()), None
    )


def default_state_directory(cluster: str) -> Path:
    """Where state is kept if the configuration does not say."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    return home / "rainbow/agent" / cluster


def _read(path: Path) -> dict[str, Any]:
    try:
        document = load_mapping(read_source(str(path)))
    except InvalidFile as error:
        raise ConfigError(error.in_one_line()) from None
    for key in document:
        if key not in _KEYS:
            raise ConfigError(f"{path}: {key}: there is no such key.{did_you_mean(str(key), _KEYS)}")
    return document


def _check(key: str, value: Any) -> None:
    """Refuse a value that is invalid for its key."""
    expected = _KEYS[key]
    if not isinstance(value, expected.type) or isinstance(value, bool):
        raise ConfigError(f"{key}: must be {expected.type_name}, is {value!r}")
    if not expected.is_valid(value):
        raise ConfigError(f"{key}: must be {expected.requirement}, is {value!r}")


def _path(text: str | None, base: Path) -> Path | None:
    """A path; one that is not absolute is relative to the base."""
    return (base / Path(text).expanduser()).absolute() if text else None
