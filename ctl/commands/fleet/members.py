"""What the commands of pools and labels share: both are lists of clusters with weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from ctl.cli.groups import Command
from ctl.cli.options import Option, option
from ctl.cli.output import Columns
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.commands.fleet.definitions import Flags, FleetNoun, create_definition, get_definition
from ctl.commands.fleet.delete import delete_definition
from ctl.commands.fleet.update import update_definition

MEMBERS = Option(
    ["--member", "members"],
    metavar="CLUSTER=WEIGHT",
    multiple=True,
    help="A cluster and its weight, 1 by default. Repeatable; replaces all members.",
)
DESCRIPTION = Option(["--description"], metavar="TEXT", help="For people.")

_CHANGING = [
    option(
        "addMember",
        parameter="added",
        metavar="CLUSTER=WEIGHT",
        multiple=True,
        help="Add a cluster at the end, or change the weight of a member. Repeatable.",
    ),
    option("removeMember", parameter="removed", metavar="CLUSTER", multiple=True, help="Remove a member. Repeatable."),
]


def set_members(definition: Document, flags: Mapping[str, Any]) -> Document:
    """A pool or label with the members and the description of the flags."""
    from ctl.files.fleet import changed_members, parse_members

    changed = dict(definition)
    added, removed = flags.get("added") or (), flags.get("removed") or ()
    if flags["members"]:
        if added or removed:
            raise InvalidInput("--member gives all members, --addMember and --removeMember change some: keep one way.")
        changed["members"] = parse_members(flags["members"], "--member")
    elif added or removed:
        more = parse_members(added, "--addMember")
        changed["members"] = changed_members(changed.get("members") or [], more, removed)
    return with_text(changed, "description", flags["description"])


def with_text(definition: Document, key: str, value: Any) -> Document:
    """The definition with a field set; an empty text removes it, None leaves it as it is."""
    if value is None:
        return definition
    changed = {**definition, key: value}
    return {name: field for name, field in changed.items() if name != key or field not in ("", {})}


def member_noun(
    noun: str,
    *,
    about: str,
    examples: Mapping[str, Sequence[str]],
    fields: Sequence[str] = (),
    wide_columns: Columns | None = None,
    parameters: Sequence[click.Parameter] = (MEMBERS, DESCRIPTION),
    set: Callable[[Document, Flags], Document] = set_members,
    view_parameters: Sequence[click.Parameter] = (),
    view: Callable[[Session, str | None, Flags], bool] | None = None,
) -> FleetNoun:
    """Pools or labels, as the commands handle them; `fields` are what they have beside members and description."""
    return FleetNoun(
        name=noun,
        about=about,
        columns={
            "NAME": "name",
            **{field.upper(): field for field in fields},
            "MEMBERS": _members,
            "ABLE": _able,
            "FREE": lambda group: _amounts(group, "free"),
            "SOURCE": "source",
        },
        fields={field: field for field in ("name", *fields, "source", "version", "description")},
        wide_columns={
            "TOTAL": lambda group: _amounts(group, "capacity"),
            "EXPECTED": _expected,
            "VERSION": "version",
            "DESCRIPTION": "description",
            **(wide_columns or {}),
        },
        parameters=parameters,
        changing=_CHANGING,
        set=set,
        examples=examples,
        view_parameters=view_parameters,
        view=view,
    )


def _members(group: Document) -> str:
    from ctl.files.fleet import show_members

    return show_members(group.get("members"))


def _able(group: Document) -> str:
    """How many members may get work, of how many."""
    from ctl.files.fleet import show_able

    total = group.get("total")
    return show_able(total) if total else ""


def _amounts(group: Document, key: str) -> str:
    from ctl.files.fleet import show_amounts

    return show_amounts((group.get("total") or {}).get(key))


def _expected(group: Document) -> str:
    return ", ".join(str(member["id"]) for member in group.get("members") or [] if member.get("expected"))


def commands(noun: FleetNoun) -> tuple[Command, Command, Command, Command]:
    """The commands that get, create, update and delete one."""
    return get_definition(noun), create_definition(noun), update_definition(noun), delete_definition(noun)
