"""Following one execution: print each change as it happens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from operator import attrgetter

from ctl.cli.output import Columns
from ctl.cli.session import Session
from ctl.cli.watching import Backoff
from ctl.client.calls.executions import LONGEST_WAIT_SECONDS
from ctl.client.errors import EndedOtherwise
from ctl.client.executions import Execution, ExecutionId
from ctl.client.times import to_second

_WAIT_SECONDS = 30
#: Times are absolute: each line stays on the screen while others follow.
_COLUMNS: Columns = {
    "WHEN": lambda execution: to_second(str((execution.document.get("closure") or {}).get("updated_at", ""))),
    "PHASE": attrgetter("phase"),
    "REASON": attrgetter("reason"),
    "CLUSTER": attrgetter("cluster"),
    "MESSAGE": attrgetter("message"),
}


def follow(session: Session, id: ExecutionId, *, seconds: float | None = None) -> Iterator[Execution]:
    """
    The execution as it is, then again after each of its events, until it is finished or the time is up.

    When the admin cannot be reached, as while it restarts, it is tried again; only at the very start that is an error.
    """
    deadline = None if seconds is None else session.monotonic() + seconds
    seen = Execution.from_document(session.client.execution(id))
    yield seen
    backoff = Backoff(session)
    while not seen.is_finished:
        left = _WAIT_SECONDS if deadline is None else deadline - session.monotonic()
        if left <= 0:
            return
        # The admin waits whole seconds; the last fraction is waited for here.
        wait_seconds = min(int(left), _WAIT_SECONDS, LONGEST_WAIT_SECONDS)
        if not wait_seconds:
            session.sleep(left)
        document = backoff.call(partial(session.client.wait_for_execution, id, seen.events, wait_seconds), left)
        execution = seen if document is None else Execution.from_document(document)
        if execution.events != seen.events:
            seen = execution
            yield seen


def watch_execution(session: Session, id: ExecutionId) -> Execution:
    """Print the execution, and again whenever something happens to it, until it is finished."""
    seen = None
    for execution in follow(session, id):
        _show(session, execution, is_first=seen is None)
        sys.stdout.flush()
        seen = execution
    assert seen is not None, "following starts with the execution as it is"
    return seen


def _show(session: Session, execution: Execution, *, is_first: bool) -> None:
    printer = session.printer if is_first else session.printer.without_headers()
    if not printer.stream([execution.id.resource], [execution.document]):
        printer.rows([execution], _COLUMNS)


def check_success(execution: Execution) -> None:
    """Fail where an execution that was followed to its end did not succeed."""
    if execution.phase != "SUCCEEDED":
        reason = execution.reason_text()
        raise EndedOtherwise(f"Execution {execution.id} ended {execution.phase}{f' ({reason})' if reason else ''}.")
