"""`whoami`: who the admin takes the caller for."""

from __future__ import annotations

from ctl.cli.groups import command
from ctl.cli.provenance import ANONYMOUS
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.commands.users.tokens import describe_narrowing

_HELP = """Show who the admin takes you for, and how that was proven.

`anonymous (local)` means that the admin has no users and asks nobody for a token. In brackets stands otherwise how the
name was proven: by a token of the user, the token that operators share, OpenID, or the token of a cluster's agent.
With --as it is the user whom you act as, and the token or login of yours that proves you.
"""
_PROOFS = {
    "none": "local",
    "token": "by token",
    "shared-token": "by the shared token",
    "openid": "by OpenID",
    "agent": "by the cluster's token",
}
#: The same of an administrator who acts as another user.
_PROOFS_OF = {"token": "by the token", "openid": "by the login"}


@command(help=_HELP, examples=["rainbowctl whoami", "rainbowctl whoami -o json"])
def whoami(session: Session) -> None:
    answer = session.client.whoami()
    if session.printer.machine_output([f"user/{answer['user']}"], answer):
        return
    session.printer.line(describe_caller(answer))


def describe_caller(answer: Document) -> str:
    """`ada (by token)`, and the groups of the user if there are any."""
    proof = str(answer.get("proof") or "none")
    groups = answer.get("groups") or []
    administrator = answer.get("administrator")
    how = _PROOFS.get(proof, proof)
    if administrator and proof != "shared-token":
        how = f"{_PROOFS_OF.get(proof, how)} of {administrator}"
    narrowed = f", narrowed to {describe_narrowing(answer)}" if answer.get("narrowed") else ""
    also = f", in {', '.join(groups)}" if groups else ""
    return f"{answer.get('user') or ANONYMOUS} ({how}){also}{narrowed}"
