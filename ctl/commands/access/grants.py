"""Grants: which roles users and groups have on which scopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, refuse_choice, typed_choice
from ctl.cli.options import (
    LAUNCH_PLAN_WORDS,
    MESSAGE,
    Argument,
    Option,
    definition_completer,
    domain_option,
    dry_run_option,
    filter_parameters,
    option,
    project_option,
    text_option,
    write_options,
)
from ctl.cli.output import Columns, Printer
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.provenance import describe_version
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session, reasons
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.scopes import Scope
from ctl.client.words import count, listed
from ctl.commands.previews import show_preview

_ABOUT = """A grant gives a role to a user or group on a scope: the platform without flags, or with -p, -d, -w and
--launchplan a part of the hierarchy. It reaches downwards, to the scopes that repeat all its keys: one on a domain
reaches every project in that domain, and not a project as a whole."""
_CREATE = f"""Give a role to a user or group. {_ABOUT}

Nobody can give what they do not have. The project and domain of the context play no part: a grant is on what is typed.
"""
_DELETE = f"""Take roles away. {_ABOUT}

A grant is named by what it consists of, as flags or as `get grant` shows it. Asks for confirmation on a terminal. If
there is no such grant, there is nothing to delete, and the exit status is 0. The last one by which somebody may do
everything cannot be deleted.
"""
_GET = """Show grants: all of them, or with -p, -d, -w and --launchplan those on that scope and below it. With a name,
one. `rainbowctl get access` shows those that reach a scope.
"""

_USER = text_option("user", metavar="USER", help="The user.")
_GROUP = option("group", metavar="GROUP", help="The group.", shell_complete=definition_completer("group"))
_SCOPE: Sequence[click.Parameter] = [
    project_option("On this project."),
    domain_option("On this domain."),
    Option(["-w", "--workflow", "workflow_flag"], metavar="WORKFLOW", help="On this workflow."),
    option(*LAUNCH_PLAN_WORDS, parameter="launch_plan", metavar="NAME", help="On this launch plan of the workflow."),
]


def grantee(grant: Document) -> str:
    """Who has it: `user ada`."""
    return f"user {grant['user']}" if grant.get("user") else f"group {grant.get('group')}"


def place(grant: Document) -> str:
    """On what it is, in words."""
    return Scope.from_document(grant).describe()


COLUMNS: Columns = {"ROLE": "role", "GRANTEE": grantee, "ON": place}
_LISTING = Listing(
    fields={
        **{name: name for name in ("name", "role", "user", "group", "level", "version")},
        **{key: key for key in ("project", "domain", "workflow", "launch_plan")},
    },
    prefixes=("grant",),
    order="name",
)


@command(
    help=_GET,
    params=[
        Argument(
            "name",
            required=False,
            metavar="[NAME]",
            explanation="Name of a grant.",
            shell_complete=definition_completer("grant"),
        ),
        *filter_parameters("Grants", "All grants, which is the default."),
        _USER,
        _GROUP,
        text_option("role", metavar="ROLE", help="Grants of this role."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get grant",
        "rainbowctl get grant -A -o wide",
        "rainbowctl get grants -p flyteexamples",
        "rainbowctl get grant --user ada -o yaml",
    ],
)
def get_grant(session: Session, name: str | None, **flags: Any) -> None:
    filters: Document = scope_filters(session, flags)
    filters |= {key: flags[key] for key in ("user", "group", "role") if flags[key]}
    if filters and flags["all_scopes"]:
        raise InvalidInput("-A means all grants, the other flags some of them: keep one or the other.")
    if name is not None:
        if filters:
            raise InvalidInput(f"{name} names one, and --{next(iter(filters))} filters the list: keep one of the two.")
        refuse_choice(flags, name)
        grant = session.client.definition("grant", name)
        _show(session.printer.folded(), [grant], grant)
        return
    grants = choose_rows(session, session.client.definitions("grant", **filters), flags, _LISTING, "grant", by="role")
    is_chosen = bool(filters) or typed_choice(flags)
    empty = "No grants match." if is_chosen else "No grants yet: `rainbowctl create grant ROLE --user USER` gives one."
    _show(session.printer, grants, grants, empty=empty)


def _show(printer: Printer, grants: Sequence[Document], document: object, *, empty: str = "") -> None:
    columns: Columns = {
        **COLUMNS,
        **({"NAME": "name"} if printer.is_wide else {}),
        "GIVEN BY": lambda grant: describe_version(printer, grant),
    }
    printer.show((f"grant/{grant['name']}" for grant in grants), grants, document, columns, empty=empty)


@command(
    help=_CREATE,
    params=[
        Argument("role", metavar="ROLE", explanation="The role; `rainbowctl get role` lists them."),
        _USER,
        _GROUP,
        *_SCOPE,
        dry_run_option(),
        MESSAGE,
    ],
    examples=[
        "rainbowctl create grant admin --user ada",
        "rainbowctl create grant editor --group ml -p flyteexamples -d development -m 'their own settings'",
        "rainbowctl create grant viewer --user otto -d production --dryRun",
    ],
)
def create_grant(session: Session, role: str, **flags: Any) -> None:
    definition = _definition(session, role, flags)
    answer = session.client.create_grant(definition, **reasons(flags), dry_run=flags["dry_run"])
    title = f"{role} to {grantee(definition)} on {place(definition)}"
    session.printer.note(
        f"Dry run: {title} was not given." if flags["dry_run"] else f"Gave {title}: version {answer.get('version')}."
    )
    session.printer.warnings(answer.get("warnings") or [])
    show_preview(session, answer, is_dry_run=flags["dry_run"])
    name = (answer.get("grant") or {}).get("name")
    session.printer.machine_output([f"grant/{name}"], answer)


def _definition(session: Session, role: str, flags: Mapping[str, Any]) -> Document:
    """The grant that the command line consists of."""
    if bool(flags["user"]) == bool(flags["group"]):
        raise InvalidInput("Who has the role? Give --user USER or --group GROUP, one of the two.")
    scope = Scope(**scope_filters(session, flags))
    who = {key: flags[key] for key in ("user", "group") if flags[key]}
    return {"role": role, **who, **scope.document()}


@command(
    help=_DELETE,
    params=[
        Argument(
            "names",
            nargs=-1,
            required=True,
            metavar="NAME…|ROLE",
            explanation="Names of grants, or with --user or --group the role.",
            shell_complete=definition_completer("grant"),
        ),
        _USER,
        _GROUP,
        *_SCOPE,
        *write_options("Do not ask."),
    ],
    examples=[
        "rainbowctl delete grant editor --group ml -p flyteexamples -d development",
        "rainbowctl delete grant viewer:user:otto::production -m 'otto has moved on'",
    ],
)
def delete_grant(session: Session, names: tuple[str, ...], **flags: Any) -> None:
    definitions = _named(session, tuple(dict.fromkeys(names)), flags)
    trial = session.client.delete_grants(definitions, dry_run=True)
    existing = [row for row in trial["rows"] if row["action"] == "delete"]
    missing = [str(row["name"]) for row in trial["rows"] if row["action"] != "delete"]
    for name in missing:
        session.printer.note(f"There is no grant {name}: there is nothing to delete.")
    if flags["dry_run"] or not existing:
        if existing:
            session.printer.note(f"Dry run: {_titles(existing)} was not taken away.")
            show_preview(session, trial, is_dry_run=True)
        session.printer.machine_output((f"grant/{row['name']}" for row in existing), trial)
        return
    if is_terminal() and not flags["force"]:
        show_preview(session, trial, is_dry_run=False)
        confirm(f"Take away {_titles(existing)}?", "Not confirmed: nothing was deleted.")
    answer = session.client.delete_grants(definitions, **reasons(flags))
    deleted = [row for row in answer["rows"] if row["action"] == "delete"]
    for row in deleted:
        session.printer.note(f"Took away {_title(row)}.")
    if not deleted:
        session.printer.note(f"No changes: someone else took away {count(len(existing), 'grant')} in the meantime.")
    session.printer.machine_output((f"grant/{row['name']}" for row in deleted), answer)


def _named(session: Session, names: Sequence[str], flags: Mapping[str, Any]) -> list[Document]:
    """The grants that a command line names, by name or by what one consists of."""
    if flags["user"] or flags["group"]:
        if len(names) > 1:
            raise InvalidInput(f"Which role? {listed(names)} are several: with --user and --group give one.")
        return [_definition(session, names[0], flags)]
    if scope_filters(session, flags):
        raise InvalidInput("-p, -d, -w and --launchplan go with --user or --group: add one, or give the grant's name.")
    return [{"name": name} for name in names]


def _title(row: Document) -> str:
    grant = row["before"]
    return f"{grant['role']} of {grantee(grant)} on {place(grant)}"


def _titles(rows: Sequence[Document]) -> str:
    return listed(map(_title, rows))
