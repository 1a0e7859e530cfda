"""`version`: of this client, and of the admin where it answers."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.session import Session, client_version
from ctl.client.errors import ClientError


@command(
    help="Show the versions of rainbowctl and of the admin, if it answers.",
    examples=["rainbowctl version", "rainbowctl version -o json"],
)
def version(session: Session) -> None:
    document: dict[str, Any] = {"client": {"version": client_version()}}
    problem = ""
    try:
        with session.client_with_timeout(min(session.settings.timeout_seconds, 5.0)) as client:
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
