"""
Settings of the command line: flags, RAINBOW_* variables, and named contexts in a file.

A flag wins over a variable, a variable over the context in use, the context over the default. The file is
`$RAINBOW_CONFIG`, else `$XDG_CONFIG_HOME/rainbow/config.yaml`, else `~/.config/rainbow/config.yaml`:

    current_context: staging
    contexts:
      staging:
        endpoint: https://rainbow.example.org
        token_file: ~/.config/rainbow/staging.token
        ca_file: ~/.config/rainbow/ca.pem
        project: flyteexamples
        domain: development
        timeout: 30

A token file holds one token, or those of several admins by their URLs, and is then readable by its owner alone:

    admins:
      https://rainbow.example.org: rbu-…
      https://other.example.org:
        clusters: {east: rbu-…, west: rbu-…}
        clusterGroups: {racks: rbu-…}

Tokens for clusters and groups of clusters are sent together, and add up.

Where there is no such file, and no endpoint is typed or in the environment, flytectl's configuration is read
(`ctl.client.flyte_config`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ctl.client import endpoints
from ctl.client.endpoints import parse_endpoint
from ctl.client.errors import InvalidInput
from ctl.client.flyte_config import FlyteConfig, read_flyte_config
from ctl.client.words import did_you_mean, fold, listed

#: What a context can hold, with what it means.
CONTEXT_KEYS = {
    "endpoint": "where the admin listens",
    "token_file": "file that holds the bearer token, or those of several admins",
    "ca_file": "certificate authorities to trust for https",
    "project": "default project",
    "domain": "default domain",
    "timeout": "seconds to wait for an answer",
}
#: In a token file, which then has tokens by the URLs of their admins.
_HAS_ADMINS = re.compile(r"^admins\s*:", re.MULTILINE)
#: In its entry of an admin, where it has tokens for the use of some clusters.
_TOKEN_NOUNS = ("clusters", "clusterGroups")
_FILE_KEYS = ("current_context", "contexts")
_DEFAULTS = {"endpoint": endpoints.DEFAULT, "timeout": "30", "output": "table"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One effective value and where it comes from."""

    value: str | None
    origin: str = "-"


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The file of contexts."""

    path: Path
    current_context: str | None = None
    contexts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    exists: bool = True

    def context(self, name: str, origin: str) -> Mapping[str, str]:
        """The settings of one context, or an error that names the closest ones."""
        if name not in self.contexts:
            hint = did_you_mean(name, self.contexts) or (
                f" There is {listed(self.contexts)}." if self.contexts else f" There are none in {self.path}."
            )
            raise InvalidInput(f"There is no context {name!r} ({origin}).{hint}")
        return self.contexts[name]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every effective setting of one call."""

    context: Setting
    endpoint: Setting
    token_file: Setting
    token_text: Setting  #: a token given in a variable; wins over token files other than a typed one
    ca_file: Setting
    project: Setting
    domain: Setting
    timeout: Setting
    output: Setting
    configuration: Configuration
    logins_file: Path  #: which `ctl.client.logins` reads
    flyte: FlyteConfig | None = None  #: what was read where there is no configuration of ours
    as_user: str | None = None  #: whom to act as, which is only typed

    def token(self) -> str | None:
        """The bearer token, read from its file where it is not in a variable."""
        if self.token_text.value:
            return self.token_text.value
        if not self.token_file.value:
            return None
        try:
            with Path(self.token_file.value).expanduser().open(encoding="utf-8") as file:
                _check_private(self.token_file.value, os.fstat(file.fileno()))
                text = file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise InvalidInput(f"The token file {self.token_file.value} cannot be read: {reason}.") from None
        if _HAS_ADMINS.search(text):
            return self._token_of_admin(Path(self.token_file.value).expanduser(), text)
        if not text or not text.isascii() or not text.isprintable():
            raise InvalidInput(
                f"The token file {self.token_file.value} must hold one token and nothing else, or tokens by the URLs "
                "of their admins under `admins:`."
            )
        return text

    def _token_of_admin(self, file: Path, text: str) -> str:
        """The token for the endpoint, of a file with the tokens of several admins."""
        from ctl.client.yaml_files import Source, load_mapping

        document = _known_keys(load_mapping(Source(name=str(file), text=text), as_text=True), ("admins",), str(file))
        admins = _known_keys(document.get("admins") or {}, None, f"{file}: admins")
        has_ca_file = self.ca_file.value is not None
        for admin, token in admins.items():
            if parse_endpoint(str(admin), has_ca_file=has_ca_file).url == self.admin_url:
                return _joined(token, f"{file}: {admin}")
        others = f" It has some for {listed(admins)}." if admins else ""
        raise InvalidInput(f"The token file {file} has no token for {self.admin_url}.{others}")

    @property
    def may_have_login(self) -> bool:
        """Whether there is a file of logins; where this user has no home, or may not look into it, there is none."""
        try:
            return self.logins_file.expanduser().exists()
        except (OSError, RuntimeError):
            return False

    @property
    def admin_url(self) -> str:
        """The endpoint with its protocol, as logins are kept by it."""
        return parse_endpoint(str(self.endpoint.value), has_ca_file=self.ca_file.value is not None).url

    @cached_property
    def timeout_seconds(self) -> float:
        """The timeout as a number; positive."""
        return parse_timeout(str(self.timeout.value))


