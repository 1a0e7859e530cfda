"""An engine whose faults are contained: one that fails in an unforeseen way must not end the watch over the leases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from agent.engines.base import Engine, EngineError, EngineUnavailable, Handle, NativeState, Task

P = ParamSpec("P")
T = TypeVar("T")


def _tried(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a call gives; what it raises that is no EngineError means that nothing is known."""
    try:
        return call(*args, **kwargs)
    except EngineError:
        raise
    except Exception as error:
        raise EngineUnavailable(f"the engine failed: {type(error).__name__}: {error}") from error


class CarefulEngine:
    """An engine that raises nothing but EngineErrors."""

    def __init__(self, engine: Engine) -> None:
        self.name = engine.name
        self.poll_seconds = float(getattr(engine, "poll_seconds", 0.5))
        self.is_shared = bool(getattr(engine, "is_shared", False))
        self._engine = engine

    def version(self) -> str:
        """As the engine says."""
        return _tried(self._engine.version)

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """As the engine says."""
        return _tried(self._engine.capacity)

    def check(self, task: Task) -> str:
        """As the engine says; a job that it cannot even read is declined."""
        try:
            return self._engine.check(task)
        except EngineError:
            raise
        except Exception as error:
            return f"the {self.name} engine cannot read the job: {error}"

    def submit(self, task: Task) -> Handle:
        """As the engine does."""
        return _tried(self._engine.submit, task)

    def find(self, key: str) -> Handle | None:
        """As the engine says."""
        return _tried(self._engine.find, key)

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """As the engine says."""
        return _tried(self._engine.states, handles)

    def cancel(self, handle: Handle) -> None:
        """As the engine does."""
        _tried(self._engine.cancel, handle)

    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        """As the engine says."""
        return _tried(self._engine.logs, handle, stream, offset, limit)

    def read_output(self, handle: Handle, path: str, limit: int) -> tuple[bytes, int, bool] | None:
        """As the engine says."""
        return _tried(self._engine.read_output, handle, path, limit)

    def eta(self, task: Task) -> float | None:
        """As the engine says."""
        return _tried(self._engine.eta, task)

    def forget(self, handle: Handle) -> None:
        """As the engine does."""
        _tried(self._engine.forget, handle)
