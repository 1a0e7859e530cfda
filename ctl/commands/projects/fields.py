"""What the commands of projects share: which project, its fields from flags or a file, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ctl.cli.options import MESSAGE, Argument, Option, completer, force_option, option, project_option
from ctl.cli.options import dry_run_option as dry_run
from ctl.cli.output import Columns, Printer, Time
from ctl.cli.provenance import describe_state, describe_version
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.words import did_you_mean, parse_pair
from ctl.client.yaml_files import Problem
from ctl.files.projects import FILE_SCHEMA, PROVENANCE


def project_parameters(which: str, dry_run_help: str) -> list[click.Parameter]:
    """The flags that create and update take alike."""
    return [
        id_argument(),
        Option(["--id", "id_flag"], metavar="ID", help=f"Id of {which}, also as an argument."),
        project_option("The same as --id."),
        Option(["--name"], help="Name for people."),
        Option(["--description"], help="What the project is for."),
        Option(["--labels"], metavar="K=V,K2=V2", help="Labels; replaces all labels."),
        Option(["--file"], metavar="FILE", help="File with id, name, description, labels and state; - is stdin."),
        Option(["--activate"], is_flag=True, help="Make it active."),
        Option(["--archive"], is_flag=True, help="Archive it."),
        option("activateProject", parameter="activateProject", is_flag=True, hidden=True),
        option("archiveProject", parameter="archiveProject", is_flag=True, hidden=True),
        dry_run(dry_run_help),
        force_option("Do not ask."),
        MESSAGE,
    ]


def id_argument() -> Argument:
    """The id of a project, as an argument."""
    explanation = "Id of the project."
    return Argument(
        "project", required=False, metavar="[ID]", explanation=explanation, shell_complete=completer("project_ids")
    )


def ids(session: Session, flags: Mapping[str, Any]) -> dict[str, str | None]:
    """Every place on the command line that may name the project."""
    return {"--id": flags["id_flag"], "-p": session.typed.get("project"), "the argument": flags["project"]}


def one_id(named: Mapping[str, str | None]) -> str | None:
    """The project all of them name; an error where two differ."""
    ids = {place: id for place, id in named.items() if id is not None}
    if len(set(ids.values())) > 1:
        words = " and ".join(f"{id} ({place})" for place, id in ids.items())
        raise InvalidInput(f"Two projects are named: {words}. Keep one.")
    return next(iter(ids.values()), None)


def with_provenance(session: Session) -> bool:
    """Whether what is printed tells who made a project as it is; a file made of YAML is not to have it."""
    return session.printer.format in ("table", "wide", "json")


def read_project(session: Session, id: str, *, provenance: bool = False) -> Document:
    """One project; where there is none, an error that names the closest."""
    try:
        return session.client.project(id, provenance=provenance)
    except NotFound as error:
        ids = [str(project["id"]) for project in session.client.projects("ALL")]
        raise NotFound(
            f"There is no project {id!r}.{did_you_mean(id, ids)}",
            status=error.status,
            name=error.name,
            code=error.code,
            request_id=error.request_id,
        ) from None


def flag_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that flags set; an empty text clears a field."""
    fields: dict[str, Any] = {key: flags[key] for key in ("name", "description") if flags[key] is not None}
    if flags["labels"] is not None:
        fields["labels"] = {"values": parse_labels(flags["labels"])}
    activates = flags["activate"] or flags["activateProject"]
    archives = flags["archive"] or flags["archiveProject"]
    if activates and archives:
        raise InvalidInput("--activate and --archive contradict each other: keep one.")
    if activates or archives:
        fields["state"] = "ACTIVE" if activates else "ARCHIVED"
    return fields


def parse_labels(text: str) -> dict[str, str]:
    """`k=v,k2=v2`; nothing for an empty text."""
    try:
        return dict(parse_pair(pair) for pair in text.split(",")) if text else {}
    except ValueError as error:
        raise InvalidInput(f"--labels {error}.") from None


def file_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of --file, which no flag may add to."""
    from ctl.files.attributes import read_document

    if flag_fields(flags):
        raise InvalidInput("--file holds the whole project: leave out the other flags, or the file.")
    source, document, positions = read_document(str(flags["file"]), FILE_SCHEMA, ignored=PROVENANCE)
    empty = [key for key in ("id", "state") if document.get(key) == ""]
    if empty:
        line, column = positions[empty[0]]
        raise source.refuse([Problem(line=line, column=column, reason="must not be empty", field=empty[0])])
    return document


def print_projects(printer: Printer, projects: list[Document], document: Any, *, empty: str = "") -> None:
    """Projects as a table, or the document unchanged."""
    names = (f"project/{project['id']}" for project in projects)
    columns = {**_COLUMNS}
    if any(project.get("state") == "ARCHIVED" for project in projects):
        columns |= {"ARCHIVED BY": lambda project: describe_state(printer, project, "archived")}
    columns |= _WIDE if printer.is_wide else {}
    columns |= {"CHANGED BY": lambda project: _changed_by(printer, project)}
    printer.show(names, projects, document, columns, empty=empty)


def _changed_by(printer: Printer, project: Document) -> str:
    """The revision that made a project what it is, or that the admin's configuration brought it."""
    return "configuration" if project.get("version") == 0 else describe_version(printer, project)


def _labels(project: Document) -> str:
    labels = (project.get("labels") or {}).get("values") or {}
    return ",".join(f"{key}={value}" for key, value in labels.items())


_COLUMNS: Columns = {"ID": "id", "NAME": "name", "DESCRIPTION": "description", "STATE": "state"}
_WIDE: Columns = {
    "LABELS": _labels,
    "DOMAINS": lambda project: ",".join(str(domain["id"]) for domain in project.get("domains") or []),
    "CREATED": Time("created_at"),
    "UPDATED": Time("updated_at"),
}
