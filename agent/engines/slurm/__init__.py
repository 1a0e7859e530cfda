"""The Slurm engine: batch jobs on a cluster that has Slurm."""

from __future__ import annotations

from agent.engines.slurm.engine import SlurmEngine

__all__ = ["SlurmEngine"]
