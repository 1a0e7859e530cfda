"""The local engine: real processes on the agent's own machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]


def __getattr__(name: str) -> type[LocalEngine]:
    # Imported on first use: each job starts a supervisor from this package, which does not need the engine.
    if name != "LocalEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent.engines.local.engine import LocalEngine

    return LocalEngine