def load_settings(
    typed: Mapping[str, str | None],
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """
    The settings for flags as typed (`endpoint`, `token_file`, `project`, …; `config` is the path of the file).

    A typed project or domain switches off the default of both, so that `-p X` alone means the project's own level.
    """
    configuration = load_configuration(config_path(typed, environ))
    context = _first(typed, environ, "context", configuration.current_context, f"{configuration.path}")
    chosen = configuration.context(context.value, context.origin) if context.value else {}
    from_context = f"context {context.value}"
    flyte = None
    if not configuration.exists and not typed.get("endpoint") and not environ.get("RAINBOW_ENDPOINT"):
        flyte = read_flyte_config(environ)
    if flyte is not None:
        chosen, from_context = flyte.values, flyte.path

    def pick(key: str) -> Setting:
        return _first(typed, environ, key, chosen.get(key), from_context)

    endpoint = pick("endpoint")
    token_file = pick("token_file")
    if token_file.origin == from_context and endpoint.value != chosen.get("endpoint", endpoints.DEFAULT):
        token_file = Setting(value=None)  # a context's token is only sent to that context's admin
    token_text = _first({}, {} if typed.get("token_file") else environ, "token")
    scope = {key: pick(key) for key in ("project", "domain")}
    if typed.get("project") is not None or typed.get("domain") is not None:
        scope = {key: _first(typed, {}, key) for key in scope}
    return Settings(
        context=context,
        endpoint=endpoint,
        token_file=Setting(value=None) if token_text.value else token_file,
        token_text=token_text,
        ca_file=pick("ca_file"),
        **scope,
        timeout=pick("timeout"),
        output=pick("output"),
        configuration=configuration,
        logins_file=Path(_home(environ), "logins.json"),
        flyte=flyte,
        as_user=typed.get("as_user"),
    )


def _check_private(path: str, status: os.stat_result) -> None:
    """Refuse a file of the user's own that others may read; another's, such as a mounted secret, is theirs to guard."""
    is_own = hasattr(os, "getuid") and status.st_uid == os.getuid()
    if is_own and stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) & 0o077:
        from shlex import quote

        file = Path(path).expanduser()
        raise InvalidInput(f"Others may read the token file {path}: run `chmod 600 {quote(str(file))}`.")


def parse_timeout(text: str) -> float:
    """Seconds, written `30` or `30s`."""
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86400:
        raise InvalidInput(f"The timeout must be a number of seconds such as 30, got {text!r}.")
    return seconds


def config_path(typed: Mapping[str, str | None], environ: Mapping[str, str] = os.environ) -> Setting:
    """The path of the file of contexts."""
    if typed.get("config") is not None or environ.get("RAINBOW_CONFIG"):
        return _first(typed, environ, "config")
    return Setting(value=f"{_home(environ)}/config.yaml", origin="default")


def _home(environ: Mapping[str, str]) -> str:
    """The directory of this user's settings."""
    return f"{environ.get('XDG_CONFIG_HOME') or '~/.config'}/rainbow"


