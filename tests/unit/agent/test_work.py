"""The work of an agent: what it does about each lease, step by step."""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agent.engines.base import EngineUnavailable, Handle, NativeState, NothingDone, SubmitRefused
from agent.engines.safe import SafeEngine
from agent.guard import LeaseGuard
from agent.intents import Ending, Stage
from agent.state_directory import StateDirectory
from agent.tasks import key_of
from agent.testing import (
    ABORTED,
    ABORTED_IN_QUEUE,
    FAILED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    UNKNOWN,
    FakeClock,
    FakeEngine,
    Program,
)
from agent.work import Work

ID = {"project": "p", "domain": "d", "name": "n"}
REFERENCE = {"id": ID, "attempt": 1}
KEY = key_of(REFERENCE)
LEASE: dict[str, Any] = {**REFERENCE, "lease_seconds": 60, "job": {"command": ["true"]}, "config": {}}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def engine() -> FakeEngine:
    """An engine whose jobs change only when the test says so."""
    return FakeEngine(ends_on_cancel=False)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    directory = StateDirectory(tmp_path)
    yield directory
    directory.close()


@pytest.fixture
def guarding() -> FakeEngine:
    """An engine that guards leases."""
    return FakeEngine(ends_on_cancel=False, guards_leases=True)


@pytest.fixture
def work(engine: FakeEngine, state: StateDirectory, clock: FakeClock) -> Work:
    return new_work(engine, state, clock)


def new_work(engine: FakeEngine, state: StateDirectory, clock: FakeClock, slots: int = 10) -> Work:
    guard = LeaseGuard()
    return Work(SafeEngine(engine), state, guard, cluster="alpha", slots=slots, poll_seconds=0.0, clock=clock)


def event_types(work: Work) -> list[str]:
    return [event["type"] for event in work.outbox.events()]


def accept(work: Work) -> None:
    work.settle({event["event"] for event in work.outbox.events()})


def started(work: Work, clock: FakeClock, **more: Any) -> None:
    """Bring an execution to the point where the engine has its job."""
    work.accept([{**LEASE, **more}])
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    work.step()


def ended_before(work: Work, engine: FakeEngine, clock: FakeClock, native: NativeState, **more: Any) -> None:
    """Start an attempt, lose its lease and end its job, so that the agent has nothing left of it but its past."""
    started(work, clock, **more)
    work.end_lost([{**REFERENCE, "reason": "LEASE_EXPIRED"}])
    engine.jobs[KEY] = native
    work.step()
    accept(work)


def running(work: Work, engine: FakeEngine, clock: FakeClock, **more: Any) -> None:
    """Bring an execution to the point where its job is about to be seen running."""
    started(work, clock, **more)
    engine.jobs[KEY] = RUNNING


def pass_time(work: Work, clock: FakeClock, seconds: int) -> None:
    """Let an agent that is not paused work for so many seconds."""
    for _ in range(seconds):
        clock.advance(1)
        work.step()


