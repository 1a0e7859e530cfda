"""Tables of executions and of their events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter

from ctl.cli.lists import Listing
from ctl.cli.output import Columns, Field, Sentence, Time, id_part
from ctl.cli.provenance import describe_given_up, show_author, show_name
from ctl.cli.session import Session
from ctl.client.answers import Document, group_values
from ctl.client.executions import Execution
from ctl.client.quantities import show_bytes
from ctl.client.scopes import Scope
from ctl.client.times import format_duration, parse_timestamp
from ctl.client.words import count

#: Of a row with the id of an execution.
ID_COLUMNS: Columns = {"PROJECT": id_part("project"), "DOMAIN": id_part("domain"), "NAME": id_part("name")}

#: More nodes than these are counted only.
_MOST_NODES = 3


def reason_code(row: Document) -> str | None:
    """A column: the code of the row's reason."""
    return (row.get("reason") or {}).get("code")


def _field(key: str) -> Field:
    return lambda execution: execution.document.get(key)


def _nodes(execution: Execution) -> str:
    names = execution.document.get("nodes") or []
    rest = len(names) - _MOST_NODES
    return ",".join([*names[:_MOST_NODES], *([f"+{rest}"] if rest > 0 else [])])


def rung_origin(rung: Document, revision: str = "") -> str:
    """A column: the scope, configuration key, request or launch plan that says what a rung asks for.

    `revision` describes the version of its row, or who registered the launch plan.
    """
    if rung.get("source"):
        return f"{rung['source']} ({revision})" if revision else str(rung["source"])
    scope = Scope.from_document(rung)
    if scope.level != "platform":
        version = revision or (f"version {rung['version']}" if rung.get("version") else "")
        return f"{scope.describe()} ({version})" if version else scope.describe()
    return f"configuration ({rung['key']})" if rung.get("key") else ""


def _origin(execution: Execution) -> str:
    """Which rung decided where an execution went, and who set it."""
    rung = execution.document.get("origin") or {}
    origin = rung_origin(rung)
    return f"{rung.get('rung', '')}: {origin}" if origin else str(rung.get("rung", ""))


def _cause(execution: Execution) -> str:
    """What ended it without success; while it waits or runs again after a failure, what that was."""
    failure = execution.document.get("last_failure") or {}
    if not execution.cause or execution.phase not in ("QUEUED", "RUNNING") or not failure:
        return execution.cause
    number = failure.get("attempt_number") or failure.get("attempt", "")
    return f"{execution.cause} (attempt {number}: {failure.get('ended_by', '')})"


def back_off_of(document: Document) -> str:
    """How long an execution is still in back-off; "" for one that is not."""
    start = parse_timestamp(document.get("not_before"))
    wait = (start - datetime.now(UTC)).total_seconds() if start else 0
    return f"back-off {format_duration(wait)}" if wait > 0 else ""


def reason_of(execution: Execution) -> str:
    """The code of the reason, and what it does not tell: `TERMINATED (unconfirmed)`, `RETRY (back-off 4 min 10 s)`.

    Empty where it says no more than the phase, as SUCCEEDED does.
    """
    document = execution.document
    notes = [back_off] if (back_off := back_off_of(document)) else []
    if document.get("unconfirmed"):
        notes.append("unconfirmed")
    if document.get("silence") and execution.reason != "CLUSTER_SILENT":
        notes.append("silent")
    code = "" if execution.reason == execution.phase else execution.reason
    return f"{code} ({', '.join(notes)})".strip() if notes else code


def _aborted_by(execution: Execution) -> str:
    closure = execution.document.get("closure") or {}
    abort = closure.get("abort_metadata") or {}
    return f"{show_author(abort, 'principal')}{describe_given_up(abort)}"


def _abort_requested_at(execution: Execution) -> str | None:
    abort = (execution.document.get("closure") or {}).get("abort_metadata") or {}
    return abort.get("requested_at")


def _time_limit(execution: Execution) -> str:
    seconds = execution.document.get("time_limit_seconds")
    return format_duration(seconds) if seconds else ""


def _waited(execution: Execution) -> str:
    """How long it waited for its start since it could start; until now, or its end, if it has not started."""
    closure = execution.document.get("closure") or {}
    begin = parse_timestamp(execution.document.get("could_start_at"))
    end = parse_timestamp(closure.get("started_at") or closure.get("finished_at")) or datetime.now(UTC)
    return "" if begin is None else format_duration((end - begin).total_seconds())


