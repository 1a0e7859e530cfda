"""`place`: where something would run, and why, without running it."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import RunCommand, command
from ctl.cli.options import Option, WholeNumber, assumed_files_option, text_option
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, InvalidRequest
from ctl.client.executions import ExecutionId
from ctl.commands.changes.documents import read, stale_documents
from ctl.commands.executions.explain import print_explanation, show_why_not
from ctl.commands.executions.requests import RUN_PARAMETERS, requests_from_flags, send_request
from ctl.files.execution_requests import Request
from ctl.files.proposals import Proposal

#: The most that the admin answers with, where a number is given.
_MOST = 10_000

_HELP = """Show where something would run, and why, without running it.

Takes the flags of `rainbowctl create execution`: a launch plan, a workflow, a command after --, a jobspec or a file.
The choice among equally good clusters depends on the name of the execution; give NAME to ask about that one.

--with FILE shows what would happen if the documents in it were applied.

--fleet shows every cluster of the fleet instead, candidate or not, and when it could run it if it were a candidate:
now; later, where it is full, cordoned, silent, disabled, expected, ruled out or may not be used; never, where it is too
small, its description has no place for it, or it lacks the plugin; or that it is not known how much it has. Beside that
stands why not, and why it is no candidate. A job that no candidate could ever run is shown so too, not refused. Of
many, 20 are shown, with --limit as many, with -o wide all. -o json has them all, and --limit bounds its not_candidates.

--whyNot CLUSTER says first why it would not go to that one: not a candidate, and whether it could run it; or a
candidate that is not chosen, and why.
"""


@command(
    cls=RunCommand,
    help=_HELP,
    params=[
        *RUN_PARAMETERS,
        assumed_files_option(),
        Option(["--fleet"], is_flag=True, help="Show every cluster of the fleet, and when it could run it."),
        text_option("whyNot", metavar="CLUSTER", help="Say why it would not go to this cluster.", noun="cluster"),
        Option(
            ["--limit"],
            metavar="N",
            type=WholeNumber(min=1, max=_MOST),
            help="With --fleet: how many clusters to show at most.",
        ),
    ],
    examples=[
        "rainbowctl place -p flytesnacks -d development --launchplan train",
        "rainbowctl place -p flytesnacks -d development --clusterPool gpu --gpu 1 -- python train.py",
        "rainbowctl place -p flytesnacks -d development --workflow train --with new-pools.yaml -o wide",
        "rainbowctl place -p flytesnacks -d development --fleet --gpu 4 --memory 64Gi -- python train.py",
        "rainbowctl place -p flytesnacks -d development --whyNot east --launchplan train",
    ],
)
def place(
    session: Session, files: tuple[str, ...], fleet: bool, why_not: str | None, limit: int | None, **flags: Any
) -> None:
    if limit is not None and not fleet:
        raise InvalidInput("--limit goes with --fleet: add that, or leave it out.")
    request, *others = requests_from_flags(session, flags)
    if others:
        raise InvalidInput(
            f"place takes one execution, and {flags['exec_file']} holds {len(others) + 1}: keep one of them."
        )
    proposal = Proposal.from_documents(read(session, files) if files else [])

    def send(request: Request) -> Document:
        try:
            return session.client.place(request.body, proposal.changes, fleet=fleet, limit=limit, why_not=why_not)
        except InvalidRequest as error:
            raise proposal.locate(error) from None

    explanation = send_request(session, request, send)
    explanation["warnings"] = [*(explanation.get("warnings") or []), *stale_documents(session, proposal)]
    opening = _opening(explanation, is_assumed=bool(files))
    if fleet and session.printer.is_table:
        _show_fleet(session, explanation, opening, limit)
        return
    if session.printer.is_table:
        session.printer.sentence(opening)
        session.printer.line()
    print_explanation(session, explanation)


def _show_fleet(session: Session, explanation: Document, opening: str, limit: int | None) -> None:
    from ctl.commands.placement.fleet_fits import show_fits

    printer = session.printer.folded()
    printer.sentence(opening)
    show_why_not(printer, explanation)
    show_fits(printer, explanation, limit)
    printer.warnings(explanation.get("warnings") or [])


def _opening(explanation: Document, *, is_assumed: bool) -> str:
    """The answer in one sentence: where it would run, by which rule, and as of which revision."""
    id, cluster = ExecutionId.from_document(explanation["id"]), explanation.get("cluster")
    reason = explanation.get("reason") or {}
    would = f"would run on {cluster}" if cluster else "would be refused" if explanation.get("refused") else "would wait"
    rule = explanation.get("rule") if cluster else reason.get("message")
    wait = explanation.get("wait") or {}
    if start := wait.get("start"):
        place = "next" if start["position"] == 1 else f"number {start['position']} in line"
        would, rule = f"would wait at {cluster}, {place}", f"{wait['obstacle']}; {rule}"
    elif wait or reason.get("code") == "CLUSTER_EXPECTED":  # an older admin has the code alone
        obstacle = str(wait.get("obstacle") or "is expected: no agent of it has ever been seen")
        would, rule = f"would wait at {cluster}", obstacle.partition("is expected: ")[2]
    why = f": {str(rule).rstrip('.')}" if rule else ""
    documents = " and the given documents" if is_assumed else ""
    return f"{id} {would}{why}; as of revision {explanation.get('revision', '')}{documents}."
