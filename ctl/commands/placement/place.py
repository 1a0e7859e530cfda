"""`place`: where something would run, and why, without running it."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import RunCommand, command
from ctl.cli.options import assumed_files_option
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, InvalidRequest
from ctl.client.executions import ExecutionId
from ctl.commands.changes.documents import read, stale_documents
from ctl.commands.executions.explain import print_explanation
from ctl.commands.executions.requests import RUN_PARAMETERS, requests_from_flags, send_request
from ctl.files.execution_requests import Request
from ctl.files.proposals import Proposal

_HELP = """Show where something would run, and why, without running it.

Takes the flags of `rainbowctl create execution`: a launch plan, a workflow, a command after --, a jobspec or a file.
The choice among equally good clusters depends on the name of the execution; give NAME to ask about that one.

--with FILE shows what would happen if the documents in it were applied.
"""


@command(
    cls=RunCommand,
    help=_HELP,
    params=[
        *RUN_PARAMETERS,
        assumed_files_option(),
    ],
    examples=[
        "rainbowctl place -p flytesnacks -d development --launchplan train",
        "rainbowctl place -p flytesnacks -d development --clusterPool gpu --gpu 1 -- python train.py",
        "rainbowctl place -p flytesnacks -d development --workflow train --with new-pools.yaml -o wide",
    ],
)
def place(session: Session, files: tuple[str, ...], **flags: Any) -> None:
    request, *others = requests_from_flags(session, flags)
    if others:
        raise InvalidInput(
            f"place takes one execution, and {flags['exec_file']} holds {len(others) + 1}: keep one of them."
        )
    proposal = Proposal.from_documents(read(session, files) if files else [])

    def send(request: Request) -> Document:
        try:
            return session.client.place(request.body, proposal.changes)
        except InvalidRequest as error:
            raise proposal.locate(error) from None

    explanation = send_request(session, request, send)
    explanation["warnings"] = [*(explanation.get("warnings") or []), *stale_documents(session, proposal)]
    if session.printer.is_table:
        session.printer.sentence(_opening(explanation, is_assumed=bool(files)))
        session.printer.line()
    print_explanation(session, explanation)


def _opening(explanation: Document, *, is_assumed: bool) -> str:
    """The answer in one sentence: where it would run, by which rule, and as of which revision."""
    id, cluster = ExecutionId.from_document(explanation["id"]), explanation.get("cluster")
    reason = explanation.get("reason") or {}
    would = f"would run on {cluster}" if cluster else "would wait"
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
