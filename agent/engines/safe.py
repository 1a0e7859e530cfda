"""An engine whose unforeseen exceptions are contained, so that a fault in it does not stop the watch over leases."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from agent.engines.base import Bid, Engine, EngineError, EngineUnavailable, Handle, Orphan, Task, bid_of

P = ParamSpec("P")
T = TypeVar("T")


def _contained(method: Callable[P, T]) -> Callable[P, T]:
    """A method whose exceptions other than EngineError become EngineUnavailable."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except EngineError:
            raise
        except Exception as error:
            raise EngineUnavailable(f"the engine failed: {type(error).__name__}: {error}") from error

    return call


class SafeEngine:
    """Has the methods of an engine, which raise nothing but EngineError."""

    def __init__(self, engine: Engine) -> None:
        self.name = engine.name
        self.poll_seconds = float(getattr(engine, "poll_seconds", 0.5))
        self.is_shared = bool(getattr(engine, "is_shared", False))
        self.guards_leases = bool(getattr(engine, "guards_leases", False))
        renew: Callable[[Mapping[Handle, float]], None] = getattr(engine, "renew", lambda seconds: None)
        self.renew = _contained(renew)
        self.can_withdraw = hasattr(engine, "withdraw")
        withdraw: Callable[[Handle], bool] = getattr(engine, "withdraw", lambda handle: False)
        self.withdraw = _contained(withdraw)
        must_wait: Callable[[Task], str] = getattr(engine, "must_wait", lambda task: "")
        self.must_wait = _contained(must_wait)
        room: Callable[[], dict[str, Any] | None] = getattr(engine, "room", lambda: None)
        self.room = _contained(room)
        graph: Callable[[], dict[str, Any] | None] = getattr(engine, "graph", lambda: None)
        self.graph = _contained(graph)
        node_room: Callable[[], dict[str, Any] | None] = getattr(engine, "node_room", lambda: None)
        self.node_room = _contained(node_room)
        orphans: Callable[[Collection[str]], list[Orphan]] = getattr(engine, "orphans", lambda known: [])
        self.orphans = _contained(orphans)
        self.version = _contained(engine.version)
        self.capacity = _contained(engine.capacity)
        self.submit = _contained(engine.submit)
        self.find = _contained(engine.find)
        self.states = _contained(engine.states)
        self.cancel = _contained(engine.cancel)
        self.logs = _contained(engine.logs)
        log_parts: Callable[[Handle, str], list[tuple[int, int]]] = getattr(engine, "log_parts", lambda *of: [])
        self.log_parts = _contained(log_parts)
        self.read_output = _contained(engine.read_output)
        self.eta = _contained(engine.eta)
        self.forget = _contained(engine.forget)
        self._check = engine.check
        self._bid = _contained(partial(bid_of, engine))

    def bid(self, task: Task) -> Bid:
        """What the engine bids; a bid that is none counts as no answer of the engine."""
        bid = self._bid(task)
        if bid.answer != "yes":
            return bid
        seconds, cost = bid.start_seconds, bid.cost
        if not all(number is None or (math.isfinite(number) and number >= 0) for number in (seconds, cost)):
            raise EngineUnavailable(f"the {self.name} engine bids {seconds} s at a cost of {cost}")
        if seconds is None:
            raise EngineUnavailable(f"the {self.name} engine bids no start")
        return bid

    def check(self, task: Task) -> str:
        """A job that the engine cannot read is declined."""
        try:
            return self._check(task)
        except EngineError:
            raise
        except Exception as error:
            return f"the {self.name} engine cannot read the job: {error}"
