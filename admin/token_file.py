"""The operators' tokens, which the admin reads from a file."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from admin.core.problems import Invalid, invalid

_log = logging.getLogger("rainbow.gate")
_RECHECK_SECONDS = 1.0


class TokenFile:
    """The operators' tokens, one a line of a file that may be changed at any time.

    To replace a token, put the new one beside the old one, hand it out, then take the old one away: both are good in
    between, and the admin need not be restarted.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Invalid for a file that holds no token, or one that is too short to be safe."""
        self._path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self._tokens = _read_tokens(path)
        self._problem = ""
        self._checked_at = clock()

    def __call__(self) -> tuple[bytes, ...]:
        """The tokens that are good now; the last good ones while the file cannot be used."""
        if self._clock() - self._checked_at >= _RECHECK_SECONDS:
            self._checked_at = self._clock()
            stamp = _stamp(self._path)
            if stamp != self._stamp or self._problem:
                self._stamp = stamp
                self._read_again()
        return self._tokens

    def _read_again(self) -> None:
        try:
            self._tokens = _read_tokens(self._path)
            self._problem = ""
            _log.info("tokens read again", extra={"file": self._path, "tokens": len(self._tokens)})
        except Invalid as error:
            if str(error) != self._problem:
                _log.warning("the former tokens stay good", extra={"problem": str(error)})
            self._problem = str(error)


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What changes when a file does."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_tokens(path: str) -> tuple[bytes, ...]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise invalid(
            "server.apiTokenFile",
            f"{path} cannot be read: {reason}. Give a readable file of tokens; `openssl rand -hex 32` makes one.",
        ) from error
    tokens = [line.strip() for line in lines if line.strip()]
    if not tokens or not all(_is_safe(token) for token in tokens):
        rule = "must hold tokens of at least 16 plain characters, one a line"
        raise invalid("server.apiTokenFile", f"{path} {rule}; `openssl rand -hex 32` makes one.")
    return tuple(token.encode() for token in tokens)


def _is_safe(token: str) -> bool:
    return len(token) >= 16 and token.isascii() and not any(char.isspace() for char in token)
