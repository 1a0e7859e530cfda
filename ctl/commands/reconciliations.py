"""Reconciliations: the clusters that a restored database does not agree with yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, refuse_choice, typed_choice
from ctl.cli.options import Argument, Option, definition_completer, force_option
from ctl.cli.output import Columns, Sentence, Time
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.session import Session, local_user
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.words import count, listed
from ctl.commands.executions.tables import ID_COLUMNS

_GET_HELP = """Show the clusters that are not reconciled with a database that was restored from a backup.

A cluster is waiting until its agent has synced: until none is, no cluster gets new work, and nothing is ended. Then it
has unknown_work for as long as its agent has executions that the database does not know; they go on. With a name,
those executions are listed.
"""
_DELETE_HELP = """Count clusters as reconciled with a database that was restored from a backup.

A cluster that is waiting is not waited for any longer: name those whose agents will not come back. Of one with
unknown_work, the agent ends the executions that the database does not know; let them end first if their results
matter. This is recorded as an event of the cluster (`get cluster-event`). Asks for confirmation on a terminal; without
one, --all needs --force. Without --force, nothing is ended but what was shown: if a cluster is in another state by
then, or has more unknown executions, the exit status is 5.
"""

_NOTHING = "Nothing to reconcile: no restored database is behind."
_CLUSTERS = definition_completer("cluster")
_COLUMNS: Columns = {
    "CLUSTER": "cluster",
    "STATE": "state",
    "SINCE": Time("began_at"),
    "SYNCED": Time("synced_at"),
    "UNKNOWN": lambda row: len(row["unknown"]),
    "WHY": Sentence("message"),
}
_WIDE_COLUMNS: Columns = {"EXECUTIONS": lambda row: ", ".join("/".join(held["id"].values()) for held in row["unknown"])}
_UNKNOWN_COLUMNS: Columns = {**ID_COLUMNS, "ATTEMPT": "attempt", "UID": "uid"}
_LISTING = Listing(
    fields={
        **{name: name for name in ("cluster", "state", "began_at", "synced_at", "message")},
        "unknown": lambda row: len(row["unknown"]),
    },
    order="cluster",
)


@command(
    help=_GET_HELP,
    params=[
        Argument(
            "cluster",
            required=False,
            metavar="[CLUSTER]",
            explanation="Name of a cluster.",
            shell_complete=_CLUSTERS,
        ),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get reconciliation",
        "rainbowctl get reconciliation a",
        "rainbowctl get reconciliations -o yaml",
    ],
)
def get_reconciliation(session: Session, cluster: str | None, **flags: Any) -> None:
    if cluster is None:
        rows = choose_rows(session, session.client.reconciliations(), flags, _LISTING, "reconciliation", by="state")
        empty = "No reconciliations match." if typed_choice(flags) else _NOTHING
        _show(session, rows, rows, empty=empty)
        return
    refuse_choice(flags, cluster)
    row = session.client.reconciliation(cluster)
    _show(session, [row], row)
    if session.printer.is_table and row["unknown"]:
        session.printer.line()
        session.printer.rows(row["unknown"], _UNKNOWN_COLUMNS)


def _show(session: Session, rows: Sequence[Document], document: object, *, empty: str = "") -> None:
    names = (f"reconciliation/{row['cluster']}" for row in rows)
    session.printer.show(names, rows, document, _COLUMNS, _WIDE_COLUMNS, empty=empty)


@command(
    help=_DELETE_HELP,
    params=[
        Argument(
            "clusters",
            nargs=-1,
            metavar="[CLUSTER …]",
            explanation="Names of clusters.",
            shell_complete=_CLUSTERS,
        ),
        Option(["--all", "every"], is_flag=True, help="Every cluster that is not reconciled yet."),
        Option(["--reason"], metavar="WHY", help="Why; kept with the event."),
        force_option("Do not ask."),
    ],
    examples=[
        "rainbowctl delete reconciliation a --reason 'the rack burnt down'",
        "rainbowctl delete reconciliation --all",
    ],
)
def delete_reconciliation(
    session: Session, clusters: tuple[str, ...], every: bool, reason: str | None, force: bool
) -> None:
    if bool(clusters) == every:
        raise InvalidInput("Name the clusters that count as reconciled, or say --all: give one of the two.")
    client = session.client
    rows = client.reconciliations() if every else [client.reconciliation(name) for name in dict.fromkeys(clusters)]
    _confirm(session, rows, every=every, force=force)
    answers = []
    for row in rows:
        seen = {} if force else {"state": row["state"], "unknown_count": len(row["unknown"])}
        try:
            answer = client.end_reconciliation(row["cluster"], **seen, reason=reason, claimed_by=local_user())
        except NotFound:  # its agent has synced since
            session.printer.note(f"No changes: cluster {row['cluster']} is reconciled by now.")
            continue
        answers.append(answer)
        session.printer.note(_outcome(answer))
    if not rows:
        session.printer.note("Nothing to reconcile.")
    session.printer.machine_output((f"reconciliation/{answer['cluster']}" for answer in answers), answers)


def _confirm(session: Session, rows: Sequence[Document], *, every: bool, force: bool) -> None:
    """Ask before anything is let go, unless --force is given."""
    if not rows or force:
        return
    names = ("cluster " if len(rows) == 1 else "clusters ") + listed(row["cluster"] for row in rows)
    if is_terminal():
        if session.printer.is_table:
            _show(session, rows, rows)
        confirm(f"Count {names} as reconciled?", "Not confirmed: nothing was changed.")
    elif every:
        raise InvalidInput(f"This is about {names}. There is no terminal to ask at: use --force. Nothing was changed.")


def _outcome(answer: Document) -> str:
    cluster, unknown = answer["cluster"], answer["unknown"]
    if unknown:
        return f"Reconciled cluster {cluster}: its agent ends {count(len(unknown), 'unknown execution')}."
    return f"Reconciled cluster {cluster}: its agent is not waited for any longer."
