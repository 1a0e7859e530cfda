"""`simulate`: which executions would have gone elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.options import Option, WholeNumber, assumed_files_option
from ctl.cli.output import Printer, text_cells
from ctl.cli.progress import step
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, InvalidRequest
from ctl.client.executions import ExecutionId
from ctl.client.times import parse_since
from ctl.client.words import count
from ctl.commands.changes.documents import DOCUMENTS, read, stale_documents
from ctl.commands.changes.reports import tell_warnings
from ctl.commands.executions.options import SINCE, UNTOLD, scope_options, selected_scope
from ctl.files.proposals import Proposal

_HELP = f"""Show which past executions would have gone elsewhere if documents had been applied.

Nothing is written and nothing moves. {DOCUMENTS}

BEFORE is what would be decided today without the documents, not where an execution ran, and AFTER what would be with
them. Says which state of the fleet it assumed, and which clusters got no work then. With --fleet recorded, the
clusters that the last decision of an execution considered are taken to be enabled, cordoned or lost as that decision
found them; the definitions, other clusters and the load are those of now.
"""
_COMPARED = (
    "BEFORE is what would be decided today without the documents, AFTER with them; where executions really ran is in "
    "`rainbowctl get execution`."
)
#: Clusters without work that the text names.
_MOST_OFF = 10


@command(
    help=_HELP,
    params=[
        assumed_files_option("Documents to assume. Repeatable."),
        SINCE,
        *scope_options(),
        Option(
            ["--fleet"],
            type=click.Choice(["current", "recorded"]),
            help="States of clusters to assume: of now, or as each execution's decision recorded them.",
        ),
        Option(["--limit"], metavar="N", type=WholeNumber(min=1), help="How many executions to list at most."),
    ],
    examples=[
        "rainbowctl simulate --with new-pools.yaml --since 24h",
        "rainbowctl simulate --with settings/ --since 7d -p flytesnacks -d production",
        "rainbowctl simulate --with new-pools.yaml --since 24h --fleet recorded",
    ],
)
def simulate(session: Session, files: tuple[str, ...], **flags: Any) -> None:
    if not files:
        raise InvalidInput("Which documents? Give --with FILE, --with DIR, or --with - for stdin.")
    since = parse_since(flags["since"], "--since", now=datetime.now(UTC))
    where: dict[str, Any] = selected_scope(session, flags)
    proposal = Proposal.from_documents(read(session, files))
    try:
        with step(session.printer, "Deciding again"):
            answer = session.client.simulate(
                proposal.changes, since, **where, limit=flags["limit"], fleet=flags["fleet"]
            )
    except InvalidRequest as error:
        raise proposal.locate(error) from None
    if warnings := stale_documents(session, proposal):
        answer["warnings"] = warnings
        tell_warnings(session, warnings)
    show_simulation(session.printer, answer, since, where)


def show_simulation(printer: Printer, answer: Document, since: str, where: Mapping[str, str]) -> None:
    """Print what a simulation answers."""
    executions = answer["executions"]
    if printer.machine_output((ExecutionId.from_document(move["id"]).resource for move in executions), answer):
        return
    printer.sentence(_summary(printer, answer, since, where))
    if answer.get("not_counted"):
        printer.sentence(str(answer["not_counted"]))
    if answer.get("fleet"):
        printer.sentence(_assumed(printer, answer["fleet"]))
        printer.sentence(_COMPARED)
    if answer.get("by_last_bids"):
        asked = count(int(answer["by_last_bids"]), "execution")
        printer.sentence(f"Asking was simulated for {asked}: nobody was asked, the last bids of the clusters count.")
    if executions:
        printer.line()
        columns = ["PROJECT", "DOMAIN", "NAME", "BEFORE", "BEFORE BY", "AFTER", "AFTER BY", "REASON"]
        printer.table(columns, [_cells(move) for move in executions])
    by_cluster, by_refusal = dict(answer.get("by_cluster") or {}), answer.get("by_refusal") or {}
    waiting = _less(by_cluster.pop("", {}), by_refusal.values())
    sums = [_sums("(none)", waiting)] if any(waiting.values()) else []
    sums += [_sums(cluster, numbers) for cluster, numbers in sorted(by_cluster.items())]
    # No cluster can have a name with a colon.
    sums += [_sums(f"refused: {code}", numbers) for code, numbers in sorted(by_refusal.items())]
    if sums:
        printer.line()
        printer.table(["CLUSTER", "BEFORE", "AFTER", "DIFFERENCE"], sums)
    if len(executions) < int(answer.get("moved") or 0):
        printer.note(f"These are the first {len(executions)}; --limit N lists more.")


def _cells(move: Document) -> list[str]:
    before, after = move["before"], move["after"]
    return [
        *text_cells(move["id"], "project", "domain", "name"),
        *(cell for side in (before, after) for cell in (*text_cells(side, "cluster"), _by(side))),
        _reason(after),
    ]


def _reason(after: Document) -> str:
    """The code of a decision; of a refusal what is wrong."""
    return f"refused: {after['message']}" if after.get("refused") else str(after.get("reason") or "")


def _by(side: Document) -> str:
    return ", ".join(f"{key} {side[key]}" for key in ("pool", "label") if side.get(key))


def _less(numbers: Document, others: Iterable[Document]) -> dict[str, int]:
    """Numbers before and after without those of others."""
    subtracted = list(others)
    return {
        side: int(numbers.get(side) or 0) - sum(int(other.get(side) or 0) for other in subtracted)
        for side in ("before", "after")
    }


def _sums(cluster: str, numbers: Document) -> list[str]:
    before, after = int(numbers.get("before") or 0), int(numbers.get("after") or 0)
    return [cluster, str(before), str(after), f"{after - before:+d}" if after != before else ""]


def _summary(printer: Printer, answer: Document, since: str, where: Mapping[str, str]) -> str:
    scope = ", ".join(f"{key} {name}" for key, name in where.items())
    compared = count(int(answer.get("compared") or 0), "execution")
    text = f"Compared {compared} since {printer.when(since)}{f' of {scope}' if scope else ''}: "
    text += f"{answer.get('moved') or 0} would go elsewhere"
    return f"{text}; {answer['refused']} of these would be refused." if answer.get("refused") else f"{text}."


def _assumed(printer: Printer, fleet: Document) -> str:
    """Which state of the fleet the answer is about."""

    at = printer.when(str(fleet["at"]))
    off = fleet.get("off") or {}
    names = [f"{name} ({reason})" for name, reason in list(off.items())[:_MOST_OFF]]
    more = f" and {len(off) - _MOST_OFF} more" if len(off) > _MOST_OFF else ""
    untold = [f"{count(fleet[key], 'cluster')} you may not {verb}" for key, verb in UNTOLD.items() if fleet.get(key)]
    listed = ", ".join(filter(None, (f"{', '.join(names)}{more}", *untold)))
    clusters = f"{count(int(fleet['clusters']), 'cluster')}, off: {listed or 'none'}"
    fleet_now = f"the fleet as it is now (revision {fleet['revision']}, {at}): {clusters}"
    if fleet["state"] == "recorded":
        return f"Assumed the states of clusters that each decision recorded, and otherwise {fleet_now}."
    return f"Assumed {fleet_now}."
