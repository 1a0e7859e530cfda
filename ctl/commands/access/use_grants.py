"""Use grants: who may use which clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, refuse_choice, typed_choice
from ctl.cli.options import (
    MESSAGE,
    Argument,
    definition_completer,
    dry_run_option,
    option,
    project_option,
    write_options,
)
from ctl.cli.output import Columns, Printer
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.provenance import describe_version
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session, reasons
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.nouns import json_key
from ctl.client.words import count, listed
from ctl.commands.previews import show_preview

_ABOUT = """A use grant lets a user, a group or a project use a cluster, a cluster group, a pool or a label. A pool or
label covers its members where they are reached through it. Use grants count where the admin's configuration says
`placement: {clusterUse: closed}`; otherwise everybody may use every cluster."""
#: What may be used, and by whom.
_TARGETS = ("cluster", "cluster-group", "pool", "label")
_GRANTEES = ("user", "group", "project")
_LISTING = Listing(
    fields={json_key(noun): json_key(noun) for noun in ("name", *_TARGETS, *_GRANTEES, "version")},
    prefixes=("use-grant",),
    order="name",
)


def _options() -> list[click.Parameter]:
    """Flags for what a use grant consists of."""
    return [
        option("cluster", metavar="CLUSTER", help="The cluster.", shell_complete=definition_completer("cluster")),
        option(
            "clusterGroup",
            parameter="cluster_group",
            metavar="GROUP",
            help="The group of clusters.",
            shell_complete=definition_completer("cluster-group"),
        ),
        option("pool", metavar="POOL", help="The pool.", shell_complete=definition_completer("pool")),
        option("label", metavar="LABEL", help="The label.", shell_complete=definition_completer("label")),
        option("user", metavar="USER", help="The user."),
        option("group", metavar="GROUP", help="The group of users.", shell_complete=definition_completer("group")),
        project_option("The project, for all its executions."),
    ]


def _parts(session: Session, flags: Mapping[str, Any]) -> Document:
    """What the flags name, at most one of what may be used and one of who may; the context plays no part."""
    given = {json_key(noun): flags[json_key(noun)] for noun in (*_TARGETS, "user", "group") if flags[json_key(noun)]}
    given |= scope_filters(session, {})
    for nouns in (_TARGETS, _GRANTEES):
        both = [noun for noun in nouns if json_key(noun) in given]
        if len(both) > 1:
            raise InvalidInput(f"{listed(both)} are several: a use grant has one of {listed(nouns)}.")
    return given


def _named(grant: Document, nouns: Sequence[str]) -> str:
    """`pool gpu`."""
    return next((f"{noun} {grant[json_key(noun)]}" for noun in nouns if grant.get(json_key(noun))), "")


def target(grant: Document) -> str:
    """What may be used: `pool gpu`."""
    return _named(grant, _TARGETS)


def _grantee(grant: Document) -> str:
    return _named(grant, _GRANTEES)


COLUMNS: Columns = {"MAY USE": target, "WHO": _grantee}


@command(
    help="Show use grants: all of them, with flags those of somebody or on something, with a name one. " + _ABOUT,
    params=[
        Argument(
            "name",
            required=False,
            metavar="[NAME]",
            explanation="Name of a use grant.",
            shell_complete=definition_completer("use-grant"),
        ),
        *_options(),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get use-grant",
        "rainbowctl get use-grant --pool gpu -o wide",
        "rainbowctl get use-grants --group ml -o yaml",
    ],
)
def get_use_grant(session: Session, name: str | None, **flags: Any) -> None:
    filters = _parts(session, flags)
    if name is not None:
        if filters:
            raise InvalidInput(f"{name} names one, and --{next(iter(filters))} filters the list: keep one of the two.")
        refuse_choice(flags, name)
        grant = session.client.definition("use-grant", name)
        _show(session.printer.folded(), [grant], grant)
        return
    rows = session.client.definitions("use-grant", **filters)
    grants = choose_rows(session, rows, flags, _LISTING, "use-grant", by="name")
    is_chosen = bool(filters) or typed_choice(flags)
    make = "`rainbowctl create use-grant --pool POOL --user USER` gives one."
    _show(session.printer, grants, grants, empty="No use grants match." if is_chosen else f"No use grants yet: {make}")


def _show(printer: Printer, grants: Sequence[Document], document: object, *, empty: str = "") -> None:
    columns: Columns = {
        **COLUMNS,
        **({"NAME": "name"} if printer.is_wide else {}),
        "GIVEN BY": lambda grant: describe_version(printer, grant),
    }
    printer.show((f"use-grant/{grant['name']}" for grant in grants), grants, document, columns, empty=empty)


@command(
    help=f"Let a user, group or project use clusters. {_ABOUT}",
    params=[*_options(), dry_run_option(), MESSAGE],
    examples=[
        "rainbowctl create use-grant --pool gpu --group ml",
        "rainbowctl create use-grant --clusterGroup racks --user ada -m 'her tests'",
        "rainbowctl create use-grant --cluster east -p flyteexamples --dryRun",
    ],
)
def create_use_grant(session: Session, **flags: Any) -> None:
    definition = _definition(session, flags)
    answer = session.client.create_use_grant(definition, **reasons(flags), dry_run=flags["dry_run"])
    title = f"{_grantee(definition)} may use {target(definition)}"
    is_dry_run = flags["dry_run"]
    version = answer.get("version")
    session.printer.note(
        f"Dry run: nothing was changed; {title} then." if is_dry_run else f"Now {title}: version {version}."
    )
    session.printer.warnings(answer.get("warnings") or [])
    show_preview(session, answer, is_dry_run=is_dry_run)
    name = (answer.get("use_grant") or {}).get("name")
    session.printer.machine_output([f"use-grant/{name}"], answer)


def _definition(session: Session, flags: Mapping[str, Any]) -> Document:
    """The use grant that the command line consists of."""
    parts = _parts(session, flags)
    if not target(parts):
        raise InvalidInput("What may be used? Give one of --cluster, --clusterGroup, --pool and --label.")
    if not _grantee(parts):
        raise InvalidInput("Who may use it? Give one of --user, --group and -p.")
    return parts


@command(
    help=f"Take the use of clusters away. {_ABOUT}\n\nA use grant is named by what it consists of, as flags or as "
    "`get use-grant -o wide` shows it. Asks for confirmation on a terminal. If there is no such use grant, there is "
    "nothing to delete, and the exit status is 0. What waits there is decided again; what runs goes on.",
    params=[
        Argument(
            "names",
            nargs=-1,
            required=False,
            metavar="[NAME…]",
            explanation="Names of use grants; none with flags.",
            shell_complete=definition_completer("use-grant"),
        ),
        *_options(),
        *write_options("Do not ask."),
    ],
    examples=[
        "rainbowctl delete use-grant --pool gpu --group ml",
        "rainbowctl delete use-grant pool:gpu:group:ml -m 'they have their own'",
    ],
)
def delete_use_grant(session: Session, names: tuple[str, ...], **flags: Any) -> None:
    if names and _parts(session, flags):
        raise InvalidInput("A use grant is named, or given by flags: keep one or the other.")
    definitions = [{"name": name} for name in dict.fromkeys(names)] or [_definition(session, flags)]
    trial = session.client.delete_use_grants(definitions, dry_run=True)
    existing = [row for row in trial["rows"] if row["action"] == "delete"]
    for row in trial["rows"]:
        if row["action"] != "delete":
            session.printer.note(f"There is no use grant {row['name']}: there is nothing to delete.")
    if flags["dry_run"] or not existing:
        if existing:
            session.printer.note(f"Dry run: {_titles(existing)} was not taken away.")
            show_preview(session, trial, is_dry_run=True)
        session.printer.machine_output((f"use-grant/{row['name']}" for row in existing), trial)
        return
    if is_terminal() and not flags["force"]:
        show_preview(session, trial, is_dry_run=False)
        confirm(f"Take away {_titles(existing)}?", "Not confirmed: nothing was deleted.")
    answer = session.client.delete_use_grants(definitions, **reasons(flags))
    deleted = [row for row in answer["rows"] if row["action"] == "delete"]
    for row in deleted:
        session.printer.note(f"Took away {_title(row)}.")
    if not deleted:
        number = count(len(existing), "use grant")
        session.printer.note(f"No changes: someone else took away {number} in the meantime.")
    session.printer.machine_output((f"use-grant/{row['name']}" for row in deleted), answer)


def _title(row: Document) -> str:
    return f"the use of {target(row['before'])} by {_grantee(row['before'])}"


def _titles(rows: Sequence[Document]) -> str:
    return listed(map(_title, rows))
