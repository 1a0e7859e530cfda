"""What the commands of pools and labels share: both are lists of clusters with weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ctl.answers import Document
from ctl.commands.definitions import text
from ctl.errors import InvalidInput
from ctl.options import Option
from ctl.words import flags as flag_names


def member_parameters() -> list[click.Parameter]:
    return [
        Option(
            ["--member", "members"],
            metavar="CLUSTER=WEIGHT",
            multiple=True,
            help="A cluster and its weight, 1 without one. Repeatable; those given replace all there are.",
        ),
        Option(["--description"], metavar="TEXT", help="For people."),
    ]


def changing_parameters() -> list[click.Parameter]:
    return [
        Option(
            [*flag_names("addMember"), "added"],
            metavar="CLUSTER=WEIGHT",
            multiple=True,
            help="Add a cluster at the end, or give one of them another weight. Repeatable.",
        ),
        Option(
            [*flag_names("removeMember"), "removed"], metavar="CLUSTER", multiple=True, help="Take one out. Repeatable."
        ),
    ]


def set_members(definition: Document, flags: Mapping[str, Any]) -> Document:
    """A pool or label with the members and the description that flags say."""
    from ctl.fleet_files import changed_members, parse_members

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
    """The definition with a field set, cleared by an empty text, or left alone where nothing is said."""
    if value is None:
        return definition
    changed = {**definition, key: value}
    return {name: field for name, field in changed.items() if name != key or field not in ("", {})}


def members_cell(group: Document) -> str:
    from ctl.fleet_files import show_members

    return show_members(group.get("members"))


def wide_cells(group: Document) -> list[str]:
    expected = [str(member["id"]) for member in group.get("members") or [] if member.get("expected")]
    return [", ".join(expected), *text(group, "version", "description")]


WIDE_COLUMNS = ("EXPECTED", "VERSION", "DESCRIPTION")
