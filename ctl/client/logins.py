"""
Logins: tokens of OpenID providers, kept in a file of mode 0600, one login for each context and endpoint.

The file is `$XDG_CONFIG_HOME/rainbow/logins.json`, else `~/.config/rainbow/logins.json`. A token is sent only to the
endpoint that it was got for.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ctl.client.contexts import Settings, write_private
from ctl.client.errors import InvalidInput, LoginRefused, Unauthenticated, Unreachable
from ctl.client.openid import Provider, Tokens

#: A token that expires within so many seconds is refreshed: a request takes a while, and clocks differ.
_MARGIN_SECONDS = 15.0
_AGAIN = "Run `rainbowctl login` again."


@dataclass(frozen=True, kw_only=True)
class Login:
    """The tokens of one login, and where they are from and for."""

    context: str | None
    endpoint: str  #: of the admin, as `parse_endpoint` writes it
    issuer: str
    client_id: str
    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None  #: seconds since the epoch, by this machine's clock

    def with_tokens(self, tokens: Tokens, now: float) -> Login:
        """The same login with new tokens; a provider may leave the refresh token as it is."""
        return replace(
            self,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or self.refresh_token,
            expires_at=None if tokens.expires_in is None else now + tokens.expires_in,
        )

    def lasts(self, now: float, margin: float = 0.0) -> bool:
        """Whether the access token is good for so many seconds more."""
        return self.expires_at is None or now + margin < self.expires_at


class Logins:
    """The file of logins."""

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser()

    def find(self, context: str | None, endpoint: str) -> Login | None:
        """The login of a context at an endpoint."""
        return next((login for login in self._read() if (login.context, login.endpoint) == (context, endpoint)), None)

    def keep(self, login: Login) -> None:
        """Store a login, in place of the one before; the caller holds the lock."""
        others = [other for other in self._read() if not _is_same(other, login)]
        self._write([*others, login])

    def forget(self, login: Login) -> None:
        """Delete a login; the caller holds the lock."""
        self._write([other for other in self._read() if not _is_same(other, login)])

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other command changes the file meanwhile: a refresh token may be used only once."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InvalidInput(f"{self._path.parent} cannot be written to: {error.strerror}.") from None
        try:
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> list[Login]:
        try:
            with self._path.open(encoding="utf-8") as file:
                _check_mode(self._path, os.fstat(file.fileno()).st_mode)
                document = json.load(file)
            return [_read_login(entry) for entry in document["logins"]]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InvalidInput(f"The logins in {self._path} cannot be read: {error.strerror}.") from None
        except (ValueError, TypeError, KeyError):
            # The message of the error is left out: it may hold a token.
            raise InvalidInput(f"{self._path} is damaged: delete it, and log in with `rainbowctl login`.") from None

    def _write(self, logins: list[Login]) -> None:
        write_private(self._path, json.dumps({"logins": [asdict(login) for login in logins]}, indent=2) + "\n")


def _read_login(entry: dict[str, Any]) -> Login:
    """A login as it was written; what a newer version wrote beside it is left out. TypeError for anything else."""
    login = Login(**{field.name: entry[field.name] for field in fields(Login) if field.name in entry})
    texts = (login.endpoint, login.issuer, login.client_id, login.access_token, login.refresh_token or "")
    if not all(isinstance(text, str) for text in texts) or not isinstance(login.expires_at or 0, int | float):
        raise TypeError("a field is of another type")
    return login


def _is_same(login: Login, other: Login) -> bool:
    return (login.context, login.endpoint) == (other.context, other.endpoint)


def _check_mode(path: Path, mode: int) -> None:
    if sys.platform != "win32" and stat.S_IMODE(mode) & 0o077:
        raise InvalidInput(f"Others may read {path}, which holds tokens: run `chmod 600 {shlex.quote(str(path))}`.")


def find_login(settings: Settings) -> Login | None:
    """The login of the context and endpoint in use; None where a token is given, which wins over it."""
    if settings.token_text.value or settings.token_file.value:
        return None
    return Logins(settings.logins_file).find(settings.context.value, settings.admin_url)


def login_token(settings: Settings, *, timeout: float) -> LoginToken | None:
    """What gives the token of that login for each request; `timeout` is how many seconds the provider may take."""
    login = find_login(settings)
    if login is None:
        return None
    return LoginToken(Logins(settings.logins_file), login, timeout=timeout)


class LoginToken:
    """The access token of a login, for each request; refreshed when it is about to expire."""

    def __init__(
        self, logins: Logins, login: Login, *, timeout: float = 30.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._logins = logins
        self._login = login
        self._timeout = timeout
        self._clock = clock

    def __call__(self) -> str:
        """The token; Unauthenticated where the login has ended, Unreachable where that cannot be known."""
        if not self._login.lasts(self._clock(), _MARGIN_SECONDS):
            with self._logins.locked():
                # Another command may have refreshed it, or logged out.
                stored = self._logins.find(self._login.context, self._login.endpoint)
                if stored is None:
                    raise Unauthenticated(f"The login at {self._login.issuer} was ended meanwhile. {_AGAIN}")
                is_fresh = stored.lasts(self._clock(), _MARGIN_SECONDS)
                self._login = stored if is_fresh else self._refreshed(stored)
        return self._login.access_token

    def _refreshed(self, login: Login) -> Login:
        is_good = login.lasts(self._clock())  # for a moment yet
        if login.refresh_token is None:
            if is_good:
                return login
            raise Unauthenticated(f"The login at {login.issuer} has expired. {_AGAIN}")
        try:
            tokens = Provider(login.issuer, login.client_id, timeout=self._timeout).refresh(login.refresh_token)
        except Unreachable as error:
            if is_good:
                return login
            error.message = f"The token has expired, and cannot be refreshed. {error.message}"
            raise
        except LoginRefused as refusal:
            if is_good:
                return login
            raise Unauthenticated(f"The login at {login.issuer} has ended. {_AGAIN}") from refusal
        refreshed = login.with_tokens(tokens, self._clock())
        self._logins.keep(refreshed)
        return refreshed
