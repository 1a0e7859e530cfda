"""What `get workflow`, `get task` and `get launchplan` share: versions that were registered."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ctl.cli.options import Argument, Option, domain_option, force_option, project_option
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.calls.registrations import LATEST, Identifier
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.words import did_you_mean
from ctl.client.words import flags as flag_names

Flags = Mapping[str, Any]


def read_parameters(what: str) -> list[click.Parameter]:
    """The flags that all of them take."""
    return [
        Argument("name", required=False, metavar="[NAME]", explanation=f"Name of the {what}: its versions."),
        project_option(),
        domain_option(),
        Option(["--version"], metavar="V", help="Only this version."),
        Option(["--latest"], is_flag=True, help="Only the version registered last."),
        Option(
            [*flag_names("execFile"), "exec_file"],
            metavar="FILE",
            help="Write a file for `rainbowctl create execution --execFile`.",
        ),
        force_option("Overwrite the file without asking."),
    ]


def check_flags(session: Session, name: str | None, flags: Flags, what: str) -> None:
    """Refuse flags that need a name where there is none, and -o with a file that has its own format."""
    if flags["exec_file"] and session.typed.get("output"):
        raise InvalidInput("--execFile writes YAML to a file; leave out -o.")
    if name is not None:
        return
    for key, flag in (("version", "--version"), ("latest", "--latest"), ("exec_file", "--execFile")):
        if flags[key]:
            raise InvalidInput(f"{flag} is about one {what}: give its name.")


def wanted_version(flags: Flags) -> str | None:
    """The version that the flags choose, if they do."""
    if flags["version"] and flags["latest"] and flags["version"] != LATEST:
        raise InvalidInput("--version and --latest contradict each other: keep one.")
    return LATEST if flags["latest"] else flags["version"]


def versions(session: Session, noun: str, what: str, project: str, domain: str, name: str) -> list[Document]:
    """All versions of one name, newest first; an error that names the closest where there are none."""
    try:
        documents = list(session.client.registered(noun, project, domain, name))
    except NotFound as error:
        if not error.name.endswith("_not_found") or error.details:
            raise
        documents = []
    if not documents:
        known = [str(document["id"]["name"]) for document in session.client.registered(noun, project, domain)]
        raise NotFound(
            f"No {what} is called {name!r} in project {project}, domain {domain}.{did_you_mean(name, known)}",
            name=f"{noun}_not_found",
        )
    return documents


def show(session: Session, word: str, rows: list[Document], document: Any, table: Mapping[str, Any]) -> None:
    """Print versions as a table, whose columns are functions, or the document as it came."""
    printer = session.printer
    names = ("/".join([word, *Identifier.from_document(row["id"]).document().values()]) for row in rows)
    if printer.machine_output(names, document):
        return
    if rows:
        printer.table(list(table), [[str(cell(row) or "") for cell in table.values()] for row in rows])


def note_empty(session: Session, what: str, project: str, domain: str) -> None:
    """Note in a table that nothing is registered."""
    if session.printer.is_table:
        session.printer.note(
            f"No {what} is registered in project {project}, domain {domain}: `rainbowctl register files` does that."
        )


def write_sample(
    session: Session,
    flags: Flags,
    key: str,
    id: Identifier,
    inputs: Mapping[str, Any],
    *,
    given: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> None:
    """Write a file that an execution can be created from."""
    from ctl.cli.new_files import write_new
    from ctl.files.execution_samples import execution_sample

    text = execution_sample(key, id, inputs, defaults=given or {}, fixed=fixed or {}, now=datetime.now(UTC))
    file = str(flags["exec_file"])
    if file == "-":
        session.printer.text(text)
        return
    write_new(Path(file), text, is_forced=flags["force"])
    session.printer.note(
        f"Wrote {file} for {id.name} version {id.version}: change its inputs, then run `rainbowctl create execution "
        f"--execFile {file}`."
    )


def id_part(key: str) -> Any:
    """A column: one part of the identifier."""
    return lambda each: each["id"].get(key)


def created_at(each: Document) -> Any:
    return each.get("created_at")
