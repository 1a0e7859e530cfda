"""Tokens, by which the agents of clusters authenticate."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, typed_choice
from ctl.cli.options import Argument, definition_completer, force_option, text_option
from ctl.cli.output import Time
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput

_GET_HELP = """Show the tokens of a cluster, newest first; never their secrets.

A token is live, expiring (replaced by a newer one, and valid until the overlap ends), expired or revoked.
"""
_ROTATE_HELP = """Create a new token for a cluster's agent; older tokens stay valid until the overlap ends.

The token is printed once, or written to a file with mode 0600; give it to the agent before the overlap ends.
An agent can rotate its own token too: `rainbowctl --token-file FILE rotate token CLUSTER --newTokenFile FILE`.
"""
_DELETE_HELP = """Revoke a token: requests with it are refused at once. Asks for confirmation on a terminal.

A cluster without a live token can register again. To replace a token without a gap, use `rainbowctl rotate token`.
"""


_TOKEN_FIELDS = ("prefix", "state", "created_at", "last_used_at", "expires_at", "revoked_at")
_LISTING = Listing(fields={name: name for name in _TOKEN_FIELDS}, ahead=("expires_at",))
_CLUSTER = Argument("cluster", explanation="Name of the cluster.", shell_complete=definition_completer("cluster"))


@command(
    help=_GET_HELP,
    params=[_CLUSTER, *_LISTING.options()],
    examples=["rainbowctl get token a", "rainbowctl get tokens a -o json"],
)
def get_token(session: Session, cluster: str, **flags: Any) -> None:
    where = f"of cluster {cluster}"
    tokens = choose_rows(
        session, session.client.cluster_tokens(cluster), flags, _LISTING, "token", where=where, by="state"
    )
    empty = f"Cluster {cluster} has no tokens: its agent has not registered."
    if typed_choice(flags):
        empty = "No tokens match."
    session.printer.show(
        (f"token/{cluster}/{token['prefix']}" for token in tokens),
        tokens,
        tokens,
        {
            "PREFIX": "prefix",
            "STATE": "state",
            "CREATED": Time("created_at"),
            "LAST USED": Time("last_used_at"),
            "EXPIRES": Time("expires_at", is_ahead=True),
            "REVOKED": Time("revoked_at"),
        },
        empty=empty,
    )


@command(
    help=_ROTATE_HELP,
    params=[
        _CLUSTER,
        text_option(
            "overlap",
            metavar="DURATION",
            help="How long older tokens stay valid; 10m by default, 0s revokes them at once.",
        ),
        text_option(
            "newTokenFile",
            parameter="file",
            metavar="FILE",
            help="Write the new token to this file, with mode 0600, not to stdout.",
        ),
    ],
    examples=[
        "rainbowctl rotate token a --newTokenFile /etc/rainbow/a.token",
        "rainbowctl rotate token a --overlap 1h > a.token",
    ],
)
def rotate_token(session: Session, cluster: str, overlap: str | None, file: str | None) -> None:
    if file is not None:
        check_writable(Path(file))
    elif session.printer.format == "name":
        raise InvalidInput("-o name would lose the token, which is shown once: leave it out, or write it to a file.")
    answer = session.client.rotate_token(cluster, overlap=overlap)
    deliver_token(session, answer, f"token/{answer['cluster']}/{answer['prefix']}", file, again="rotate again")
    session.printer.note(
        f"Token {answer['prefix']} of cluster {cluster} is valid now, older ones until the overlap ends. It is not "
        "shown again."
    )


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written before a token is made, which would be lost."""
    folder = path.resolve().parent
    if path.is_dir():
        raise InvalidInput(f"{path} is a directory: name a file. No token was created.")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        reason = "cannot be written to" if folder.is_dir() else "does not exist"
        raise InvalidInput(f"{path} cannot be written: {folder} {reason}. No token was created.")


def deliver_token(session: Session, answer: Document, name: str, file: str | None, *, again: str) -> None:
    """Print a new token, or write it to a file; `again` says how to get another one if it is lost."""
    printer = session.printer
    shown: dict[str, Any] = dict(answer)
    if file is not None:
        from ctl.client.contexts import write_private

        try:
            write_private(Path(file), f"{shown.pop('token')}\n")
        except InvalidInput as error:
            error.message += f" The new token is lost: {again}."
            raise
        printer.note(f"Wrote the new token to {file}.")
    if printer.machine_output([name], shown):
        return
    if file is None:
        printer.line(str(answer["token"]))


@command(
    help=_DELETE_HELP,
    params=[
        _CLUSTER,
        Argument("prefix", explanation="The first 8 characters after rbc-, as `get token` shows them."),
        force_option("Do not ask."),
    ],
    examples=["rainbowctl delete token a 1f2e3d4c", "rainbowctl delete token a 1f2e3d4c --force"],
)
def delete_token(session: Session, cluster: str, prefix: str, force: bool) -> None:
    revoke = session.client.revoke_token
    name = f"token/{cluster}/{prefix}"
    revoke_token(session, lambda: revoke(cluster, prefix), f"token {prefix} of cluster {cluster}", name, force=force)


def revoke_token(session: Session, revoke: Callable[[], Document], described: str, name: str, *, force: bool) -> None:
    """Revoke a token of a cluster or user, after asking on a terminal, and tell whether it was good until now."""
    if is_terminal() and not force:
        confirm(f"Revoke {described}?", "Not confirmed: nothing was revoked.")
    answer = revoke()
    session.printer.machine_output([name], answer)
    session.printer.note(
        f"Revoked {described}." if answer.get("changed") else f"No changes: {described} was already expired or revoked."
    )
