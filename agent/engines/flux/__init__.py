"""The Flux engine: jobs of a Flux instance, the system's or a user's own."""

from __future__ import annotations

from agent.engines.flux.engine import FluxEngine

__all__ = ["FluxEngine"]
