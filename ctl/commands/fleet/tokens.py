"""Tokens, by which the agents of clusters authenticate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ctl.cli.groups import Command
from ctl.cli.options import Argument, definition_completer, force_option, text_option
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.times import to_second
from ctl.client.words import flags as flag_names

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


def get_token() -> click.Command:
    def run(session: Session, cluster: str) -> None:
        tokens = session.client.cluster_tokens(cluster)
        printer = session.printer
        if printer.machine_output((f"token/{cluster}/{token['prefix']}" for token in tokens), tokens):
            return
        if tokens:
            columns = ["PREFIX", "STATE", "CREATED", "LAST USED", "EXPIRES", "REVOKED"]
            printer.table(columns, [_cells(token) for token in tokens])
        else:
            printer.note(f"Cluster {cluster} has no tokens: its agent has not registered.")

    return Command(
        "token",
        run,
        help=_GET_HELP,
        params=[_cluster_argument()],
        examples=["rainbowctl get token a", "rainbowctl get tokens a -o json"],
    )


def _cells(token: Document) -> list[str]:
    times = (to_second(str(token.get(f"{word}_at") or "")) for word in ("created", "last_used", "expires", "revoked"))
    return [str(token.get("prefix", "")), str(token.get("state", "")), *times]


def rotate_token() -> click.Command:
    def run(session: Session, cluster: str, overlap: str | None, file: str | None) -> None:
        if file is not None:
            _check_writable(Path(file))
        elif session.printer.format == "name":
            raise InvalidInput(
                "-o name would lose the token, which is shown once: leave it out, or write it to a file."
            )
        answer = session.client.rotate_token(cluster, overlap=overlap)
        _deliver_token(session, answer, file)
        session.printer.note(
            f"Token {answer['prefix']} of cluster {cluster} is valid now, older ones until the overlap ends. It is not "
            "shown again."
        )

    return Command(
        "token",
        run,
        help=_ROTATE_HELP,
        params=[
            _cluster_argument(),
            text_option(
                ["--overlap"],
                "overlap",
                "DURATION",
                "How long older tokens stay valid; 10m by default, 0s revokes them at once.",
            ),
            text_option(
                flag_names("newTokenFile"),
                "file",
                "FILE",
                "Write the new token to this file, with mode 0600, not to stdout.",
            ),
        ],
        examples=[
            "rainbowctl rotate token a --newTokenFile /etc/rainbow/a.token",
            "rainbowctl rotate token a --overlap 1h > a.token",
        ],
    )


def _check_writable(path: Path) -> None:
    """Refuse a file that cannot be written before a token is made, which would be lost."""
    folder = path.resolve().parent
    if path.is_dir():
        raise InvalidInput(f"{path} is a directory: name a file. No token was created.")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        reason = "cannot be written to" if folder.is_dir() else "does not exist"
        raise InvalidInput(f"{path} cannot be written: {folder} {reason}. No token was created.")


def _deliver_token(session: Session, answer: Document, file: str | None) -> None:
    printer = session.printer
    shown: dict[str, Any] = dict(answer)
    if file is not None:
        from ctl.client.contexts import write_private

        try:
            write_private(Path(file), f"{shown.pop('token')}\n")
        except InvalidInput as error:
            error.message += " The new token is lost: rotate again."
            raise
        printer.note(f"Wrote the new token to {file}.")
    if printer.machine_output([f"token/{answer['cluster']}/{answer['prefix']}"], shown):
        return
    if file is None:
        printer.line(str(answer["token"]))


def delete_token() -> click.Command:
    def run(session: Session, cluster: str, prefix: str, force: bool) -> None:
        if is_terminal() and not force:
            confirm(f"Revoke token {prefix} of cluster {cluster}?", "Not confirmed: nothing was revoked.")
        answer = session.client.revoke_token(cluster, prefix)
        session.printer.machine_output([f"token/{cluster}/{prefix}"], answer)
        session.printer.note(
            f"Revoked token {prefix} of cluster {cluster}."
            if answer.get("changed")
            else f"No changes: token {prefix} of cluster {cluster} was already expired or revoked."
        )

    return Command(
        "token",
        run,
        help=_DELETE_HELP,
        params=[
            _cluster_argument(),
            Argument("prefix", explanation="The first 8 characters after rbc-, as `get token` shows them."),
            force_option("Do not ask."),
        ],
        examples=["rainbowctl delete token a 1f2e3d4c", "rainbowctl delete token a 1f2e3d4c --force"],
    )


def _cluster_argument() -> Argument:
    return Argument("cluster", explanation="Name of the cluster.", shell_complete=definition_completer("cluster"))
