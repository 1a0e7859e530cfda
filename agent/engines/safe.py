"""An engine whose unforeseen exceptions are contained, so that a fault in it does not stop the watch over leases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from agent.engines.base import Engine, EngineError, EngineUnavailable, Handle, NativeState, Task

P = ParamSpec("P")
T = TypeVar("T")


def _contain(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a call; an exception that is not an EngineError becomes EngineUnavailable."""
    try:
        return call(*args, **kwargs)
    except EngineError:
        raise
    except Exception as error:
        raise EngineUnavailable(f"the engine failed: {type(error).__name__}: {error}") from error


class SafeEngine:
    """Passes each call on to an engine, and raises nothing but EngineError."""

    def __init__(self, engine: Engine) -> None:
        self.name = engine.name
        self.poll_seconds = float(getattr(engine, "poll_seconds", 0.5))
        self.is_shared = bool(getattr(engine, "is_shared", False))
        self._engine = engine

    def version(self) -> str:
        return _contain(self._engine.version)

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return _contain(self._engine.capacity)

    def check(self, task: Task) -> str:
        """A job that the engine cannot read is declined."""
        try:
            return self._engine.check(task)
        except EngineError:
            raise
        except Exception as error:
            return f"the {self.name} engine cannot read the job: {error}"

    def submit(self, task: Task) -> Handle:
        return _contain(self._engine.submit, task)

    def find(self, key: str) -> Handle | None:
        return _contain(self._engine.find, key)

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        return _contain(self._engine.states, handles)

    def cancel(self, handle: Handle) -> None:
        _contain(self._engine.cancel, handle)

    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        return _contain(self._engine.logs, handle, stream, offset, limit)

    def read_output(self, handle: Handle, path: str, limit: int) -> tuple[bytes, int, bool] | None:
        return _contain(self._engine.read_output, handle, path, limit)

    def eta(self, task: Task) -> float | None:
        return _contain(self._engine.eta, task)

    def forget(self, handle: Handle) -> None:
        _contain(self._engine.forget, handle)