def _moved(execution: Execution) -> str:
    """From where to where the last decision took an execution: `east -> west`; "" where it stayed, or was the first."""
    before, after = execution.document.get("previous_cluster"), execution.cluster
    if execution.document.get("previous_none"):
        return f"none -> {after}" if after else ""
    is_undecided = not after and execution.reason == "UNDECIDED"
    return f"{before} -> {after or 'none'}" if before and before != after and not is_undecided else ""


def _next_attempt(document: Document) -> str | None:
    """When the next attempt may start, of what is still in back-off."""
    return document.get("not_before") if back_off_of(document) else None


_PLACE: Columns = {"PROJECT": attrgetter("id.project"), "DOMAIN": attrgetter("id.domain")}
_COLUMNS: Columns = {
    "NAME": attrgetter("id.name"),
    "LAUNCH PLAN": attrgetter("launched"),
    "VERSION": attrgetter("version"),
    "PHASE": attrgetter("phase"),
    "REASON": reason_of,
    "CLUSTER": attrgetter("cluster"),
    "POOL": attrgetter("pool"),
    "LABEL": attrgetter("label"),
    "CREATED": Time(attrgetter("created_at")),
    "ELAPSED": lambda execution: execution.elapsed(datetime.now(UTC)),
}
_WIDE: Columns = {
    "STATE": attrgetter("state"),
    "MODE": _field("mode"),
    "CREATED BY": lambda execution: show_name(
        *(execution.document.get(key) for key in ("created_by", "claimed_by", "created_proof"))
    ),
    "PRINCIPAL": _field("principal"),
    "CAUSE": _cause,
    "ABORTED BY": _aborted_by,
    "ABORT REQUESTED": Time(_abort_requested_at),
    "MOVED": _moved,
    "ATTEMPT": attrgetter("attempt_number"),
    "NEXT ATTEMPT": Time(lambda execution: _next_attempt(execution.document), is_due=True),
    "WAITED": _waited,
    "TIME LIMIT": _time_limit,
    "ON LOST": _field("on_lost"),
    "QUEUE": _field("queue"),
    "CPU": _field("cpu"),
    "MEMORY": _field("memory"),
    "GPU": _field("gpu"),
    "NATIVE ID": _field("native_id"),
    "NODES": _nodes,
    "EXIT CODE": _field("exit_code"),
    "REVISION": _field("revision"),
    "MESSAGE": Sentence(attrgetter("message")),
}


#: Of lists, which ask for the origin of each execution; `explain` shows that of one.
_ORIGIN: Columns = {"ORIGIN": _origin}
#: Of lists too, which ask for it.
_LIMIT_SCOPE: Columns = {"LIMIT SCOPE": _field("limit_scope")}


def _abort_cause(execution: Execution) -> str | None:
    abort = (execution.document.get("closure") or {}).get("abort_metadata") or {}
    return abort.get("cause")


_ABORT: Columns = {
    "ABORTED BY": _aborted_by,
    "ABORT REQUESTED": Time(_abort_requested_at),
    "ABORT CAUSE": Sentence(_abort_cause),
}


def _silence(execution: Execution) -> str:
    """Since when its cluster is silent, and what becomes of it."""
    return " ".join(filter(None, (execution.document.get(key) for key in ("silence", "silence_outlook"))))


_DECISIONS: Columns = {"DECISIONS": _field("decisions"), "MOVED": _moved, "MESSAGE": Sentence(attrgetter("message"))}
#: The columns that a list has if it is selected by these fields, since each answers more than the field asks.
_SELECTED: Mapping[str, Columns] = {
    "silent": {"SILENCE": Sentence(_silence)},
    "abort_principal": _ABORT,
    "unconfirmed": _ABORT,
    "decisions": _DECISIONS,
    "decided_at": _DECISIONS,
    "waited": {"WAITED": _waited},
}


def _event_message(event: Document) -> str | None:
    return event.get("message") or (event.get("reason") or {}).get("message")


_EVENT_COLUMNS: Columns = {
    "NUMBER": "number",
    "WHEN": Time("at"),
    "EVENT": "type",
    "PHASE": "phase",
    "CLUSTER": "cluster",
    "REASON": reason_code,
    "MESSAGE": Sentence(_event_message, is_past=True),
    "BY": lambda event: show_author(event, "by"),
}
EVENT_LISTING = Listing(
    fields={
        **{name: name for name in ("number", "at", "type", "phase", "cluster", "by")},
        "reason": reason_code,
        "message": _event_message,
    },
    order="number",
)


