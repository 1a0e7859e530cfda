"""`version`: of this client, and of the admin where it answers."""

from __future__ import annotations

from typing import Any

import click

from ctl.errors import ClientError
from ctl.groups import Command
from ctl.session import Session


def client_version() -> str:
    """The version of the installed package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("rainbow")
    except PackageNotFoundError:
        return "unknown"


def version() -> click.Command:
    def run(session: Session) -> None:
        document: dict[str, Any] = {"client": {"version": client_version()}}
        problem = ""
        try:
            with session.hasty_client(min(session.settings.timeout_seconds, 5.0)) as client:
                document["admin"] = {"endpoint": client.endpoint, **client.version()}
        except ClientError as error:
            problem = error.message
        printer = session.printer
        if printer.format in {"json", "yaml"}:
            printer.document(document)
        else:
            rows = [["rainbowctl", document["client"]["version"], ""]]
            if "admin" in document:
                rows.append(["admin", str(document["admin"].get("version", "")), document["admin"]["endpoint"]])
            printer.table(["PROGRAM", "VERSION", "ENDPOINT"], rows)
        if problem:
            printer.note(problem)

    return Command(
        "version",
        run,
        help="Show the versions of rainbowctl and of the admin, if it answers.",
        examples=["rainbowctl version", "rainbowctl version -o json"],
    )