def test_nothing_is_submitted_before_it_is_confirmed(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    work.accept([LEASE])
    work.step()
    assert (engine.submitted, work.is_unconfirmed) == ([], True)
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    work.step()
    assert [task.key for task in engine.submitted] == [KEY]
    work.step()
    assert len(engine.submitted) == 1


def test_an_execution_from_lease_to_report(
    work: Work, engine: FakeEngine, clock: FakeClock, state: StateDirectory
) -> None:
    engine.programs["true"] = Program(files={"there": b"data"})
    started(work, clock, job={"command": ["true"], "outputs": ["there", "absent"]})
    assert event_types(work) == []
    engine.jobs[KEY] = RUNNING
    work.step()
    assert event_types(work) == ["RUNNING"]
    assert work.outbox.events()[0]["native_id"] == "1"
    assert work.outbox.events()[0]["nodes"] == ["n1"]
    accept(work)
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    event = work.outbox.events()[0]
    assert (event["type"], event["exit_code"], event["duration"]) == ("SUCCEEDED", 0, 0.0)
    assert event["outputs"] == [
        {"path": "there", "content_base64": base64.b64encode(b"data").decode(), "size": 4, "truncated": False}
    ]
    assert event["message"] == "It left no absent beneath its working directory."
    accept(work)
    assert (work.intents, state.load_intents(), engine.forgotten) == ({}, ([], []), [KEY])


def test_a_job_that_ended_between_two_polls_is_reported_as_running_first(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    started(work, clock)
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    assert event_types(work) == ["RUNNING", "SUCCEEDED"]


def test_the_environment_names_the_execution(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    config = {"raw_output_data_config": {"output_location_prefix": "s3://x"}}
    started(work, clock, job={"command": ["true"], "environment": {"A": "b"}}, config=config, queue="gpu")
    task = engine.submitted[0]
    assert task.environment == {
        "A": "b",
        "RAINBOW_PROJECT": "p",
        "RAINBOW_DOMAIN": "d",
        "RAINBOW_EXECUTION": "n",
        "RAINBOW_ATTEMPT": "1",
        "RAINBOW_CLUSTER": "alpha",
        "RAINBOW_KEY": KEY,
        "RAINBOW_OUTPUT_PREFIX": "s3://x",
    }
    assert task.queue == "gpu"


def test_the_same_offer_twice_is_one_intent(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    work.accept([LEASE])
    work.step()
    assert len(engine.submitted) == len(work.intents) == 1


def test_an_offer_that_the_engine_cannot_run_is_declined(work: Work, engine: FakeEngine) -> None:
    engine.decline_reason = "no such partition"
    work.accept([LEASE])
    assert work.intents == {}
    assert (event_types(work), work.outbox.events()[0]["message"]) == (["DECLINED"], "no such partition")
    accept(work)
    assert event_types(work) == []


def test_a_submission_that_is_refused_is_declined(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    engine.failures["submit"] = SubmitRefused("invalid account")
    started(work, clock)
    assert (event_types(work), work.outbox.events()[0]["message"]) == (["DECLINED"], "invalid account")


def test_a_submission_of_which_nothing_came_is_tried_again_without_a_look_up(
    work: Work, engine: FakeEngine, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine.failures["submit"] = NothingDone("not yet")
    with caplog.at_level(logging.INFO):
        started(work, clock)
        work.step()
    assert (work.problem, event_types(work)) == ("not yet", [])
    assert [intent.stage for intent in work.intents.values()] == [Stage.HELD]
    assert "had not been submitted" not in caplog.text
    del engine.failures["submit"]
    work.step()
    assert [intent.stage for intent in work.intents.values()] == [Stage.SUBMITTED]


def test_a_job_that_the_engine_cannot_read_is_declined(work: Work, engine: FakeEngine) -> None:
    engine.failures["check"] = ValueError("two is not a number")
    work.accept([LEASE])
    message = work.outbox.events()[0]["message"]
    assert (event_types(work), message) == (["DECLINED"], "the fake engine cannot read the job: two is not a number")


def test_no_more_jobs_are_submitted_than_there_are_slots(
    engine: FakeEngine, state: StateDirectory, clock: FakeClock
) -> None:
    work = new_work(engine, state, clock, slots=2)
    ids = [{"id": {**ID, "name": f"n{number}"}, "attempt": 1} for number in range(3)]
    work.accept([{**LEASE, **reference} for reference in ids])
    work.leases.renew(ids, clock.steady(), confirms=True)
    work.step()
    work.step()
    assert len(engine.submitted) == 2
    engine.jobs[engine.submitted[0].key] = SUCCEEDED
    work.step()
    assert len(engine.submitted) == 3


def test_why_jobs_wait_in_the_engine_is_told_in_its_words(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    reference = {**REFERENCE, "uid": "aaaa"}
    started(work, clock, uid="aaaa")
    key = key_of(reference)
    engine.jobs[key] = replace(QUEUED, message="Kubernetes says: " + "x" * 1000)
    clock.advance(60)
    work.leases.renew([reference], clock.steady(), confirms=True)
    work.step()
    assert work.queued == {"aaaa": ("Kubernetes says: " + "x" * 1000)[:500]}
    engine.jobs[key] = RUNNING
    clock.advance(10)
    work.step()
    assert work.queued == {}


def test_what_cannot_start_beside_others_waits_and_what_was_leased_after_it_too(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    references = [{"id": {**ID, "name": f"n{number}"}, "attempt": 1} for number in range(3)]
    keys = [key_of(reference) for reference in references]
    engine.waits = {keys[1]: "the machine is in use"}
    work.accept([{**LEASE, **reference} for reference in references])
    work.leases.renew(references, clock.steady(), confirms=True)
    work.step()
    work.step()
    assert [task.key for task in engine.submitted] == keys[:1]
    assert (work.waits_for, work.is_startable) == ("the machine is in use", False)
    assert [task.key for task in work.held_back] == keys[1:]
    work.cancel([{**references[1], "reason": "enough"}])
    work.step()
    assert [task.key for task in engine.submitted] == [keys[0], keys[2]]
    assert (work.waits_for, work.held_back) == ("", [])


def test_a_cancel_before_the_start(work: Work, engine: FakeEngine) -> None:
    work.accept([LEASE])
    work.cancel([{**REFERENCE, "reason": "enough"}])
    assert (event_types(work), engine.cancelled) == (["ABORTED"], [])
    work.step()
    assert engine.submitted == []


def test_a_cancel_is_repeated_until_it_is_over(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    running(work, engine, clock)
    work.step()
    accept(work)
    work.cancel([{**REFERENCE, "reason": "enough"}])
    work.step()
    work.step()
    assert engine.cancelled == [KEY]
    clock.advance(5)
    work.step()
    assert (engine.cancelled, event_types(work)) == ([KEY, KEY], [])
    engine.jobs[KEY] = ABORTED
    work.step()
    assert (event_types(work), work.outbox.events()[0]["message"]) == (["ABORTED"], "enough")


@pytest.mark.parametrize("end", [SUCCEEDED, ABORTED, UNKNOWN])
def test_a_cancelled_execution_ends_aborted_however_its_job_ended(
    work: Work, engine: FakeEngine, clock: FakeClock, end: NativeState
) -> None:
    running(work, engine, clock)
    work.step()
    work.cancel([REFERENCE])
    engine.jobs[KEY] = end
    work.step()
    assert event_types(work)[-1] == "ABORTED"


def test_a_lease_lost_before_the_start_is_handed_back(work: Work, state: StateDirectory) -> None:
    work.accept([LEASE])
    work.end_lost([{**REFERENCE, "reason": "NOT_YOURS"}])
    assert event_types(work) == ["RELEASED"]
    accept(work)
    assert (work.intents, state.load_intents(), event_types(work)) == ({}, ([], []), [])


@pytest.mark.parametrize(
    ("end", "reported"),
    [(ABORTED, "FAILED"), (ABORTED_IN_QUEUE, "RELEASED"), (SUCCEEDED, "SUCCEEDED"), (UNKNOWN, "UNKNOWN")],
)
def test_an_execution_whose_lease_is_lost_is_ended_and_its_end_alone_is_reported(
    work: Work, engine: FakeEngine, clock: FakeClock, state: StateDirectory, end: NativeState, reported: str
) -> None:
    started(work, clock)
    if end is not ABORTED_IN_QUEUE:
        engine.jobs[KEY] = RUNNING
        work.step()
    work.end_lost([{**REFERENCE, "reason": "OLD_ATTEMPT"}])
    work.step()
    assert engine.cancelled == [KEY]
    engine.jobs[KEY] = end
    work.step()
    assert (event_types(work), state.load_intents()[0][0].stage) == ([reported], Stage.ENDED)
    accept(work)
    assert (event_types(work), work.intents, state.load_intents()) == ([], {}, ([], []))


def test_an_execution_ends_before_its_lease_does(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    running(work, engine, clock)
    work.step()
    accept(work)
    pass_time(work, clock, 39)
    assert engine.cancelled == []
    pass_time(work, clock, 2)
    assert engine.cancelled == [KEY]
    engine.jobs[KEY] = ABORTED
    work.step()
    event = work.outbox.events()[0]
    assert (event["type"], event["reason"]) == ("FAILED", "CLUSTER_LOST")
    assert "40 s" in event["message"]


def test_renewals_keep_an_execution_running(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    for _ in range(10):
        clock.advance(30)
        work.leases.renew([REFERENCE], clock.steady(), confirms=True)
        work.step()
    assert engine.cancelled == []


def test_a_queued_job_whose_lease_ends_is_handed_back(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    pass_time(work, clock, 41)
    engine.jobs[KEY] = ABORTED_IN_QUEUE
    work.step()
    assert event_types(work) == ["RELEASED"]


def test_nothing_is_started_with_an_old_confirmation(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    work.accept([LEASE])
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    clock.advance(41)
    work.step()
    assert engine.submitted == []
    assert work.is_unconfirmed
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    work.step()
    assert len(engine.submitted) == 1


def test_a_time_limit_that_the_engine_does_not_enforce(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    running(work, engine, clock, time_limit_seconds=10)
    work.step()
    accept(work)
    clock.advance(39)
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    work.step()
    assert engine.cancelled == []
    clock.advance(2)
    work.step()
    assert engine.cancelled == [KEY]
    engine.jobs[KEY] = ABORTED
    work.step()
    assert (event_types(work), work.outbox.events()[0]["reason"]) == (["TIMED_OUT"], "TIME_LIMIT")


def test_the_end_is_reported_after_the_log(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    engine.programs["true"] = Program(stdout=b"x" * 300_000)
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    sent = 0
    while pieces := work.outbox.log_pieces(100_000, include_running=False):
        assert event_types(work) == ["RUNNING"]
        assert [(piece["stream"], piece["offset"]) for piece in pieces] == [("stdout", sent)]
        sent += len(pieces[0]["data"])
        work.outbox.mark_logs_stored([{**REFERENCE, "stream": "stdout", "offset": sent, "full": False}])
    assert (sent, event_types(work)) == (300_000, ["RUNNING", "SUCCEEDED"])


def test_a_log_is_sent_until_the_admin_keeps_no_more(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    engine.programs["true"] = Program(stdout=b"x" * 10_000_000)
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    work.outbox.mark_logs_stored([{**REFERENCE, "stream": "stdout", "offset": 5000, "full": True}])
    assert (work.outbox.log_pieces(1000, include_running=True), event_types(work)) == ([], ["RUNNING", "SUCCEEDED"])


TAIL = {"log_limit_bytes": 1000, "log_tail_bytes": 750}


def send_all(work: Work, limit: int = 100_000) -> dict[str, list[tuple[int, bytes]]]:
    """All pieces that an admin with room for them gets, by stream."""
    sent: dict[str, list[tuple[int, bytes]]] = {}
    while pieces := work.outbox.log_pieces(limit, include_running=True):
        offsets = []
        for piece in pieces:
            data = piece["data"].encode() if "data" in piece else base64.b64decode(piece["data_base64"])
            before = sent.setdefault(piece["stream"], [])
            end = before[-1][0] + len(before[-1][1]) if before else 0
            assert piece.get("after", piece["offset"]) == end
            before.append((piece["offset"], data))
            end = piece["offset"] + len(data)
            offsets.append({**REFERENCE, "stream": piece["stream"], "offset": end, "full": False})
        work.outbox.mark_logs_stored(offsets)
    return sent


def test_what_a_job_prints_without_end_is_sent_now_and_then(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    def send(stdout: int, stderr: int) -> dict[str, int]:
        """Where what is sent of each stream begins, when a job has printed so much."""
        engine.programs["true"] = Program(stdout=b"x" * stdout, stderr=b"y" * stderr)
        pieces = work.outbox.log_pieces(100_000, include_running=True)
        ends = [{**REFERENCE, **piece, "offset": piece["offset"] + len(piece["data"])} for piece in pieces]
        work.outbox.mark_logs_stored([{**end, "full": False} for end in ends])
        return {piece["stream"]: piece["offset"] for piece in pieces}

    started(work, clock, **TAIL)
    assert send(300, 300) == {"stdout": 0, "stderr": 0}
    assert send(1_000_000, 310) == {"stderr": 300}  # which goes on slowly
    clock.advance(10)
    assert send(1_000_000, 310) == {"stdout": 1_000_000 - 750}
    assert send(2_000_000, 310) == {}
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    assert send(2_000_000, 310) == {"stdout": 2_000_000 - 750}


def test_of_a_log_no_more_is_sent_than_the_admin_keeps(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock, **TAIL)
    printed = b"".join(b"%09d\n" % number for number in range(10_000))
    engine.programs["true"] = Program(stdout=printed)
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    assert send_all(work, 250) == {
        "stdout": [(0, printed[:250])] + [(99_250 + n, printed[99_250 + n :][:250]) for n in (0, 250, 500)]
    }
    assert event_types(work) == ["RUNNING", "SUCCEEDED"]


def test_what_the_engine_dropped_is_left_out(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock, **TAIL)
    engine.programs["true"] = Program(stdout=b"a" * 100 + b"b" * 600 + b"c" * 50, dropped=(100, 700))
    assert send_all(work) == {"stdout": [(0, b"a" * 100), (700, b"c" * 50)]}


def test_an_older_admin_gets_a_log_without_a_gap(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock, log_limit_bytes=1000)
    engine.programs["true"] = Program(stdout=b"a" * 100 + b"b" * 600 + b"c" * 50, dropped=(100, 700))
    assert send_all(work) == {"stdout": [(0, b"a" * 100)]}


def test_an_execution_that_prints_without_end_leaves_room_for_the_others(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    quiet = {**REFERENCE, "attempt": 2}
    engine.programs = {"yes": Program(stdout=b"y" * 10**6), "echo": Program(stdout=b"hello")}
    started(work, clock, job={"command": ["yes"]})
    work.accept([{**LEASE, "attempt": 2, "job": {"command": ["echo"]}}])
    work.leases.renew([quiet], clock.steady(), confirms=True)
    work.step()
    [piece] = work.outbox.log_pieces(1000, include_running=True)
    assert piece["attempt"] == 1
    work.outbox.mark_logs_stored([{**REFERENCE, "stream": "stdout", "offset": 1000, "full": False}])
    pieces = work.outbox.log_pieces(1000, include_running=True)
    assert [piece["attempt"] for piece in pieces] == [2, 1]


def test_a_large_output_is_sent_in_pieces_before_the_end_is_reported(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    model = bytes(range(256)) * 2000
    engine.programs["train"] = Program(files={"model": model, "small": b"s", "huge": b"h" * 700_000})
    started(
        work,
        clock,
        job={"command": ["train"], "outputs": ["model", "small", "huge"]},
        output_limit_bytes=600_000,
    )
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    assert event_types(work) == ["RUNNING"]
    sent = send_all(work)
    assert {stream: b"".join(data for _, data in pieces) for stream, pieces in sent.items()} == {
        "output:model": model,
        "output:huge": b"h" * 600_000,
    }
    event = work.outbox.events()[-1]
    assert event["type"] == "SUCCEEDED"
    assert event["message"] == "Of its output huge, 700000 bytes, 600000 are kept (agents.outputLimitBytes)."
    assert [(file["path"], file["size"], file["content_base64"]) for file in event["outputs"]] == [
        ("model", 512_000, ""),
        ("small", 1, "cw=="),
        ("huge", 700_000, ""),
    ]


def test_an_older_admin_gets_the_start_of_a_large_output_with_the_event(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    engine.programs["train"] = Program(files={"model": b"m" * 300_000})
    started(work, clock, job={"command": ["train"], "outputs": ["model"]})
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    assert work.outbox.log_pieces(1000, include_running=True) == []
    [file] = work.outbox.events()[-1]["outputs"]
    assert (len(base64.b64decode(file["content_base64"])), file["truncated"]) == (256 * 1024, True)


def test_the_end_does_not_wait_for_the_log_for_ever(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    engine.programs["true"] = Program(stdout=b"x")
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    assert event_types(work) == ["RUNNING"]
    clock.advance(61)
    assert event_types(work) == ["RUNNING", "SUCCEEDED"]


def test_bytes_that_are_not_text_are_sent_unchanged(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    engine.programs["true"] = Program(stdout=b"\xff\xfe\x00")
    piece = work.outbox.log_pieces(1000, include_running=True)[0]
    assert base64.b64decode(piece["data_base64"]) == engine.programs["true"].stdout


def test_questions(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    other = {"id": {**ID, "name": "other"}, "attempt": 3}
    engine.jobs[key_of(other)] = RUNNING
    work.adoptions.answer([REFERENCE, other])
    assert event_types(work) == ["UNKNOWN"]
    assert [intent.reference for intent in work.intents.values()] == [other]
    work.step()
    assert event_types(work) == ["UNKNOWN", "RUNNING"]


def test_what_never_started_is_handed_back_again_when_a_restored_admin_asks_for_it(
    work: Work, engine: FakeEngine, state: StateDirectory
) -> None:
    work.accept([LEASE])
    work.release_unstarted()
    assert event_types(work) == ["RELEASED"]
    accept(work)
    assert work.intents == {}
    work.adoptions.answer([REFERENCE])
    assert event_types(work) == ["RELEASED"]
    assert engine.forgotten == [KEY]  # its directory goes as others do
    assert (state.jobs / KEY / "intent.json").exists()


def test_a_question_about_a_stored_intent_needs_no_answer(work: Work) -> None:
    work.accept([LEASE])
    work.adoptions.answer([REFERENCE])
    assert event_types(work) == []


def test_a_question_is_not_answered_while_the_engine_is_unavailable(work: Work, engine: FakeEngine) -> None:
    engine.unavailable = "the back end does not answer"
    work.adoptions.answer([REFERENCE])
    assert (event_types(work), work.intents) == ([], {})


def test_stopping_hands_back_what_has_not_started(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    ids = [{"id": {**ID, "name": name}, "attempt": 1} for name in ("held", "queued", "running")]
    keys = [key_of(reference) for reference in ids]
    work.accept([{**LEASE, **reference} for reference in ids])
    work.leases.renew(ids[1:], clock.steady(), confirms=True)
    work.step()
    engine.jobs[keys[2]] = RUNNING
    work.step()
    accept(work)
    work.is_stopping = True
    work.release_unstarted()
    work.step()
    assert engine.cancelled == [keys[1]]
    engine.jobs[keys[1]] = ABORTED_IN_QUEUE
    work.step()
    assert [(event["type"], event["id"]["name"]) for event in work.outbox.events()] == [
        ("RELEASED", "held"),
        ("RELEASED", "queued"),
    ]
    assert work.is_unsettled
    accept(work)
    assert (work.is_unsettled, list(work.intents)) == (False, [keys[2]])


def test_while_its_cluster_drains_what_has_not_started_is_withdrawn_and_the_rest_goes_on(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    ids = [{"id": {**ID, "name": name}, "attempt": 1} for name in ("held", "queued", "running")]
    keys = [key_of(reference) for reference in ids]
    work.accept([{**LEASE, **reference} for reference in ids])
    work.leases.renew(ids[1:], clock.steady(), confirms=True)
    work.step()
    engine.jobs[keys[2]] = RUNNING
    work.step()
    accept(work)
    work.is_draining = True
    work.leases.renew(ids, clock.steady(), confirms=True)
    pass_time(work, clock, 2)
    assert (engine.withdrawn, engine.cancelled, len(engine.submitted)) == ([keys[1]], [], 2)
    assert [(event["type"], event["id"]["name"]) for event in work.outbox.events()] == [
        ("RELEASED", "held"),
        ("RELEASED", "queued"),
    ]
    accept(work)
    engine.jobs[keys[2]] = SUCCEEDED
    work.step()
    assert event_types(work) == ["SUCCEEDED"]


def test_what_starts_while_it_is_withdrawn_goes_on(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    work.step()
    engine.jobs[KEY] = QUEUED
    work.step()
    work.is_draining = True
    engine.programs["true"] = Program(states=(QUEUED, RUNNING))
    work.step()  # it is polled as queued, and runs when it is to be withdrawn
    assert (engine.withdrawn, work.intents[KEY].ending) == ([KEY], None)
    pass_time(work, clock, 10)
    assert (engine.withdrawn, engine.cancelled, event_types(work)) == ([KEY], [], ["RUNNING"])


def test_what_starts_although_it_may_have_been_withdrawn_is_guarded_as_before(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    started(work, clock)
    work.step()
    work.is_draining = True
    engine.failures["withdraw"] = EngineUnavailable("no answer")
    work.step()
    assert work.intents[KEY].ending is Ending.WITHDRAW
    engine.jobs[KEY] = RUNNING
    pass_time(work, clock, 2)
    assert (work.intents[KEY].ending, event_types(work)) == (None, ["RUNNING"])


def test_what_the_back_end_refused_to_withdraw_stays_after_the_drain(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    started(work, clock)
    work.step()
    work.is_draining = True
    engine.failures["withdraw"] = NothingDone("forbidden")
    work.step()
    assert (work.problem, work.intents[KEY].ending) == ("forbidden", None)
    work.is_draining = False
    del engine.failures["withdraw"]
    pass_time(work, clock, 10)
    assert (work.problem, engine.withdrawn, event_types(work)) == ("", [], [])


def test_while_many_are_withdrawn_leases_are_watched(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    ids = [{"id": {**ID, "name": f"queued-{number}"}, "attempt": 1} for number in range(4)]
    work.accept([{**LEASE, **reference} for reference in ids])
    work.leases.renew(ids, clock.steady(), confirms=True)
    work.step()
    work.step()
    work.is_draining = True
    withdraw = engine.withdraw

    def withdraw_slowly(handle: Handle) -> bool:
        clock.advance(work.leases.guard.interval_seconds)
        return withdraw(handle)

    work.engine.withdraw = withdraw_slowly
    for number in range(1, 5):
        work.step()
        assert len(engine.withdrawn) == number


def test_a_withdrawal_that_a_crash_interrupted_is_known_for_what_it_is(
    work: Work, engine: FakeEngine, state: StateDirectory, clock: FakeClock
) -> None:
    started(work, clock)
    work.step()
    work.is_draining = True
    engine.failures["withdraw"] = EngineUnavailable("no answer")
    work.step()
    assert work.intents[KEY].ending is Ending.WITHDRAW
    engine.jobs[KEY] = ABORTED_IN_QUEUE  # the back end carried it out
    again = new_work(engine, state, clock)
    again.recover()
    again.step()
    assert event_types(again) == ["RELEASED"]


@pytest.mark.parametrize(("state_then", "expected"), [(ABORTED_IN_QUEUE, "RELEASED"), (ABORTED, "ABORTED")])
def test_at_the_end_of_a_drain_what_had_not_started_is_handed_back(
    work: Work, engine: FakeEngine, clock: FakeClock, state_then: NativeState, expected: str
) -> None:
    started(work, clock)
    work.step()
    work.cancel([{**REFERENCE, "reason": "Its cluster was drained.", "code": "DRAINED"}])
    work.step()
    assert engine.cancelled == [KEY]
    engine.jobs[KEY] = state_then
    work.step()
    assert event_types(work)[-1] == expected


@pytest.mark.parametrize(("code", "expected"), [("DRAINED", "SUCCEEDED"), ("TERMINATED", "ABORTED")])
def test_what_succeeds_before_a_drain_ends_it_has_succeeded_unless_nobody_wants_it(
    work: Work, engine: FakeEngine, clock: FakeClock, code: str, expected: str
) -> None:
    started(work, clock)
    engine.jobs[KEY] = RUNNING
    work.step()
    work.cancel([{**REFERENCE, "reason": "Enough.", "code": code}])
    engine.jobs[KEY] = SUCCEEDED
    pass_time(work, clock, 2)
    assert event_types(work)[-1] == expected


def test_stopping_leaves_what_waits_in_the_queue_of_the_engine(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    started(work, clock, on_lost="wait")
    work.step()
    work.is_stopping = True
    work.release_unstarted()
    work.step()
    assert (engine.cancelled, work.is_unsettled) == ([], False)


def test_stopping_does_not_end_what_has_started_since_the_last_poll(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    started(work, clock, on_lost="fail")
    work.step()
    engine.jobs[KEY] = RUNNING
    work.release_unstarted()
    work.step()
    assert engine.cancelled == []


def test_a_job_that_the_engine_forgot_is_reported_unknown(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    engine.jobs[KEY] = UNKNOWN
    work.step()
    assert event_types(work) == ["UNKNOWN"]


def test_no_conclusion_is_drawn_while_the_engine_is_unavailable(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    started(work, clock)
    engine.unavailable = "the back end does not answer"
    work.step()
    assert (work.problem, event_types(work)) == ("the back end does not answer", [])
    engine.unavailable = ""
    engine.jobs[KEY] = RUNNING
    work.step()
    assert (work.problem, event_types(work)) == ("", ["RUNNING"])


def test_a_fault_of_the_engine_does_not_end_the_agent(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    engine.failures["states"] = ZeroDivisionError("division by zero")
    pass_time(work, clock, 41)
    assert "ZeroDivisionError" in work.problem
    assert engine.cancelled == [KEY]


def test_events_are_sent_in_portions(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    ids = [{"id": {**ID, "name": f"n{number}"}, "attempt": 1} for number in range(5)]
    work.accept([{**LEASE, **reference} for reference in ids])
    work.leases.renew(ids, clock.steady(), confirms=True)
    work.step()
    engine.jobs = dict.fromkeys(engine.jobs, SUCCEEDED)
    work.step()
    assert len(work.outbox.events()) == 10
    portion = work.outbox.events(3500)
    assert portion == work.outbox.events()[:3]
    assert len(work.outbox.ended_with({event["event"] for event in portion})) == 1
    assert len(work.outbox.events(1)) == 1


def test_outputs_that_are_too_large_are_left_out(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    engine.programs["true"] = Program(files={"there": b"data"})
    started(work, clock, job={"command": ["true"], "outputs": ["there"]})
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    work.outbox.strip_outputs()
    event = work.outbox.events()[-1]
    assert ("outputs" in event, event["message"]) == (False, "Its output files were too large to send.")


def test_a_state_directory_that_cannot_be_written_does_not_end_the_agent(
    work: Work, engine: FakeEngine, clock: FakeClock, state: StateDirectory
) -> None:
    running(work, engine, clock)
    (state.path / "intents").rename(state.path / "elsewhere")
    pass_time(work, clock, 41)
    assert work.problem == "the state directory cannot be written: No such file or directory"
    assert engine.cancelled == [KEY]
    engine.jobs[KEY] = ABORTED
    (state.path / "elsewhere").rename(state.path / "intents")
    work.step()
    assert work.problem == ""
    assert [intent.stage for intent in state.load_intents()[0]] == [Stage.ENDED]


class HalfDeaf(FakeEngine):
    """An engine that can neither cancel nor renew one of its jobs."""

    def cancel(self, handle: Handle) -> None:
        if handle.key == KEY:
            raise OSError("no space left on device")
        super().cancel(handle)

    def renew(self, seconds: Mapping[Handle, float]) -> None:
        for handle, left in seconds.items():
            if handle.key == KEY:
                raise OSError("is a directory")
            super().renew({handle: left})


def test_a_job_that_cannot_be_cancelled_keeps_no_other_from_being_cancelled_or_started(
    state: StateDirectory, clock: FakeClock
) -> None:
    engine = HalfDeaf()
    work = new_work(engine, state, clock)
    other: dict[str, Any] = {"id": {**ID, "name": "other"}, "attempt": 1}
    third: dict[str, Any] = {"id": {**ID, "name": "third"}, "attempt": 1}
    started(work, clock)
    work.accept([{**LEASE, **other}])
    work.leases.renew([other], clock.steady(), confirms=True)
    work.step()
    work.cancel([REFERENCE, other])
    work.accept([{**LEASE, **third}])
    work.leases.renew([third], clock.steady(), confirms=True)
    work.step()
    assert engine.cancelled == [key_of(other)]
    assert [task.key for task in engine.submitted][-1] == key_of(third)
    assert "no space left" in work.problem


def test_a_lease_that_cannot_be_renewed_keeps_no_other_from_being_renewed(
    state: StateDirectory, clock: FakeClock
) -> None:
    engine = HalfDeaf(guards_leases=True)
    work = new_work(engine, state, clock)
    other: dict[str, Any] = {"id": {**ID, "name": "other"}, "attempt": 1}
    started(work, clock, on_lost="fail")
    work.accept([{**LEASE, **other, "on_lost": "fail"}])
    work.leases.renew([other], clock.steady(), confirms=True)
    work.step()
    clock.advance(8)
    work.leases.renew([REFERENCE, other], clock.steady(), confirms=True)
    work.step()
    assert engine.renewed == {key_of(other): 40.0}
    assert "is a directory" in work.problem


# Silence


def test_an_execution_that_waits_goes_on_however_long_the_admin_is_away(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    running(work, engine, clock, on_lost="wait")
    pass_time(work, clock, 200)
    clock.advance(86_400)
    pass_time(work, clock, 200)
    assert (engine.cancelled, work.intents[KEY].ending) == ([], None)
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    assert event_types(work) == ["RUNNING", "SUCCEEDED"]


@pytest.mark.parametrize("on_lost", ["fail", "retry", None])
def test_other_executions_are_ended_when_their_lease_is_over(
    work: Work, engine: FakeEngine, clock: FakeClock, on_lost: str | None
) -> None:
    running(work, engine, clock, on_lost=on_lost)
    pass_time(work, clock, 41)
    assert engine.cancelled == [KEY]


def test_an_agent_that_was_paused_asks_before_it_ends_anything(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    running(work, engine, clock, on_lost="fail")
    clock.advance(3600)
    pass_time(work, clock, 9)
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    pass_time(work, clock, 30)
    assert engine.cancelled == []


def test_an_agent_that_was_paused_ends_its_work_if_it_gets_no_answer(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    running(work, engine, clock, on_lost="fail")
    clock.advance(3600)
    work.step()
    # A second pause without an answer gives it no more time.
    clock.advance(30)
    work.step()
    assert engine.cancelled == [KEY]


def test_an_agent_that_was_paused_starts_nothing_with_an_old_answer(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    work.accept([LEASE])
    sent_at = clock.steady()
    clock.advance(3600)
    work.leases.renew([REFERENCE], sent_at, confirms=True)
    pass_time(work, clock, 20)
    assert engine.submitted == []


def test_nothing_is_started_whose_lease_ran_out_while_it_was_stored(
    work: Work, engine: FakeEngine, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.accept([LEASE])
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    with monkeypatch.context() as slow_disk:
        slow_disk.setattr(os, "fsync", lambda descriptor: clock.advance(60))
        work.step()
    assert (engine.submitted, work.intents[KEY].stage) == ([], Stage.HELD)
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    work.step()
    assert [task.key for task in engine.submitted] == [KEY]


@dataclass(kw_only=True)
class Slow(FakeEngine):
    """An engine that takes four seconds to look up a job, and longer to say that it cannot look up one of them."""

    clock: FakeClock

    def find(self, key: str) -> Handle | None:
        self.clock.advance(4)
        if key == KEY:
            self.clock.advance(2)
            raise EngineUnavailable("it does not answer")
        return super().find(key)


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_slow_calls_do_not_keep_leases_from_being_renewed_nor_others_from_their_turn(
    state: StateDirectory, clock: FakeClock, is_interrupted: bool
) -> None:
    engine = Slow(clock=clock)
    work = new_work(engine, state, clock)
    references = [REFERENCE, *({"id": {**ID, "name": f"n{number}"}, "attempt": 1} for number in range(9))]
    work.accept({**LEASE, **reference} for reference in references)
    if is_interrupted:
        for intent in work.intents.values():
            intent.stage = Stage.SUBMITTING
    for _ in range(20):
        begin = clock.steady()
        work.leases.renew(references, begin, confirms=True)
        work.step()
        assert clock.steady() - begin < 3 * work.leases.guard.interval_seconds  # a lease has four until work ends
    assert len(engine.submitted) == 9


def test_the_engine_guards_what_does_not_wait(guarding: FakeEngine, state: StateDirectory, clock: FakeClock) -> None:
    work = new_work(guarding, state, clock)
    policies = ("wait", "fail", "retry")
    references = [{"id": {**ID, "name": policy}, "attempt": 1} for policy in policies]
    work.accept({**LEASE, **references[index], "on_lost": policy} for index, policy in enumerate(policies))
    work.leases.renew(references, clock.steady(), confirms=True)
    work.step()
    assert [task.lease_seconds for task in guarding.submitted] == [None, 40.0, 40.0]
    assert guarding.renewed == {}
    pass_time(work, clock, 8)
    work.leases.renew(references, clock.steady() - 1, confirms=True)
    work.step()
    assert guarding.renewed == {key_of(reference): 39.0 for reference in references[1:]}


def test_the_engine_is_told_again_only_of_much_longer_leases(
    guarding: FakeEngine, state: StateDirectory, clock: FakeClock
) -> None:
    work = new_work(guarding, state, clock)
    started(work, clock, on_lost="fail")
    for _ in range(100):
        clock.advance(0.1)
        work.leases.renew([REFERENCE], clock.steady(), confirms=True)
        guarding.renewed.clear()
        work.step()
        if guarding.renewed:
            break
    assert clock.steady() == pytest.approx(1005, abs=0.2)


def test_a_new_process_renews_nothing_before_the_admin_has_confirmed_it(
    guarding: FakeEngine, state: StateDirectory, clock: FakeClock
) -> None:
    before = new_work(guarding, state, clock)
    started(before, clock, on_lost="fail")
    after = new_work(guarding, state, clock)
    after.recover()
    pass_time(after, clock, 5)
    assert guarding.renewed == {}
    after.leases.renew([REFERENCE], clock.steady(), confirms=True)
    after.step()
    assert guarding.renewed == {KEY: 40.0}


@pytest.mark.parametrize(
    ("guards_leases", "policy", "is_ended"),
    [(True, {}, False), (False, {}, True), (False, {"on_lost": "wait"}, False), (True, {"on_lost": "fail"}, True)],
)
def test_an_adopted_execution_is_ended_by_whoever_knows_its_policy(
    state: StateDirectory, clock: FakeClock, guards_leases: bool, policy: dict[str, str], is_ended: bool
) -> None:
    engine = FakeEngine(ends_on_cancel=False, guards_leases=guards_leases, jobs={KEY: RUNNING})
    work = new_work(engine, state, clock)
    work.adoptions.answer([{**REFERENCE, **policy}])
    pass_time(work, clock, 60)
    assert bool(engine.cancelled) is is_ended


@pytest.mark.parametrize(
    ("native", "expected"),
    [(ABORTED, ("FAILED", "CLUSTER_LOST")), (ABORTED_IN_QUEUE, ("RELEASED", None)), (SUCCEEDED, ("SUCCEEDED", None))],
)
def test_a_job_that_the_agent_ended_is_not_reported_as_aborted_when_a_restored_admin_asks_for_it_again(
    work: Work, engine: FakeEngine, clock: FakeClock, native: NativeState, expected: tuple[str, str | None]
) -> None:
    ended_before(work, engine, clock, native, on_lost="fail")
    assert work.intents == {}
    work.adoptions.answer([REFERENCE])
    clock.advance(1)
    work.step()
    event = work.outbox.events()[-1]
    assert (event["type"], event.get("reason")) == expected


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_job_that_was_seen_to_run_before_is_not_handed_back(
    work: Work, engine: FakeEngine, clock: FakeClock, is_asked: bool
) -> None:
    """Slurm, which shows no nodes of it, does not tell that it started."""
    running(work, engine, clock, on_lost="fail")
    work.step()
    work.end_lost([{**REFERENCE, "reason": "LEASE_EXPIRED"}])
    engine.jobs[KEY] = ABORTED_IN_QUEUE
    work.step()
    accept(work)
    assert work.intents == {}
    if is_asked:
        work.adoptions.answer([REFERENCE])
    else:
        started(work, clock, on_lost="fail")
    clock.advance(1)
    work.step()
    event = work.outbox.events()[-1]
    assert (event["type"], event["reason"]) == ("FAILED", "CLUSTER_LOST")


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        (None, ["RELEASED"]),
        (ABORTED_IN_QUEUE, ["RELEASED"]),
        (ABORTED, ["RUNNING", "FAILED"]),
        (SUCCEEDED, ["RUNNING", "SUCCEEDED"]),
    ],
)
def test_an_attempt_that_was_over_is_not_started_again_when_a_restored_admin_gives_it_away_again(
    work: Work, engine: FakeEngine, clock: FakeClock, native: NativeState | None, expected: list[str]
) -> None:
    ended_before(work, engine, clock, native or ABORTED_IN_QUEUE)
    assert work.intents == {}
    if native is None:
        del engine.jobs[KEY]
    started(work, clock)
    work.step()
    assert event_types(work) == expected
    assert len(engine.submitted) == 1


@pytest.mark.parametrize(
    ("native", "expected"), [(ABORTED_IN_QUEUE, ["RELEASED"]), (SUCCEEDED, ["RUNNING", "SUCCEEDED"])]
)
def test_an_attempt_that_was_over_is_reported_and_not_handed_back_while_its_cluster_drains(
    work: Work, engine: FakeEngine, clock: FakeClock, native: NativeState, expected: list[str]
) -> None:
    ended_before(work, engine, clock, native)
    assert work.intents == {}
    work.is_draining = True
    work.accept([LEASE])
    work.step()
    assert (event_types(work), work.intents[KEY].stage) == ([], Stage.HELD)
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    pass_time(work, clock, 2)
    assert event_types(work) == expected
    assert len(engine.submitted) == 1


@pytest.mark.parametrize("confirmed_after", [0, 1])
@pytest.mark.parametrize("reason", ["stop", "drained"])
def test_an_attempt_that_was_over_is_reported_and_not_handed_back_when_the_agent_stops_or_its_cluster_has_drained(
    work: Work, engine: FakeEngine, clock: FakeClock, reason: str, confirmed_after: int
) -> None:
    ended_before(work, engine, clock, SUCCEEDED)
    work.accept([LEASE])
    if not confirmed_after:
        work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    if reason == "stop":
        work.is_stopping = True
        work.release_unstarted()
    else:
        work.cancel([{**REFERENCE, "code": "DRAINED"}])
    if confirmed_after:
        work.step()
        assert (event_types(work), work.intents[KEY].stage, work.is_unsettled) == ([], Stage.HELD, True)
        work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    pass_time(work, clock, 2)
    assert event_types(work) == ["RUNNING", "SUCCEEDED"]
    assert len(engine.submitted) == 1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2, "lease": []}', '{"format": 2, "lease": {"job": 5}}'])
def test_a_past_intent_that_a_job_overwrote_is_ignored(
    work: Work, engine: FakeEngine, clock: FakeClock, state: StateDirectory, text: str
) -> None:
    ended_before(work, engine, clock, ABORTED)
    path = state.jobs / KEY / "intent.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **json.loads(text)}) if text.startswith('{"') else text)
    work.adoptions.answer([REFERENCE])
    clock.advance(1)
    work.step()
    assert event_types(work) == ["RUNNING", "ABORTED"]


def test_outputs_of_a_finished_job_are_read_again_when_a_restored_admin_asks_for_it(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    engine.programs["train"] = Program(files={"model": b"m"})
    started(work, clock, job={"command": ["train"], "outputs": ["model"]})
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    accept(work)
    assert work.intents == {}
    work.adoptions.answer([REFERENCE])
    clock.advance(1)
    work.step()
    assert [file["path"] for file in work.outbox.events()[-1]["outputs"]] == ["model"]


def test_a_job_that_its_guard_ended_is_reported_as_lost(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock, on_lost="fail")
    engine.jobs[KEY] = replace(FAILED, exit_code=None, reason="CLUSTER_LOST", message="Its lease was over.")
    work.step()
    event = work.outbox.events()[-1]
    assert (event["type"], event["reason"], event["message"]) == ("FAILED", "CLUSTER_LOST", "Its lease was over.")


def test_a_step_of_the_wall_clock_ends_nothing(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    running(work, engine, clock, time_limit_seconds=10, on_lost="fail")
    work.step()
    for seconds in (3600, -7200):
        clock.step(seconds)
        work.step()
    assert engine.cancelled == []
    engine.jobs[KEY] = replace(SUCCEEDED, finished_at=clock.now(), duration=12.5)
    work.step()
    assert work.outbox.events()[-1]["duration"] == 12.5


# Executions of one name


def test_an_execution_does_not_get_the_result_of_an_earlier_one_of_its_name(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    started(work, clock, uid="aaaa")
    engine.jobs[engine.submitted[0].key] = SUCCEEDED
    work.step()
    started(work, clock, uid="bbbb")
    work.leases.renew([{**REFERENCE, "uid": "bbbb"}], clock.steady(), confirms=True)
    work.step()
    assert [task.key for task in engine.submitted] == ["rb-aaaa-n-1", "rb-bbbb-n-1"]
    work.adoptions.answer([{**REFERENCE, "uid": "cccc"}])
    assert [(event["type"], event["uid"]) for event in work.outbox.events()] == [
        ("UNKNOWN", "cccc"),
        ("RUNNING", "aaaa"),
        ("SUCCEEDED", "aaaa"),
    ]


def test_an_execution_is_known_by_its_name_to_an_admin_without_uids(
    work: Work, engine: FakeEngine, clock: FakeClock
) -> None:
    started(work, clock, uid="aaaa")
    work.leases.renew([REFERENCE], clock.steady(), confirms=True)
    work.cancel([{**REFERENCE, "uid": "bbbb"}])
    assert work.intents["rb-aaaa-n-1"].ending is None
    work.cancel([REFERENCE])
    assert work.intents["rb-aaaa-n-1"].ending is Ending.CANCEL


# After a crash


@pytest.mark.parametrize("has_it", [True, False])
def test_an_interrupted_submission_is_looked_up(
    engine: FakeEngine, state: StateDirectory, clock: FakeClock, has_it: bool
) -> None:
    before = new_work(engine, state, clock)
    before.accept([LEASE])
    before.leases.renew([REFERENCE], clock.steady(), confirms=True)
    intent = before.intents[KEY]
    intent.stage = Stage.SUBMITTING
    state.save(intent, is_durable=True)
    if has_it:
        engine.jobs[KEY] = RUNNING
    after = new_work(engine, state, clock)
    after.recover()
    after.step()
    assert engine.submitted == []
    assert event_types(after) == (["RUNNING"] if has_it else [])
    after.leases.renew([REFERENCE], clock.steady(), confirms=True)
    after.step()
    assert len(engine.submitted) == (0 if has_it else 1)


def test_a_lease_confirmed_to_an_earlier_process_must_be_confirmed_again(
    engine: FakeEngine, state: StateDirectory, clock: FakeClock
) -> None:
    before = new_work(engine, state, clock)
    before.accept([LEASE])
    before.leases.renew([REFERENCE], clock.steady(), confirms=True)
    after = new_work(engine, state, clock)
    after.recover()
    after.step()
    assert (engine.submitted, after.is_unconfirmed) == ([], True)


def test_an_event_that_was_not_accepted_is_sent_again(
    engine: FakeEngine, state: StateDirectory, clock: FakeClock, work: Work
) -> None:
    started(work, clock)
    engine.jobs[KEY] = SUCCEEDED
    work.step()
    before = work.outbox.events()
    after = new_work(engine, state, clock)
    after.recover()
    assert after.outbox.events() == before


def test_time_that_passed_before_a_reboot_does_not_count(
    engine: FakeEngine, state: StateDirectory, clock: FakeClock, work: Work
) -> None:
    running(work, engine, clock, time_limit_seconds=10)
    work.step()
    intent = work.intents[KEY]
    intent.boot, intent.running_since = "an earlier boot", -10_000.0
    state.save(intent, is_durable=True)
    after = new_work(engine, state, clock)
    after.recover()
    after.leases.renew([REFERENCE], clock.steady(), confirms=True)
    after.step()
    assert engine.cancelled == []
    pass_time(after, clock, 41)
    assert (engine.cancelled[:1], after.intents[KEY].ending) == ([KEY], Ending.TIME_LIMIT)


def test_an_old_execution_may_go_on_until_the_admin_was_asked(
    engine: FakeEngine, state: StateDirectory, clock: FakeClock, work: Work
) -> None:
    running(work, engine, clock)
    clock.advance(3600)
    after = new_work(engine, state, clock)
    after.recover()
    after.step()
    assert engine.cancelled == []
    clock.advance(11)
    after.step()
    assert engine.cancelled == [KEY]


def test_a_cancel_survives_a_crash(engine: FakeEngine, state: StateDirectory, clock: FakeClock, work: Work) -> None:
    started(work, clock)
    work.cancel([{**REFERENCE, "reason": "enough"}])
    after = new_work(engine, state, clock)
    after.recover()
    after.step()
    assert engine.cancelled == [KEY]


def test_a_failure_without_a_message_gets_one(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    engine.jobs[KEY] = replace(FAILED, exit_code=3)
    work.step()
    assert work.outbox.events()[-1]["message"] == "It ended with exit code 3."


def test_counts(work: Work, engine: FakeEngine, clock: FakeClock) -> None:
    started(work, clock)
    assert work.intents.counts() == {"running": 0, "queued": 1, "held": 0, "ended": 0}
    assert engine.jobs[KEY] is QUEUED
