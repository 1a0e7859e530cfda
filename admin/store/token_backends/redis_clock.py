"""The clock of Redis: what it should show by the monotonic clock of this process, and whether it may have jumped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from admin.core.token_pools.steadiness import JUMP_SECONDS

_JUMP = JUMP_SECONDS * 1000


class RedisClock:
    """Compares the server's time in each answer with what was expected; all times are in milliseconds.

    A script cannot tell a clock that went ahead from a request that was long under way. So it takes nothing back then,
    and the answer, whose time is bounded on both sides, tells whether the next request has to say that it was a jump.
    The same is said after the server could not be asked for a while, for holders could not renew meanwhile.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._offset: float | None = None  #: the server's time less the monotonic clock
        self._answered_at = 0.0  #: when the last answer came
        self._failing_since: float | None = None  #: since when nothing was answered
        self._has_jumped = False  #: which the server was not told yet

    def now(self) -> float:
        return self._monotonic() * 1000

    def statement(self, begun_at: float) -> dict[str, Any]:
        """What a request says of the clock."""
        is_back = self._failing_since is not None and begun_at - self._failing_since > _JUMP
        expected = {} if self._offset is None else {"expected": int(begun_at + self._offset)}
        return {"jump": int(_JUMP), "in_doubt": self._has_jumped or is_back, **expected}

    def note_failure(self, begun_at: float) -> None:
        """Note that a request was not answered."""
        if self._failing_since is None:
            self._failing_since = max(begun_at, self._answered_at)

    def note_answer(self, begun_at: float, server_time: float, *, was_in_doubt: bool) -> None:
        """Note the server's time in the answer to a request."""
        self._answered_at = ended_at = self.now()
        self._failing_since = None
        if was_in_doubt:
            self._has_jumped = False
        offset = self._offset
        if offset is None or not begun_at - _JUMP <= server_time - offset <= ended_at + _JUMP:
            self._has_jumped = offset is not None and not was_in_doubt
        elif ended_at - begun_at > _JUMP:
            return  # too long under way to measure better than before
        self._offset = server_time - (begun_at + ended_at) / 2
