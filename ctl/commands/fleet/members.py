"""What the commands of pools and labels share: both are lists of clusters with weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from ctl.cli.options import Option
from ctl.cli.output import text_cells
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.words import flags as flag_names
from ctl.commands.fleet.definitions import Flags, Part, create_definition, get_definition
from ctl.commands.fleet.delete import delete_definition
from ctl.commands.fleet.update import update_definition


def member_parameters() -> list[click.Parameter]:
    return [
        Option(
            ["--member", "members"],
            metavar="CLUSTER=WEIGHT",
            multiple=True,
            help="A cluster and its weight, 1 by default. Repeatable; replaces all members.",
        ),
        Option(["--description"], metavar="TEXT", help="For people."),
    ]


def changing_parameters() -> list[click.Parameter]:
    return [
        Option(
            [*flag_names("addMember"), "added"],
            metavar="CLUSTER=WEIGHT",
            multiple=True,
            help="Add a cluster at the end, or change the weight of a member. Repeatable.",
        ),
        Option(
            [*flag_names("removeMember"), "removed"],
            metavar="CLUSTER",
            multiple=True,
            help="Remove a member. Repeatable.",
        ),
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


def member_part(
    noun: str,
    *,
    about: str,
    examples: Mapping[str, Sequence[str]],
    fields: Sequence[str] = (),
    parameters: Callable[[], list[click.Parameter]] = member_parameters,
    set: Callable[[Document, Flags], Document] = set_members,
) -> Part:
    """Pools or labels, as the commands handle them; `fields` are what they have beside members and description."""

    def cells(group: Document) -> list[str]:
        from ctl.files.fleet import show_members

        return [*text_cells(group, "name", *fields), show_members(group.get("members")), *text_cells(group, "source")]

    return Part(
        noun=noun,
        about=about,
        columns=("NAME", *(field.upper() for field in fields), "MEMBERS", "SOURCE"),
        wide_columns=("EXPECTED", "VERSION", "DESCRIPTION"),
        cells=cells,
        wide_cells=_wide_cells,
        parameters=parameters,
        changing=changing_parameters,
        set=set,
        examples=examples,
    )


def _wide_cells(group: Document) -> list[str]:
    expected = [str(member["id"]) for member in group.get("members") or [] if member.get("expected")]
    return [", ".join(expected), *text_cells(group, "version", "description")]


def commands(part: Part) -> tuple[Callable[[], click.Command], ...]:
    """What makes the commands that get, create, update and delete one."""
    makers = (get_definition, create_definition, update_definition, delete_definition)
    return tuple(partial(make, part) for make in makers)
