"""States of Flux jobs from their events; those of a job that ended well were recorded from Flux 0.88."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.engines.base import NativePhase
from agent.engines.batch.job_files import ENDED, MARK
from agent.engines.command_engine import TASK
from agent.engines.flux.states import FluxJob, state_of

_RECORDED = """\
{"timestamp":1794705374.7277932,"name":"submit","context":{"userid":0,"urgency":16,"flags":0,"version":1}}
{"timestamp":1794705374.7397006,"name":"validate"}
{"timestamp":1794705374.7508028,"name":"depend"}
{"timestamp":1794705374.7508459,"name":"priority","context":{"priority":16}}
{"timestamp":1794705374.7611442,"name":"alloc","context":{"annotations":{"sched":{"resource_summary":"rank0/core0"}}}}
{"timestamp":1794705374.7703619,"name":"start"}
{"timestamp":1794705374.8227911,"name":"finish","context":{"status":0}}
{"timestamp":1794705374.8248343,"name":"release","context":{"ranks":"all","final":true}}
{"timestamp":1794705374.8249638,"name":"free"}
{"timestamp":1794705374.8249817,"name":"clean"}
"""
EVENTS = [json.loads(line) for line in _RECORDED.splitlines()]


def job_of(*events: Mapping[str, Any], until: str = "clean", status: int = 0) -> FluxJob:
    """The recorded job up to an event, with more events before that, and with another status."""
    names = [event["name"] for event in EVENTS]
    kept = [json.loads(json.dumps(event)) for event in EVENTS[: names.index(until) + 1]]
    for event in kept:
        if event["name"] == "finish":
            event["context"]["status"] = status
    return FluxJob([*kept[:-1], *events, kept[-1]])


def exception(type_: str, note: str = "", severity: int = 0) -> dict[str, Any]:
    context = {"type": type_, "severity": severity, "note": note}
    return {"timestamp": 1794705374.8, "name": "exception", "context": context}


@pytest.mark.parametrize(
    ("until", "phase"),
    [
        ("submit", NativePhase.QUEUED),
        ("priority", NativePhase.QUEUED),
        ("alloc", NativePhase.QUEUED),
        ("start", NativePhase.RUNNING),
        ("finish", NativePhase.RUNNING),  # its processes have ended, its nodes are not free
        ("free", NativePhase.RUNNING),
        ("clean", NativePhase.SUCCEEDED),
    ],
)
def test_the_phase_of_a_job_follows_its_events(tmp_path: Path, until: str, phase: NativePhase) -> None:
    assert state_of(job_of(until=until), ("n1",), tmp_path).phase is phase


def test_a_job_that_ended_has_its_times_and_nodes(tmp_path: Path) -> None:
    state = state_of(job_of(), ("n1",), tmp_path)
    assert state.started_at is not None
    assert state.finished_at is not None
    assert (state.started_at.timestamp(), state.finished_at.timestamp()) == (1794705374.770362, 1794705374.822791)
    assert (state.nodes, state.exit_code) == (("n1",), 0)


@pytest.mark.parametrize(
    ("status", "ending", "outcome"),
    [
        (7 << 8, "7 -", (7, None, "")),
        (143 << 8, "143 -", (None, 15, "SIGNAL")),
        (9, "", (None, 9, "SIGNAL")),
        (127 << 8, "127 COMMAND_NOT_FOUND", (127, None, "COMMAND_NOT_FOUND")),
        (75 << 8, "75 LEASE_OVER", (None, None, "CLUSTER_LOST")),
    ],
)
def test_the_end_of_a_job_is_told_by_its_status_and_its_files(
    tmp_path: Path, status: int, ending: str, outcome: tuple[Any, ...]
) -> None:
    (tmp_path / MARK).write_text("f1\n")
    (tmp_path / TASK).write_text('{"command": "train"}')
    if ending:
        (tmp_path / ENDED).write_text(f"{ending}\n")
    state = state_of(job_of(status=status), ("n1",), tmp_path)
    assert state.phase is NativePhase.FAILED
    assert (state.exit_code, state.signal, state.reason) == outcome


@pytest.mark.parametrize(
    ("type_", "note", "phase", "reason", "message"),
    [
        ("cancel", "", NativePhase.ABORTED, "", ""),
        ("timeout", "resource allocation expired", NativePhase.TIMED_OUT, "TIME_LIMIT", "longer than its limit of 1 s"),
        ("alloc", "unsatisfiable request", NativePhase.FAILED, "ALLOC", "Flux ended it: alloc: unsatisfiable request."),
    ],
)
def test_what_ended_a_job_is_its_first_fatal_exception(
    tmp_path: Path, type_: str, note: str, phase: NativePhase, reason: str, message: str
) -> None:
    (tmp_path / TASK).write_text('{"time_limit_seconds": 1.0}')
    events = exception("warning", severity=4), exception(type_, note), exception("exec", "killed")
    state = state_of(job_of(*events, status=15), ("n1",), tmp_path)
    assert (state.phase, state.reason, state.exit_code) == (phase, reason, None)
    assert message in state.message


def test_a_job_that_never_had_resources_has_not_started(tmp_path: Path) -> None:
    job = FluxJob([EVENTS[0], exception("cancel"), {"timestamp": 1794705375.0, "name": "clean"}])
    state = state_of(job, (), tmp_path)
    assert (state.phase, state.started_at, state.finished_at) == (NativePhase.ABORTED, None, None)


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ({"reason_pending": "no gpus"}, "Flux says: no gpus"),
        ({"t_estimate": 1794705375.0}, "Flux expects to start it at 2026-11-15 01:16:15 UTC."),
        ({}, ""),
    ],
)
def test_a_job_waits_for_the_reason_that_the_scheduler_gives(
    tmp_path: Path, scheduler: dict[str, Any], message: str
) -> None:
    event = {"timestamp": 1794705374.76, "name": "annotations", "context": {"annotations": {"sched": scheduler}}}
    assert state_of(job_of(event, until="priority"), (), tmp_path).message == message
