"""
Tokens of token pools, held while a program works.

A lease is measured from before its request was sent, on a clock that nobody sets, so that it is over here no later than
at the admin, however far the clocks of the two machines are apart.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from ctl.client.answers import Document
from ctl.client.errors import (
    ClientError,
    Conflict,
    RainbowError,
    ServerError,
    TokensExhausted,
    TokensLost,
    Unanswered,
    Unreachable,
)
from ctl.client.times import format_duration
from ctl.client.transport import Transport

#: How long a place in line is kept while nobody asks, as during a restart of the admin; tokens may idle as long.
_LINE_SECONDS = 10.0
#: How often tokens are renewed within a lease.
_RENEWALS = 3
#: Pauses after a request that failed; each is longer than the last.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
#: How often tokens are given back at most; their lease does it where no request arrives.
_RELEASES = 3
NOT_HELD = "tokens_not_held"


def steady_seconds() -> float:
    """A clock that nobody sets and that goes on while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class HeldTokens:
    """
    A context manager: waits in line, renews in the background, and gives back at the end.

        with client.tokens("hive", project="ads", domain="production", timeout=60) as held:
            for part in parts:
                held.check()  # TokensLost where the lease was lost
                work(part, fence=held.number)

    Entering raises TokensExhausted when the timeout is over. When the lease was lost, `lost` is set and `on_lost` is
    called at once, and leaving raises TokensLost, unless another error is on its way, which then has a note. While the
    admin cannot be reached everything is tried again, until the timeout or the lease is over; only where it cannot be
    reached at the very start that is an error. Several threads may read it; each claim has one of its own.
    """

    def __init__(
        self,
        transport: Transport,
        claim: Document,
        *,
        timeout: float | None = None,
        token: str | None = None,
        on_wait: Callable[[Document], None] | None = None,
        on_lost: Callable[[str], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = steady_seconds,
    ) -> None:
        self.token = token or secrets.token_hex(16)  #: names the claim
        self.pools: dict[str, int] = claim["pools"]
        self.number: int | None = None  #: larger than that of every earlier grant of the pools
        self.expires_at: str | None = None  #: the end of the lease by the admin's clock
        self.lost = threading.Event()  #: set when the lease was lost
        self.reason = ""  #: why it was lost
        self._transport = transport
        self._claim = {"token": self.token, **claim}
        self._timeout = timeout
        self._on_wait = on_wait
        self._on_lost = on_lost
        self._sleep = sleep
        self._clock = clock
        self._lease_seconds = float(claim["lease_seconds"])
        self._ends_at = 0.0  #: by the clock here
        self._may_be_held = False  #: whether a claim was sent and not answered
        self._stopped = threading.Event()
        self._renewing: threading.Thread | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.acquire()
        self.keep()
        return self

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        self.release()
        if self.lost.is_set():
            if error is None:
                self.check()
            else:
                error.add_note(self._lost_message)

    def check(self) -> None:
        """TokensLost where the lease was lost."""
        if self.number is not None and not self._stopped.is_set() and self._clock() >= self._ends_at:
            self._lose("it was not renewed in time")
        if self.lost.is_set():
            raise TokensLost(self._lost_message)

    def acquire(self) -> None:
        """Wait in line until the tokens are granted; TokensExhausted when the timeout is over."""
        deadline = None if self._timeout is None else self._clock() + self._timeout
        try:
            self._wait(deadline)
        except BaseException:
            self._leave_line()
            raise

    def keep(self) -> None:
        """Renew the tokens in the background until they are given back."""
        self._renewing = threading.Thread(target=self._renew, name=f"rainbow-tokens-{self.token}", daemon=True)
        self._renewing.start()

    def when_lost(self, call: Callable[[str], None]) -> None:
        """Call a function with the reason when the lease is lost; to be set before `keep`."""
        self._on_lost = call

    def release(self) -> None:
        """Renew no longer, and give the tokens back; their lease does that where the admin cannot be reached."""
        self._stopped.set()
        if self._renewing is not None:
            self._renewing.join()
        if self.number is None or self.lost.is_set():
            return
        may_have_arrived = False
        for attempt in range(_RELEASES):
            try:
                self._call("token_releases", "release", self._holding())
                return
            except Conflict as error:
                if error.name == NOT_HELD and not may_have_arrived:
                    self._lose(error.message)
                return
            except (Unreachable, ServerError) as error:
                may_have_arrived = True
                if attempt < _RELEASES - 1:
                    self._sleep(_pause(attempt, error))
            except ClientError:
                return  # the lease is what is left

    @property
    def _lost_message(self) -> str:
        return f"The lease of {_amounts(self.pools)} was lost: {self.reason}. Others may have got the tokens since."

    def _wait(self, deadline: float | None) -> None:
        claim = {**self._claim, "wait_seconds": 0 if self._timeout == 0 else _LINE_SECONDS}
        unanswered_at: float | None = None
        failures, is_first = 0, True
        while True:
            asked_at = self._clock()
            answer, failure = None, None
            try:
                answer = self._ask(claim)
            except (Unreachable, ServerError) as error:
                if is_first and error.status is None and not isinstance(error, Unanswered):
                    raise
                failure = error
            if answer is not None and answer["status"] != "exhausted":
                # A request that was not answered may be what was granted.
                self._hold(answer, asked_at if unanswered_at is None else unanswered_at)
                return
            if answer is None:
                unanswered_at = asked_at if unanswered_at is None else unanswered_at
                failures += 1
            else:
                unanswered_at, failures = None, 0
            left = None if deadline is None else deadline - self._clock()
            if left is not None and left <= 0:
                raise failure or _exhausted(self.pools, answer or {}, self._timeout or 0)
            if answer is not None and self._on_wait is not None:
                self._on_wait(answer)
            pause = float((answer or {}).get("retry_seconds") or 1.0) if failure is None else _pause(failures, failure)
            self._sleep(pause if left is None else min(pause, left))
            is_first = False

    def _ask(self, claim: Document) -> Document:
        self._may_be_held = True
        answer = self._call("token_allocations", "claim", claim)
        self._may_be_held = False
        return answer

    def _hold(self, answer: Document, asked_at: float) -> None:
        with self._lock:
            self.expires_at = answer["expires_at"]
            self.number = answer["number"]
            self._lease_seconds = float(answer.get("lease_seconds") or self._lease_seconds)
            self._ends_at = asked_at + self._lease_seconds

    def _renew(self) -> None:
        pause, failures, reason = self._until_next_renewal(), 0, ""
        while not self._stopped.wait(pause):
            asked_at = self._clock()
            left = self._ends_at - asked_at
            if left <= 0:
                self._lose(f"it was not renewed in time{reason}")
                return
            try:
                answer = self._call("token_renewals", "renewal", self._holding(), timeout=max(left, 0.1))
            except Exception as error:  # whatever it is, the lease may not run out unnoticed
                if getattr(error, "name", "") == NOT_HELD:
                    self._lose(str(error))
                    return
                failures, reason = failures + 1, f": {error}"
                pause = max(0.0, min(_pause(failures, error), self._ends_at - self._clock()))
            else:
                failures, reason = 0, ""
                self._hold(answer, asked_at)
                pause = self._until_next_renewal()

    def _until_next_renewal(self) -> float:
        return max(0.0, self._ends_at - self._clock() - self._lease_seconds * (1 - 1 / _RENEWALS))

    def _lose(self, reason: str) -> None:
        with self._lock:
            if self.lost.is_set():
                return
            self.reason = reason.strip().rstrip(".")
            self.lost.set()
        if self._on_lost is not None:
            self._on_lost(self._lost_message)

    def _leave_line(self) -> None:
        """Wait no longer, as far as the admin can be told; whatever it granted meanwhile goes back too."""
        with suppress(RainbowError):  # the place in line, or the lease, ends by itself
            if self._may_be_held:  # only the number of the grant gives it back
                answer = self._ask({**self._claim, "wait_seconds": 0})
                if answer["status"] == "exhausted":
                    return  # asking without waiting has left the line
                self._hold(answer, self._clock())
            self._call("token_releases", "release", self._holding())

    def _holding(self) -> Document:
        """What is held, with all that an admin needs to know whose backend has lost the grant."""
        claim = {key: value for key, value in self._claim.items() if key not in ("priority", "constraints")}
        numbered = {} if self.number is None else {"number": self.number, "expires_at": self.expires_at}
        return {**claim, "lease_seconds": self._lease_seconds, **numbered}

    def _call(self, path: str, key: str, body: Document, timeout: float | None = None) -> Document:
        # Repeated here, so that nothing waits for longer than a lease.
        is_safe = path != "token_releases"
        return self._transport.call("POST", path, body={key: body}, is_safe=is_safe, timeout=timeout, retries=0)


def _pause(failures: int, error: Exception) -> float:
    asked_for = getattr(error, "retry_after", None)
    return min(asked_for or _FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 10), _LONGEST_PAUSE_SECONDS)


