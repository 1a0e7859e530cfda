"""Limits that engines set unless their options say otherwise."""

from __future__ import annotations

#: What is kept of each stream of a job.
LOG_LIMIT_BYTES = 64 << 20
