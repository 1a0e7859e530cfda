"""Wrong secrets and tokens: how many of them are looked at, without keeping out those who have the right one."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from admin import metrics
from admin.core.hosts import source_of
from admin.errors import TooManyAttempts
from admin.services.tokens import NAME_LENGTH

_WINDOW_SECONDS = 60.0
#: Sources of wrong attempts that are remembered.
_MOST_SOURCES = 4096


class FailureLimiter:
    """Counts what fails within a minute, in this process and for each source; other sources are not affected."""

    def __init__(self, most: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`most` failures of one source are allowed within a minute."""
        self._most = most
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures: dict[str, deque[float]] = {}  #: when each source failed, the latest source last

    def check(self, source: str) -> None:
        """Refuse even what is right after too many failures of the same source."""
        seconds = self.seconds_left(source)
        if seconds:
            raise TooManyAttempts(retry_after=seconds)

    def seconds_left(self, source: str) -> int:
        """For how long a source has failed too often; 0 where it has not."""
        failures = self._failures.get(source)
        if failures is None or len(failures) < self._most:
            return 0
        return max(0, math.ceil(failures[0] + _WINDOW_SECONDS - self._monotonic()))

    def add_failure(self, source: str) -> None:
        """Count a failure; of those of a source only as many are kept as matter."""
        with self._lock:
            failures = self._failures.pop(source, None) or deque(maxlen=self._most)
            failures.append(self._monotonic())
            self._failures[source] = failures
            if len(self._failures) > _MOST_SOURCES:
                del self._failures[next(iter(self._failures))]


class WrongTokens:
    """Limits wrong tokens by the address that they come from, and by the token that they pretend to be."""

    def __init__(self, most: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`most` of each are looked up within a minute; what comes after them is refused unless it is right."""
        self._by_address = FailureLimiter(most, monotonic)
        self._by_name = FailureLimiter(most, monotonic)
        self._has_any = False

    def seconds_left(self, address: str, token: str | None) -> int:
        """For how long a wrong token is refused unseen; 0 where it is looked up. None for one that pretends nothing."""
        if not self._has_any:
            return 0
        by_address = self._by_address.seconds_left(source_of(address))
        return by_address if token is None else max(by_address, self._by_name.seconds_left(token[:NAME_LENGTH]))

    def add(self, address: str, token: str | None) -> None:
        """Count a token that was wrong."""
        self._by_address.add_failure(source_of(address))
        if token is not None:
            self._by_name.add_failure(token[:NAME_LENGTH])
        self._has_any = True

    def refusal(self, seconds: int) -> TooManyAttempts:
        """The error for a wrong token that is one too many, which is counted."""
        metrics.count_limited("wrong_tokens")
        return TooManyAttempts(
            "This token is wrong, and too many wrong ones have come from your address or for this token. Check "
            "RAINBOW_TOKEN: a right token is accepted at once.",
            retry_after=seconds,
        )
