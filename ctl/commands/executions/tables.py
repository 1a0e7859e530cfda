"""Tables of executions and their events, and the warnings of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ctl.cli.output import text_cells
from ctl.cli.session import Session
from ctl.client.answers import Document, warning_text
from ctl.client.executions import Execution
from ctl.client.times import to_second

_COLUMNS = [
    "NAME",
    "LAUNCH PLAN",
    "VERSION",
    "PHASE",
    "REASON",
    "CLUSTER",
    "POOL",
    "LABEL",
    "CREATED",
    "ELAPSED",
]
_MORE = ["STATE", "MODE", "ATTEMPT", "NATIVE ID", "NODES", "EXIT CODE", "REVISION", "MESSAGE"]
_PLACE = ["PROJECT", "DOMAIN"]
#: More nodes than these are counted only.
_MOST_NODES = 3


def show_executions(
    session: Session, executions: Sequence[Execution], *, with_place: bool, has_headers: bool = True
) -> None:
    """A table of executions; `with_place` where they may be of several projects and domains."""
    printer = session.printer if has_headers else session.printer.without_headers()
    now = datetime.now(UTC)
    columns = (_PLACE if with_place else []) + _COLUMNS + (_MORE if printer.is_wide else [])
    printer.table(columns, [_cells(each, now, with_place, printer.is_wide) for each in executions])


def _cells(execution: Execution, now: datetime, with_place: bool, is_wide: bool) -> list[str]:
    cells = [execution.id.project, execution.id.domain] if with_place else []
    cells += [execution.id.name, execution.launched, execution.version, execution.phase, execution.reason]
    cells += [execution.cluster, execution.pool, execution.label, execution.created, execution.elapsed(now)]
    if is_wide:
        document = execution.document
        cells += [
            execution.state,
            *text_cells(document, "mode", "attempt", "native_id"),
            _nodes(document.get("nodes") or []),
        ]
        cells += [*text_cells(document, "exit_code", "revision"), execution.message]
    return cells


def _nodes(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NODES
    return ",".join([*names[:_MOST_NODES], *([f"+{rest}"] if rest > 0 else [])])


def show_events(session: Session, events: Iterable[Document], *, has_headers: bool = True) -> None:
    """A table of what happened to an execution."""
    printer = session.printer if has_headers else session.printer.without_headers()
    columns = ["NUMBER", "WHEN", "EVENT", "PHASE", "CLUSTER", "REASON", "MESSAGE"] + (["BY"] if printer.is_wide else [])
    rows = list(events)
    printer.table(columns, [_event_cells(event, printer.is_wide) for event in rows])
    if has_headers and (not rows or rows[0].get("number", 1) > 1):
        session.printer.note("The first of its events are no longer kept.")


def _event_cells(event: Document, is_wide: bool) -> list[str]:
    reason = event.get("reason") or {}
    message = str(event.get("message") or reason.get("message") or "")
    cells = [str(event.get("number", "")), to_second(str(event.get("at", "")))]
    cells += [str(event.get(key) or "") for key in ("type", "phase", "cluster")]
    return [*cells, str(reason.get("code") or ""), message, *([str(event.get("by") or "")] if is_wide else [])]


def tell_warnings(session: Session, answer: Document) -> None:
    """Print every warning of an answer."""
    for warning in answer.get("warnings") or []:
        session.printer.warning(warning_text(warning))
