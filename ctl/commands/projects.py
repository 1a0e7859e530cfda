"""`get project` and `create project`, and what all project commands share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ctl.answers import Document
from ctl.errors import Conflict, InvalidInput, NotFound
from ctl.groups import Command
from ctl.options import Argument, Option, complete_project, force_option, message_option, project_option
from ctl.options import dry_run_option as dry_run
from ctl.project_files import FILE_SCHEMA, READ_ONLY
from ctl.session import Session, local_user
from ctl.sources import Problem
from ctl.words import did_you_mean, parse_pair
from ctl.words import flags as flag_names


def get_project() -> click.Command:
    def run(session: Session, project: str | None, all_states: bool) -> None:
        typed = one_id({"the argument": project, "-p": session.typed.get("project")})
        if typed is not None:
            found = read_project(session, typed)
            _print(session, [found], found)
            return
        projects = list(session.client.projects("ALL" if all_states else "ACTIVE"))
        _print(session, projects, projects)
        if not projects and session.printer.is_table:
            session.printer.note("There are no projects yet: `rainbowctl create project --id ID` makes one.")

    return Command(
        "project",
        run,
        help="Show projects: all that are active, with -A the archived ones too, or one by its id.",
        params=[
            _id_argument(),
            project_option("Id of one project, also as an argument."),
            Option(["-A", "--all", "all_states"], is_flag=True, help="Archived projects too."),
        ],
        takes=("project",),
        examples=[
            "rainbowctl get project",
            "rainbowctl get project flyteexamples -o yaml",
            "rainbowctl get projects -A",
        ],
    )


def create_project() -> click.Command:
    def run(session: Session, **flags: Any) -> None:
        fields = file_fields(flags) if flags["file"] else flag_fields(flags)
        id = one_id(ids(session, flags) | {str(flags["file"]): fields.pop("id", None)})
        if id is None:
            raise InvalidInput("The project needs an id: give --id ID.")
        _refuse_decided(fields)
        if flags["dry_run"]:
            _dry_run(session, id, fields)
            return
        created = session.client.create_project(id, message=flags["message"], claimed_by=local_user(), **fields)
        if session.printer.is_table:
            session.printer.note(f"Created project {id}.")
        else:
            _print(session, [created], created)

    return Command(
        "project",
        run,
        help="Create a project. Its id is for good; name, description and labels can be changed later.",
        params=project_parameters("the new project"),
        takes=("project",),
        examples=[
            "rainbowctl create project --id flyteexamples --name 'Flyte examples' --labels team=ml,tier=gold",
            "rainbowctl create project --file project.yaml",
        ],
    )


def project_parameters(which: str) -> list[click.Parameter]:
    """The flags that create and update take alike."""
    return [
        _id_argument(),
        Option(["--id", "id_flag"], metavar="ID", help=f"Id of {which}, also as an argument."),
        project_option("Stands for --id."),
        Option(["--name"], help="Name for people."),
        Option(["--description"], help="What the project is for."),
        Option(["--labels"], metavar="K=V,K2=V2", help="Labels; those given replace all there are."),
        Option(["--file"], metavar="FILE", help="File with id, name, description, labels and state; - is stdin."),
        Option(["--activate"], is_flag=True, help="Make it active."),
        Option(["--archive"], is_flag=True, help="Archive it."),
        Option([*flag_names("activateProject"), "activateProject"], is_flag=True, hidden=True),
        Option([*flag_names("archiveProject"), "archiveProject"], is_flag=True, hidden=True),
        dry_run("Show what would change and send nothing; the admin does not check it."),
        force_option("Do not ask."),
        message_option(),
    ]


def _id_argument() -> Argument:
    explanation = "Id of the project."
    return Argument("project", required=False, metavar="[ID]", explanation=explanation, shell_complete=complete_project)


def ids(session: Session, flags: Mapping[str, Any]) -> dict[str, str | None]:
    """Every place on the command line that may name the project."""
    return {"--id": flags["id_flag"], "-p": session.typed.get("project"), "the argument": flags["project"]}


def one_id(named: Mapping[str, str | None]) -> str | None:
    """The project all of them name; an error where two differ."""
    given = {place: id for place, id in named.items() if id is not None}
    if len(set(given.values())) > 1:
        words = " and ".join(f"{id} ({place})" for place, id in given.items())
        raise InvalidInput(f"Two projects are named: {words}. Keep one.")
    return next(iter(given.values()), None)


def read_project(session: Session, id: str) -> Document:
    """One project; where there is none, an error that names the closest."""
    try:
        return session.client.project(id)
    except NotFound as error:
        known = [str(project["id"]) for project in session.client.projects("ALL")]
        raise NotFound(
            f"There is no project {id!r}.{did_you_mean(id, known)}",
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
    from ctl.files import read_document

    if flag_fields(flags):
        raise InvalidInput("--file holds the whole project: leave out the other flags, or the file.")
    source, document, positions = read_document(str(flags["file"]), FILE_SCHEMA)
    empty = [key for key in ("id", "state") if document.get(key) == ""]
    if empty:
        line, column = positions[empty[0]]
        raise source.refuse([Problem(line=line, column=column, reason="must not be empty", field=empty[0])])
    return document


def _refuse_decided(fields: dict[str, Any]) -> None:
    for key in (*READ_ONLY, "version"):
        if key in fields:
            raise InvalidInput(f"{key} of a new project is decided by the admin: remove it from the file.")
    if fields.pop("state", "ACTIVE") != "ACTIVE":
        raise InvalidInput("A new project is active; archive it with `rainbowctl update project ID --archive`.")


def _dry_run(session: Session, id: str, fields: Mapping[str, Any]) -> None:
    try:
        session.client.project(id)
    except NotFound:
        planned = {"id": id, **fields}
        if session.printer.is_table:
            session.printer.line(f"Would create project {id}.")
        else:
            _print(session, [planned], planned)
        session.printer.note("Dry run: nothing was created.")
        return
    raise Conflict(f"There is a project {id!r} already. Dry run: nothing was created.", name="project_exists", code=6)


def _print(session: Session, projects: list[Document], document: Any) -> None:
    printer = session.printer
    if printer.format == "name":
        for project in projects:
            printer.line(f"project/{project['id']}")
    elif not printer.is_table:
        printer.document(document)
    elif projects:
        columns = ["ID", "NAME", "DESCRIPTION", "STATE"]
        columns += ["LABELS", "DOMAINS", "CREATED", "UPDATED"] if printer.is_wide else []
        printer.table(columns, [_cells(project, printer.is_wide) for project in projects])


def _cells(project: Document, is_wide: bool) -> list[str]:
    cells = [str(project.get(key) or "") for key in ("id", "name", "description", "state")]
    if is_wide:
        labels = (project.get("labels") or {}).get("values") or {}
        cells.append(",".join(f"{key}={value}" for key, value in labels.items()))
        cells.append(",".join(str(domain["id"]) for domain in project.get("domains") or []))
        cells += [str(project.get(key) or "") for key in ("created_at", "updated_at")]
    return cells
