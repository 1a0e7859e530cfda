"""The checker of histories: it finds what is impossible, and accepts what is possible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.robustness.histories.checker import FINAL, find_violations
from tests.robustness.histories.records import Exchange, Fault, History, Operation, Recorder, Step, read_history

QUEUED = [{"number": 1, "type": "CREATED", "phase": "QUEUED"}]
RAN = [*QUEUED, {"number": 2, "type": "RUNNING", "phase": "RUNNING"}]
DONE = [*RAN, {"number": 3, "type": "SUCCEEDED", "phase": "SUCCEEDED"}]


def call(name: str, begun: float, status: int | None = 200, client: str = "a", **fields: Any) -> Operation:
    """An operation that takes a second; fields of its request are those that end with an underscore."""
    request = {key.rstrip("_"): value for key, value in fields.items() if key.endswith("_")}
    answer = {key: value for key, value in fields.items() if not key.endswith("_")}
    ended = None if status is None else begun + 1
    return Operation(client=client, name=name, request=request, begun=begun, ended=ended, status=status, answer=answer)


def create(begun: float = 0, on_lost: str = "fail", attempts: int = 1, code: int = 0, **fields: Any) -> Operation:
    request = {"name_": "x", "token_": "x.0", "on_lost_": on_lost, "attempts_": attempts, "code_": code}
    return call("create", begun, **{"created": True, **request, **fields})


def get(begun: float, phase: str = "SUCCEEDED", events: int = 3, **fields: Any) -> Operation:
    end = {"exit_code": 0 if phase == "SUCCEEDED" else None, "reason": "", "attempt": 1, "cluster": "c1"}
    return call("get", begun, **{"name_": "x", "token": "x.0", "phase": phase, "events": events, **end, **fields})


def final(phase: str = "SUCCEEDED", **fields: Any) -> Operation:
    return get(100, phase, client=FINAL, **fields)


def events(*listed: dict[str, Any]) -> Operation:
    return call("events", 102, name_="x", token="x.0", events=list(listed), client=FINAL)


def start(attempt: int = 1, *, is_alone: bool = True, nonce: str = "") -> Step:
    return step("start", attempt, is_alone=is_alone, nonce=nonce or f"n{attempt}")


def end(attempt: int = 1, code: int = 0) -> Step:
    return step("end", attempt, code=code)


def step(event: str, attempt: int, **fields: Any) -> Step:
    """A step of a process at c1: attempts start at 10, 20, … and end 5 s later."""
    values = {"token": "x.0", "key": "k", "nonce": f"n{attempt}", "cluster": "c1", **fields}
    return Step(event=event, attempt=attempt, at=10 * attempt + 5 * (event == "end"), **values)


def syncs(*silence: float, cluster: str = "c1") -> list[Exchange]:
    """The exchanges of an agent that syncs twice a second, but for one silence."""
    begins = [number / 2 for number in range(240)]
    return [
        Exchange(cluster=cluster, side=side, begun=begun, ended=begun + 0.4)
        for begun in begins
        for side in ("admin", "agent")
        if not silence or not silence[0] <= begun <= silence[1]
    ]


def fault(name: str, begun: float, ended: float, target: str = "c1") -> Fault:
    return Fault(name=name, target=target, begun=begun, ended=ended)


def marked(*types: str) -> Operation:
    return call("cluster_events", 104, cluster_="c1", types=list(types), client=FINAL)


def write(begun: float, revision: int, value: int, **fields: Any) -> Operation:
    return call("set", begun, scope_="w", value_=value, revision=revision, **{"changed": True, **fields})


def effective(begun: float, revision: int, value: int | None, **fields: Any) -> Operation:
    return call("effective", begun, scope_="w", revision=revision, value=value, **fields)


def stored(number: int, value: int) -> Operation:
    return call("revision", 100 + number, number_=number, number=number, scope="w", value=value, client=FINAL)


def history(*parts: Operation | Step | Fault | Exchange) -> History:
    operations = [part for part in parts if isinstance(part, Operation)]
    return History(
        operations=tuple(sorted(operations, key=lambda operation: operation.begun)),
        steps=tuple(part for part in parts if isinstance(part, Step)),
        faults=tuple(part for part in parts if isinstance(part, Fault)),
        exchanges=tuple(part for part in parts if isinstance(part, Exchange)),
    )


LOST = final("FAILED", reason="CLUSTER_LOST")
GIVE_UP = call("give_up", 30, name_="x", phase="FAILED", changed=True)
RETRIED = (create(on_lost="retry", attempts=2), start(), end(code=143), start(2), end(2), final(attempt=2))
RESTORE = Fault(name="restore", target="admin", begun=50, ended=51, backup=10)

POSSIBLE = {
    "nothing": history(),
    "it ran once": history(create(), start(), end(), get(10, "RUNNING", 2), final(), events(*DONE)),
    "its creation was not answered, and happened": history(create(status=None), start(), end(), final(), events(*DONE)),
    "its creation was not answered, and did not happen": history(create(status=None), final(status=404)),
    "its creation was repeated": history(create(status=None), create(2, created=False), start(), end(), final()),
    "a second attempt after the first was killed": history(
        create(on_lost="retry", attempts=2), start(), start(2), end(2), final(attempt=2)
    ),
    "a second attempt after the first ended": history(
        create(attempts=2, code=3), start(), end(code=3), start(2), end(2, 3), final("FAILED", exit_code=3, attempt=2)
    ),
    "its cluster was lost": history(create(), start(), LOST, *syncs(12, 40), marked("UNREACHABLE", "LOST")),
    "its cluster was lost before it started": history(create(), LOST, *syncs(5, 16)),
    "it was ended while its agent was not answered": history(*RETRIED, *syncs(11, 13.5)),
    "it was ended by an agent that was killed and started again": history(
        *RETRIED, fault("kill_agent", 12, 13), *syncs(12, 12.5)
    ),
    "it was killed while its cluster was silent": history(
        create(on_lost="retry", attempts=2), start(), start(2), end(2), final(attempt=2), *syncs(12, 16)
    ),
    "a cluster was lost twice": history(*syncs(20, 40), marked("READY", "LOST", "READY", "LOST")),
    "it was given up": history(create(on_lost="wait"), start(), GIVE_UP, end(code=143), LOST, *syncs(12, 40)),
    "it was given up, and goes on": history(create(on_lost="wait"), start(), GIVE_UP, LOST, *syncs(12, 40)),
    "its supervisor was killed": history(
        create(on_lost="wait"),
        start(),
        fault("killed_supervisor", 11, 11, "x"),
        final("FAILED", reason="SUPERVISOR_LOST"),
        *syncs(),
    ),
    "a second attempt after its supervisor was killed": history(
        create(attempts=2),
        start(),
        end(code=143),
        fault("killed_supervisor", 11, 11, "x"),
        start(2),
        end(2),
        final(attempt=2),
        *syncs(),
    ),
    "it could not be started on a full disk": history(
        create(), fault("fill_agent_disk", 5, 9), final("FAILED", reason="NOT_STARTED"), *syncs()
    ),
    "it was started when an older database had been restored, and ended": history(
        create(2),
        Fault(name="restore", target="admin", begun=5, ended=6, backup=1),
        start(),
        end(code=143),
        final(status=404),
        *syncs(),
    ),
    "it goes on when an older database was restored": history(
        create(20, on_lost="wait"), start(), RESTORE, final(status=404), *syncs()
    ),
    "it was aborted": history(create(), call("abort", 2, name_="x"), start(), end(code=143), final("ABORTED")),
    "an abort that was not answered": history(create(), call("abort", 2, None, name_="x"), final("ABORTED")),
    "its log": history(
        create(), start(), end(), final(), call("log", 103, token="x.0", attempt=1, text="n1\n", client=FINAL)
    ),
    "changes and reads at the same time": history(
        write(1, 1, 7), write(1.5, 2, 8), effective(1.5, 0, None), effective(1.7, 2, 8), stored(1, 7), stored(2, 8)
    ),
    "a change that was not answered": history(write(1, 1, 7, status=None), effective(3, 1, 7), stored(1, 7)),
    "a creation after the backup that was restored": history(create(20), RESTORE, final(status=404)),
    "a creation of the same name after a restore": history(
        create(20, token_="x.9"), RESTORE, create(60), start(), end(), final()
    ),
    "changes undone by a restore": history(
        write(1, 1, 7), write(20, 2, 8), RESTORE, effective(60, 1, 7), write(62, 2, 9), stored(1, 7), stored(2, 9)
    ),
    "a refused creation": history(create(status=409), final(status=404)),
    "a creation that failed half-way": history(create(status=503, error="database_busy"), start(), end(), final()),
    "a reader who is told that its answer is old": history(
        write(1, 1, 7), effective(3, 0, None, stale=True), stored(1, 7)
    ),
    "a watcher": history(call("watch", 1, since_=0, numbers=[1, 2], revision=2), stored(1, 7), stored(2, 8)),
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_a_possible_history_is_accepted(name: str) -> None:
    assert find_violations(POSSIBLE[name]) == []


IMPOSSIBLE = {
    "an acknowledged creation is gone": (history(create(), final(status=404)), "was created and is gone"),
    "it was there, and gone for a while": (
        history(create(), get(5, status=404), start(), end(), final()),
        "was created and is gone",
    ),
    "another execution has its name": (history(create(), final(token="x.1")), "was created and is gone"),
    "it was created twice": (history(create(), create(5), start(), end(), final()), "was created twice"),
    "nobody looked at it": (history(create()), "not read at the end"),
    "a creation from before the backup is gone": (history(create(2), RESTORE, final(status=404)), "is gone"),
    "a refused creation happened": (
        history(create(status=503, error="busy"), start(), end(), final()),
        "is there, though its creation was refused",
    ),
    "it never ended": (history(create(), start(), final("RUNNING")), "never ended: RUNNING"),
    "two attempts at once": (
        history(create(on_lost="retry", attempts=2), start(), start(2, is_alone=False), end(2), final(attempt=2)),
        "attempt 2 of x.0 (retry) started while attempt 1 was running",
    ),
    "one attempt twice at once": (
        history(create(), start(), start(is_alone=False, nonce="other"), end(), final()),
        "attempt 1 of x.0 (fail) started while attempt 1 was running",
    ),
    "more processes than attempts": (
        history(create(on_lost="retry", attempts=2), start(), start(2), start(3), end(3), final(attempt=3)),
        "was started 3 times",
    ),
    "a second process though it waits": (
        history(create(on_lost="wait", attempts=2), start(), start(2), end(2), final(attempt=2)),
        "was started 2 times",
    ),
    "a process that nobody asked for": (history(start()), "which nobody created"),
    "a success that no process came to": (
        history(create(), final()),
        "is reported SUCCEEDED () with exit code 0, but the processes of attempt 1 ended with nothing",
    ),
    "a success of a process that was killed": (history(create(), start(), end(code=143), final()), "ended with [143]"),
    "the result of another attempt": (
        history(create(on_lost="retry", attempts=2), start(), end(), start(2), final(attempt=2)),
        "the processes of attempt 2 ended with nothing",
    ),
    "another exit code": (
        history(create(code=3), start(), end(code=3), final("FAILED", exit_code=7)),
        "ended with [3]",
    ),
    "a success with an exit code": (history(create(code=3), start(), end(code=3), final(exit_code=3)), "SUCCEEDED"),
    "ended for nothing": (
        history(create(), start(), end(code=143), final("FAILED", exit_code=143)),
        "its process exits with 0 unless someone ends it",
    ),
    "killed for nothing": (history(create(), start(), final("FAILED", reason="SIGNAL")), "(SIGNAL)"),
    "timed out for nothing": (history(create(), start(), end(code=143), final("TIMED_OUT")), "TIMED_OUT"),
    "aborted for nothing": (history(create(), start(), final("ABORTED")), "nobody aborted it"),
    "lost though it waits": (
        history(create(on_lost="wait"), start(), end(), final("FAILED", reason="CLUSTER_LOST")),
        "(CLUSTER_LOST)",
    ),
    "lost though its cluster was heard": (history(create(), start(), end(), LOST, *syncs()), "c1 was not silent"),
    "lost because a clock was set": (
        history(create(), start(), fault("step_admin_clock", 11, 15), LOST, *syncs()),
        "c1 was not silent",
    ),
    "lost because another cluster was silent": (
        history(create(), start(), LOST, *syncs(), *syncs(12, 40, cluster="c2")),
        "c1 was not silent",
    ),
    "lost because its cluster had been silent before": (
        history(create(), start(), LOST, *syncs(1, 8)),
        "c1 was not silent",
    ),
    "ended though its agent was answered": (
        history(*RETRIED, fault("duplicate", 10, 20), *syncs(11, 11.5)),
        "attempt 1 of x.0 (retry) was ended, and nobody aborted it, nor was c1 silent",
    ),
    "killed though its agent was answered": (
        history(create(on_lost="retry", attempts=2), start(), start(2), end(2), final(attempt=2), *syncs(25, 40)),
        "attempt 1 of x.0 (retry) was ended",
    ),
    "a cluster is lost though it was heard": (
        history(*syncs(20, 26), marked("LOST")),
        "c1 became LOST 1 times, but was not heard for 9 s 0 times",
    ),
    "a cluster is lost twice by one silence": (
        history(*syncs(20, 30), marked("LOST", "READY", "LOST")),
        "c1 became LOST 2 times",
    ),
    "a cluster is unreachable though it was heard": (
        history(fault("step_admin_clock", 20, 25), *syncs(), marked("UNREACHABLE")),
        "c1 became UNREACHABLE 1 times",
    ),
    "given up though its cluster was heard": (
        history(create(on_lost="wait"), start(), GIVE_UP, end(code=143), LOST, *syncs()),
        "c1 was not silent",
    ),
    "lost though nobody was allowed to give it up": (
        history(create(on_lost="wait"), start(), call("give_up", 30, 409, name_="x"), LOST, *syncs(12, 40)),
        "(CLUSTER_LOST)",
    ),
    "its supervisor is said to be lost": (
        history(create(), start(), final("FAILED", reason="SUPERVISOR_LOST"), *syncs()),
        "(SUPERVISOR_LOST)",
    ),
    "not started for nothing": (history(create(), final("FAILED", reason="NOT_STARTED"), *syncs()), "(NOT_STARTED)"),
    "not started though it ran": (
        history(create(), fault("fill_agent_disk", 5, 9), start(), end(), final("FAILED", reason="NOT_STARTED")),
        "(NOT_STARTED)",
    ),
    "killed though it waits": (
        history(create(on_lost="wait"), start(), final("SUCCEEDED"), *syncs(12, 40)),
        "was ended, and nobody aborted it",
    ),
    "ended though it waits": (
        history(create(on_lost="wait"), start(), end(code=143), RESTORE, final(status=404)),
        "was ended, and nobody aborted it",
    ),
    "the log of another process": (
        history(create(), start(), end(), final(), call("log", 103, token="x.0", attempt=1, text="n9\n", client=FINAL)),
        "printed ['n1']",
    ),
    "an event is missing": (
        history(create(), start(), end(), final(), events(*QUEUED, DONE[2])),
        "event 3 follows event 1",
    ),
    "an end that was not the end": (
        history(create(), start(), end(), final(), events(*DONE, {**RAN[1], "number": 4})),
        "makes RUNNING of SUCCEEDED",
    ),
    "a phase that it never had": (
        history(create(), get(5, "ABORTING", 2), start(), end(), final(), events(*DONE)),
        "was ABORTING after event 2",
    ),
    "a reader of an execution goes back": (
        history(
            create(), get(5, "RUNNING", 2), get(8, "QUEUED", 1, client="b"), start(), end(), final(), events(*DONE)
        ),
        "went back in time",
    ),
    "a revision is missing": (
        history(write(1, 1, 7), write(3, 3, 8), stored(1, 7), stored(3, 8)),
        "revision 3 follows",
    ),
    "an acknowledged change is gone": (
        history(write(1, 1, 7), write(3, 2, 8), stored(1, 7)),
        "not what revision 2 says",
    ),
    "another change has its number": (history(write(1, 1, 7), stored(1, 8)), "not what revision 1 says"),
    "one number for two changes": (history(write(1, 1, 7), write(1.5, 1, 7), stored(1, 7)), "have the number 1"),
    "revisions out of the order of time": (
        history(write(1, 2, 7), write(3, 1, 8), stored(1, 8), stored(2, 7)),
        "revision 2 had been seen before",
    ),
    "a reader goes back": (
        history(write(1, 1, 7), effective(3, 1, 7), effective(5, 0, None), stored(1, 7)),
        "revision 1 had been seen before",
    ),
    "a reader sees another value": (
        history(write(1, 1, 7), effective(3, 1, 8), stored(1, 7)),
        "not what revision 1 says",
    ),
    "a watcher misses a revision": (
        history(call("watch", 1, since_=0, numbers=[1, 3], revision=3), *(stored(number, 7) for number in (1, 2, 3))),
        "did not get each revision",
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_history_is_found(name: str) -> None:
    impossible, message = IMPOSSIBLE[name]
    assert message in "\n".join(find_violations(impossible))


def test_what_was_recorded_is_read_again(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    answered = recorder.call("a", "get", {"name": "x"}, lambda: (404, {"error": "not_found"}))
    unanswered = recorder.call("b", "abort", {"name": "x"}, lambda: None)
    with recorder.fault("kill_agent", "c1"):
        pass
    exchange = Exchange(cluster="c1", side="agent", begun=1.0, ended=2.0)
    recorder.exchange(exchange)
    recorder.close()
    recorder.exchange(exchange)
    recorded = read_history(tmp_path)
    assert recorded.exchanges == (exchange,)
    assert recorded.operations == (answered, unanswered)
    assert (answered.status, unanswered.status) == (404, None)
    assert [(fault.name, fault.target, fault.backup) for fault in recorded.faults] == [("kill_agent", "c1", 0.0)]