def _amounts(pools: dict[str, int]) -> str:
    return ", ".join(f"{amount} of {pool}" for pool, amount in sorted(pools.items()))


def _exhausted(pools: dict[str, int], answer: Document, waited: float) -> TokensExhausted:
    """The error of a claim that was not granted in time: what is full, who holds it, and its place in line."""
    within = f" within {format_duration(waited) if waited >= 60 else f'{waited:g} s'}" if waited else ""
    full = list(answer.get("full") or [])
    details = [{"field": entry["pool"], "reason": full_text(entry)} for entry in full]
    reasons = "; ".join(f"{detail['field']}: {detail['reason']}" for detail in details) or answer.get("reason") or ""
    why = f": {reasons.rstrip('.')}" if reasons else ""
    place = f" Place {answer['place']} of {answer['waiting']} in line." if answer.get("place") else ""
    error = TokensExhausted(f"{_amounts(pools)} not granted{within}{why}.{place}", details=details)
    error.full, error.place = full, answer.get("place")
    return error


def full_text(entry: Document) -> str:
    """A limit that is full, in a sentence: which level, what sets it, and who holds the tokens."""
    kept = f", {entry['promised']} more are kept for those ahead" if entry.get("promised") else ""
    text = f"{entry['used']} of {entry['cap']} are held{kept}, by {entry['origin']} (level {entry['level']})"
    names = [_holder(holder) for holder in entry.get("holders") or []]
    others = int(entry.get("holder_count") or 0) - len(names)
    held = [*names, *([f"{others} others"] if others > 0 and names else [])]
    return f"{text}; held by {', '.join(held)}" if held else text


def _holder(holder: Document) -> str:
    place = "/".join(str(holder[key]) for key in ("project", "domain", "execution") if holder.get(key))
    name = place or holder.get("holder") or holder.get("token") or "a scope that you may not see"
    return f"{name} ({holder['amount']})"