def show_executions(
    session: Session,
    executions: Sequence[Execution],
    *,
    with_place: bool,
    with_origin: bool = False,
    with_limit_scope: bool = False,
    selected_by: Collection[str] = (),
    has_headers: bool = True,
    is_folded: bool = False,
) -> None:
    """A table of executions; `with_place` where they may be of several projects and domains.

    `selected_by` are the fields by which they were selected.
    """
    printer = session.printer if has_headers else session.printer.without_headers()
    printer = printer.folded() if is_folded else printer
    columns = {**(_PLACE if with_place else {}), **_COLUMNS, **(_LIMIT_SCOPE if with_limit_scope else {})}
    for field in selected_by:
        columns |= _SELECTED.get(field, {})
    wide = {**(_ORIGIN if with_origin else {}), **(_LIMIT_SCOPE if with_origin else {}), **_WIDE}
    printer.rows(executions, columns, wide)


def print_execution(session: Session, execution: Execution, document: Document | None = None) -> None:
    """One execution in the format asked for, as a table or as the document of an answer."""
    document = execution.document if document is None else document
    if not session.printer.machine_output([execution.id.resource], document):
        show_executions(session, [execution], with_place=False)


#: What the executions of a group request together; an older admin does not say.
_REQUESTED: Columns = {
    "CPU": lambda group: f"{group['requested']['cpu']:.15g}",
    "MEMORY": lambda group: show_bytes(group["requested"]["memory"]),
    "GPU": lambda group: str(group["requested"]["gpu"]),
}


#: Those that wait for their start, where any do.
_WAITING: Columns = {
    "WAITING": lambda group: str((group.get("waiting") or {}).get("count", 0)),
    "LONGEST WAIT": lambda group: _wait(group, "longest_seconds"),
    "MEDIAN WAIT": lambda group: _wait(group, "median_seconds"),
}


#: Those that have started, which wide output shows.
_STARTED: Columns = {
    "STARTED": lambda group: str((group.get("started") or {}).get("count", 0)),
    "LONGEST WAITED": lambda group: _wait(group, "longest_seconds", "started"),
    "MEAN WAITED": lambda group: _wait(group, "mean_seconds", "started"),
}


#: Those that ran, and what they had, which wide output shows.
_RAN: Columns = {
    "RAN": lambda group: str((group.get("ran") or {}).get("count", 0)),
    "MEAN RUN": lambda group: _wait(group, "mean_seconds", "ran"),
    "LONGEST RUN": lambda group: _wait(group, "longest_seconds", "ran"),
    "CPU HOURS": lambda group: _hours(group, "cpu_hours"),
    "GPU HOURS": lambda group: _hours(group, "gpu_hours"),
}


def _hours(group: Document, name: str) -> str:
    return f"{(group.get('ran') or {}).get(name, 0):.2f}"


def _wait(group: Document, name: str, part: str = "waiting") -> str:
    seconds = (group.get(part) or {}).get(name)  # the median of many that were counted in several answers is not known
    return "" if seconds is None else format_duration(seconds)


def _group_header(word: str) -> str:
    return word if word.startswith("labels.") else word.upper().replace("_", " ")


def _group_value(index: int) -> Field:
    """A column: what the executions of a group have of one of the words that they are counted by."""
    return lambda group: group_values(group)[index] or "(none)"


def show_counts(session: Session, answer: Document) -> None:
    """How many executions there are of each group, in the format asked for."""
    printer, by = session.printer, answer["by"]
    columns: Columns = {
        **{_group_header(word): _group_value(index) for index, word in enumerate(by.split(","))},
        "COUNT": "count",
        **(_REQUESTED if any("requested" in group for group in answer["counts"]) else {}),
        **(_WAITING if any("waiting" in group for group in answer["counts"]) else {}),
        "NEXT ATTEMPT": Time(_next_attempt, is_due=True),
    }
    names = (f"{by}/{','.join(group_values(group))}" for group in answer["counts"])
    if answer["counts"] and printer.is_table:
        printer.note(f"{count(answer['total'], 'execution')}.")
    parts = {"started": _STARTED, "ran": _RAN}
    shown = [columns for part, columns in parts.items() if any(part in group for group in answer["counts"])]
    wide = {name: column for columns in shown for name, column in columns.items()}
    printer.show(names, answer["counts"], answer, columns, wide, empty="No executions match.")
    for unknown in answer.get("unknown_names") or []:
        printer.note(str(unknown["message"]))
    if answer.get("not_counted"):
        printer.note(str(answer["not_counted"]))


def show_events(session: Session, events: Sequence[Document]) -> None:
    """A table of what happened to an execution."""
    session.printer.rows(events, _EVENT_COLUMNS)


def note_pruned_events(session: Session, events: Sequence[Document]) -> None:
    """Say so if the first of all events are missing."""
    if not events or events[0].get("number", 1) > 1:
        session.printer.note("The first of its events are no longer kept.")
