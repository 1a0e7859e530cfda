"""Calls of Redis: one script does an operation, or all that came at once; and what is known of whether it answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from admin.core.json_text import json_string, json_value
from admin.core.token_pools.grants import Grant
from admin.store.group_commit import GroupCommit
from admin.store.token_backends.base import TokensUnavailable
from admin.store.token_backends.redis_client import warn_of_evictions
from admin.store.token_backends.redis_clock import RedisClock
from admin.store.token_backends.redis_documents import Document, read_grant

if TYPE_CHECKING:
    from redis.commands.core import Script

    from admin.store.token_backends.redis_client import Client

#: What is kept of a pool, in the order of the script's keys.
_PARTS = ("grants", "waiters", "sums", "ends", "order", "line", "queues", "stays")
#: The files of the script, in their order.
_FILES = ("common", "allocate", "renew", "release", "usage", "used", "run")
#: Operations that are done by one script, for which others wait.
_MAX_OPERATIONS = 32
#: How often a Redis that does not answer is asked in the background, and how many times before that must begin anew.
_PROBE_SECONDS, _PROBES = 0.5, 60
#: How long requests wait for that; longer than from one probe to the next.
_AWAIT_SECONDS = 1.0


@cache
def _script() -> str:
    return "".join((Path(__file__).parent / f"scripts/{name}.lua").read_text() for name in _FILES)


class _Operation(NamedTuple):
    """What the script is asked to do."""

    name: str
    pools: Sequence[str]  #: sorted
    request: Mapping[str, object]

    @property
    def document(self) -> str:
        return json_string({**self.request, "operation": self.name, "pools": self.pools})


class RedisCalls:
    """Asks Redis for operations on pools, and knows whether it answers."""

    def __init__(
        self,
        client: Callable[[], Client],
        brief_client: Callable[[], Client],
        tag: str,
        longest_lease_seconds: float,
        monotonic: Callable[[], float],
        reclaimed: Callable[[list[Grant]], None],
    ) -> None:
        self._tag = tag
        self._grace = int(longest_lease_seconds * 1000)  #: for which nothing is granted after a restart
        self._reclaimed = reclaimed  #: told of the grants whose leases were over
        self._clock = RedisClock(monotonic)
        self.failure: TokensUnavailable | None = None  #: of the last call
        self._probing = threading.Lock()  #: held by the one thread that asks until Redis answers
        # By whether calls are brief. They connect when they are needed first, for a cluster must be reachable then.
        self._clients = {False: cache(client), True: cache(brief_client)}
        self._scripts: dict[bool, Script] = {}
        # Of several threads that ask at the same time one asks for all.
        self._together: GroupCommit[_Operation, Document | TokensUnavailable] = GroupCommit(
            self._operate_together, _MAX_OPERATIONS
        )

    def call(self, name: str, pools: Iterable[str], request: Mapping[str, object], *, brief: bool = False) -> Document:
        """Do an operation: briefly, and so together with no others, where a transaction waits for it."""
        operation = _Operation(name, sorted(set(pools)), request)
        if brief:
            return self._operate([operation], brief=True)[0]
        [outcome] = self._together.submit([operation])
        if isinstance(outcome, TokensUnavailable):
            raise outcome
        return outcome

    def _operate_together(self, operations: list[_Operation]) -> list[Document | TokensUnavailable]:
        """Do what several threads ask for; while Redis was waited for in vain they have waited long enough."""
        if (failure := self.failure) is not None:  # read once: another thread may end it meanwhile
            return [failure] * len(operations)
        try:
            return [*self._operate(operations)]
        except TokensUnavailable as error:
            return [error] * len(operations)

    def _operate(self, operations: Sequence[_Operation], *, brief: bool = False) -> list[Document]:
        from redis import RedisError

        names = sorted({pool for operation in operations for pool in operation.pools})
        keys = [f"{{{self._tag}}}:state"]
        for name in names:
            keys += [f"{{{self._tag}}}:{part}:{name}" for part in _PARTS]
        begun_at = self._clock.now()
        statement = self._clock.statement(begun_at)
        common = json_string({"pools": names, "grace": self._grace, **statement})
        try:
            if brief not in self._scripts:
                client = self._clients[brief]()
                if not self._scripts:
                    warn_of_evictions(client)
                self._scripts[brief] = client.register_script(_script())
            arguments = [common, *(operation.document for operation in operations)]
            told, *answers = map(json_value, self._scripts[brief](keys=keys, args=arguments))
        except (RedisError, OSError) as error:
            self._clock.note_failure(begun_at)
            failure = self.failure = TokensUnavailable(f"Redis does not answer: {str(error).rstrip('.')}")
            raise failure from error
        self.failure = None
        self._clock.note_answer(begun_at, told["now"], was_in_doubt=statement["in_doubt"])
        if told["reclaimed"]:
            self._reclaimed([read_grant(pool, grant) for pool, grant in told["reclaimed"]])
        return answers

    def probe(self, then: Callable[[], None], *, is_owed: bool) -> None:
        """If Redis did not answer last, or something is owed, ask in the background until it answers, and then do that.

        Nobody waits for it.
        """
        if (self.failure is None and not is_owed) or not self._probing.acquire(blocking=False):
            return
        try:
            threading.Thread(target=self._probe, args=(then,), name="redis", daemon=True).start()
        except RuntimeError:  # there are too many threads already; a later sync tries again
            self._probing.release()

    def await_probe(self, then: Callable[[], None]) -> None:
        """If Redis did not answer last, wait a moment until it does, rather than for another timeout."""
        failure = self.failure
        if failure is None:
            return
        self.probe(then, is_owed=False)
        if not self._probing.acquire(timeout=_AWAIT_SECONDS):
            raise failure
        self._probing.release()

    def _probe(self, then: Callable[[], None]) -> None:
        try:
            for _ in range(_PROBES):
                with suppress(TokensUnavailable):
                    self._operate([_Operation("used", [""], {"buckets": []})])
                    then()
                    return
                time.sleep(_PROBE_SECONDS)
        finally:
            self._probing.release()