def load_configuration(path: Setting, *, may_be_missing: bool = False) -> Configuration:
    """The file of contexts; one that was asked for by name must exist."""
    file = Path(str(path.value)).expanduser()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        if path.origin == "default" or may_be_missing:
            return Configuration(path=file, exists=False)
        raise InvalidInput(f"The configuration {file} ({path.origin}) does not exist.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(f"The configuration {file} cannot be read: {reason}.") from None
    return _parse(text, file)


def _parse(text: str, file: Path) -> Configuration:
    from ctl.client.yaml_files import Source, load_mapping

    document = load_mapping(Source(name=str(file), text=text), as_text=True)
    if "contexts" not in document and any(fold(str(key)) == "admin" for key in document):
        raise InvalidInput(
            f"{file} is a configuration of flytectl: name it in FLYTECTL_CONFIG instead, or write one of rainbowctl "
            "with `rainbowctl config init --host HOST`."
        )
    top = _known_keys(document, _FILE_KEYS, str(file))
    contexts = {
        str(name): {
            key: str(value) for key, value in _known_keys(entry, CONTEXT_KEYS, f"{file}: context {name}").items()
        }
        for name, entry in _known_keys(top.get("contexts") or {}, None, f"{file}: contexts").items()
    }
    return Configuration(path=file, current_context=top.get("current_context") or None, contexts=contexts)


def _known_keys(document: Any, keys: Any, place: str) -> dict[str, Any]:
    if document == "":
        return {}
    if not isinstance(document, dict):
        raise InvalidInput(f"{place} must hold keys and values.")
    if keys is None:
        return document
    by_fold = {fold(key): key for key in keys}
    for key in document:
        if fold(str(key)) not in by_fold:
            hint = did_you_mean(str(key), keys) or f" There is {listed(keys)}."
            raise InvalidInput(f"{place}: unknown key {key!r}.{hint}")
    return {by_fold[fold(key)]: value for key, value in document.items() if value != ""}


def _joined(entry: Any, place: str) -> str:
    """The token of an admin, or all those for its clusters and groups of clusters."""
    tokens = [entry]
    if isinstance(entry, dict):
        of_nouns = _known_keys(entry, _TOKEN_NOUNS, place)
        named = [_known_keys(names, None, f"{place}: {noun}") for noun, names in of_nouns.items()]
        tokens = [token for names in named for token in names.values()]
    if not tokens or not all(_is_token(token) for token in tokens):
        raise InvalidInput(
            f"{place} must be one token, or tokens by the names of clusters and groups of clusters under "
            f"{listed(_TOKEN_NOUNS)}."
        )
    return ",".join(tokens)


def _is_token(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value.isascii() and value.isprintable()


def save_configuration(configuration: Configuration) -> None:
    """Write the file of contexts, whole or not at all, readable by its owner only."""
    import yaml

    document: dict[str, Any] = {}
    if configuration.current_context:
        document["current_context"] = configuration.current_context
    document["contexts"] = {name: dict(entry) for name, entry in configuration.contexts.items()}
    try:
        configuration.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{configuration.path.parent} cannot be made: {error.strerror}.") from None
    write_private(configuration.path, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def write_private(path: Path, text: str) -> None:
    """Write a file with mode 0600 through a temporary one beside it, so that no reader sees half of it."""
    # A link keeps pointing at what it pointed at; a device or pipe cannot be replaced, only written to.
    target = path.resolve() if path.is_symlink() else path
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            target.write_text(text, encoding="utf-8")
            return
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.") from None


def _first(
    typed: Mapping[str, str | None], environ: Mapping[str, str], key: str, stored: str | None = None, origin: str = ""
) -> Setting:
    """The flag, else the variable, else what is stored, else the default."""
    variable = f"RAINBOW_{key.upper()}"
    candidates = (
        (typed.get(key), f"--{key.replace('_', '-')}"),
        (environ.get(variable) or None, variable),
        (stored or None, origin),
        (_DEFAULTS.get(key), "default"),
    )
    settings = (Setting(value=value, origin=place) for value, place in candidates if value is not None)
    return next(settings, Setting(value=None))
