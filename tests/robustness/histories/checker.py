"""The checker: whether the model could have come to a history, and if not, why."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from tests.robustness.histories.causes import Causes
from tests.robustness.histories.model import Impossible, Lifecycle, Policy, Processes, Settings
from tests.robustness.histories.records import History, Operation
from tests.robustness.histories.silences import LOST_SECONDS, UNREACHABLE_SECONDS, Silences

FINAL = "final"  #: the client that reads everything when all faults are over
_ROUGHLY_SECONDS = 0.2


def find_violations(history: History) -> list[str]:
    """Why a history is impossible; nothing for a possible one."""
    return [
        *_creations(history),
        *_refusals(history),
        *_executions(history),
        *_processes(history),
        *_clusters(history),
        *_revisions(history),
    ]


def _creations(history: History) -> Iterator[str]:
    """An acknowledged creation exists, and was made once."""
    reads = _by(lambda read: read.request["name"], [get for get in history.operations if get.name == "get"])
    first: dict[str, Operation] = {}
    for creation in history.named("create"):
        name, token = creation.request["name"], creation.request["token"]
        for read in reads[name]:
            is_wrong = read.status == 404 or (read.is_done and read.answer["token"] != token)
            if is_wrong and history.counts(creation, read):
                yield f"{token} was created and is gone: {creation}; {read}"
                break
        if not any(read.client == FINAL and read.status in (200, 404) for read in reads[name]):
            yield f"{token} was created and not read at the end: {creation}"
        earlier = first.setdefault(token, creation)
        if creation.answer["created"] and earlier is not creation and history.counts(earlier, creation):
            yield f"{token} was created twice: {earlier}; {creation}"


def _refusals(history: History) -> Iterator[str]:
    """A creation that was refused did not happen, unless the admin or its database failed."""
    creations = _by(
        lambda creation: creation.request["token"], [call for call in history.operations if call.name == "create"]
    )
    there = {str(read.answer["token"]) for read in history.named("get")}
    for token, calls in creations.items():
        if token in there and all(_is_refused(call) for call in calls):
            yield f"{token} is there, though its creation was refused: {calls[0]}"


def _is_refused(call: Operation) -> bool:
    """Whether the answer says that nothing was done; after a failure a part of it may have been."""
    error = str(call.answer.get("error"))
    return (call.status or 200) >= 400 and not error.startswith(("database_", "internal", "unavailable"))


def _executions(history: History) -> Iterator[str]:
    """Events are a legal sequence, every read shows a moment of it, and no reader goes back."""
    reads = _by(lambda read: str(read.answer["token"]), history.named("get"))
    for events in history.named("events"):
        token, lifecycle = events.answer["token"], Lifecycle()
        try:
            for event in events.answer["events"]:
                lifecycle.apply(event["number"], event["type"], event["phase"])
        except Impossible as problem:
            yield f"{token}: {problem}"
            continue
        for read in reads[token]:
            number, phase = read.answer["events"], read.answer["phase"]
            if history.counts(read, events) and lifecycle.phases[number - 1 : number] != [phase]:
                yield f"{token} was {phase} after event {number}, but its events made it {lifecycle.phases}: {read}"
    for token, reads_of_token in reads.items():
        for number, later in enumerate(reads_of_token):
            for earlier in reads_of_token[:number]:
                if earlier.answer["events"] > later.answer["events"] and history.counts(earlier, later):
                    yield f"{token}: a reader went back in time: {earlier}; {later}"


def _processes(history: History) -> Iterator[str]:
    """At most one process of an execution runs at a time, and what is reported of it is what it did."""
    causes, policies = Causes(history), _policies(history)
    now = max((operation.ended or 0.0 for operation in history.operations), default=0.0)
    processes = Processes()
    for step in history.steps:
        try:
            processes.apply(step, policies.get(step.token))
        except Impossible as problem:
            yield str(problem)
    for token in processes.starts.keys() & policies.keys():
        try:
            processes.check_ends(token, policies[token], causes, now)
        except Impossible as problem:
            yield str(problem)
    for read in [*history.named("get"), *history.named("log")]:
        if read.client != FINAL:
            continue
        token = str(read.answer["token"])
        if token not in policies:
            yield f"{token} is there, which nobody created: {read}"
            continue
        try:
            if read.name == "log":
                processes.check_log(token, read.answer["attempt"], read.answer["text"])
            else:
                processes.check_result(token, policies[token], read.answer, causes, now)
        except Impossible as problem:
            yield str(problem)


def _policies(history: History) -> dict[str, Policy]:
    """What was asked of each execution, by the token of its creation, and what was done to it."""
    aborted, given_up = (
        {call.request["name"] for call in history.operations if call.name == name and not _is_refused(call)}
        for name in ("abort", "give_up")
    )
    hit = {fault.target for fault in history.faults if fault.name == "killed_supervisor"}
    policies: dict[str, Policy] = {}
    for operation in history.operations:
        if operation.name == "create" and operation.request["token"] not in policies:
            name = operation.request["name"]
            policies[operation.request["token"]] = Policy(
                **{key: operation.request[key] for key in ("on_lost", "attempts", "code")},
                created_at=operation.begun,
                may_be_aborted=name in aborted,
                may_be_given_up=name in given_up,
                is_hit=name in hit,
            )
    return policies


def _clusters(history: History) -> Iterator[str]:
    """A cluster is unreachable, and lost, only if nothing was heard of it for so long."""
    silences = Silences(history.exchanges)
    for read in history.named("cluster_events"):
        cluster, until = read.request["cluster"], read.ended or 0.0
        for kind, seconds in (("UNREACHABLE", UNREACHABLE_SECONDS), ("LOST", LOST_SECONDS)):
            marked = read.answer["types"].count(kind)
            times = silences.times_unheard(cluster, seconds - _ROUGHLY_SECONDS, until)
            if marked > times:
                yield f"{cluster} became {kind} {marked} times, but was not heard for {seconds} s {times} times"


def _revisions(history: History) -> Iterator[str]:
    """Revisions are dense and in the order of time; a reader sees the values of its revision, and never goes back."""
    settings, final = Settings(), None
    for final in sorted(history.named("revision"), key=lambda read: int(read.answer["number"])):
        try:
            settings.apply(final.answer["number"], final.answer["scope"], final.answer["value"])
        except Impossible as problem:
            yield str(problem)
    floors = _Floors(history)
    writers: dict[int, Operation] = {}
    for operation in history.named("set", "effective", "watch"):
        number, floor = operation.answer["revision"], floors.before(operation)
        is_write = operation.name == "set" and operation.answer["changed"]
        is_old = number < floor and not operation.answer.get("stale")  # an answer may be old where it says so
        if is_old or (is_write and number == floor):
            yield f"revision {floor} had been seen before: {operation}"
        if operation.name == "watch":
            first, numbers = operation.request["since"] + 1, operation.answer["numbers"]
            if numbers != list(range(first, first + len(numbers))):
                yield f"a watcher did not get each revision in order: {operation}"
        if final is None or not history.counts(operation, final):
            continue
        if is_write and (other := writers.setdefault(number, operation)) is not operation:
            yield f"two changes have the number {number}: {other}; {operation}"
        if operation.name == "watch":
            continue
        expected_value = operation.request["value"] if is_write else operation.answer["value"]
        if number > settings.head or settings.value_at(operation.request["scope"], number) != expected_value:
            yield f"it is not what revision {number} says: {operation}"


class _Floors:
    """The newest revision that was known to anyone at a time, and not undone by a restore since."""

    def __init__(self, history: History) -> None:
        self._restores = sorted(history.restores, key=lambda restore: restore.begun)
        self._times: dict[int, list[float]] = defaultdict(list)  #: by epoch; -1 for all of them
        self._newest: dict[int, list[int]] = defaultdict(list)
        operations = history.named("set", "effective", "watch")
        for operation in sorted(operations, key=lambda operation: operation.ended or 0.0):
            assert operation.ended is not None
            for epoch in {-1, self._epoch(operation)}:
                newest = self._newest[epoch]
                newest.append(max(operation.answer["revision"], newest[-1] if newest else 0))
                self._times[epoch].append(operation.ended)

    def before(self, operation: Operation) -> int:
        """What was known before an operation began."""
        assert operation.ended is not None
        restores = [restore for restore in self._restores if restore.begun < operation.ended]
        if not restores:
            return self._at(-1, bisect_left(self._times[-1], operation.begun))
        kept = self._at(-1, bisect_right(self._times[-1], min(restore.backup for restore in restores)))
        epoch = len(restores)  # what began after the last of them
        return max(kept, self._at(epoch, bisect_left(self._times[epoch], operation.begun)))

    def _epoch(self, operation: Operation) -> int:
        return sum(restore.ended <= operation.begun for restore in self._restores)

    def _at(self, epoch: int, place: int) -> int:
        return self._newest[epoch][place - 1] if place else 0


def _by(key: Callable[[Operation], Any], operations: list[Operation]) -> defaultdict[str, list[Operation]]:
    grouped: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        grouped[key(operation)].append(operation)
    return grouped
