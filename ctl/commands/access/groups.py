"""Groups of users, to which roles can be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ctl.cli.options import Option, option
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.words import did_you_mean, listed
from ctl.commands.fleet.definitions import FleetNoun
from ctl.commands.fleet.members import DESCRIPTION, commands, with_text

#: The fields that list members, with the word of each one's flags.
_MEMBERS = {"users": "user", "groups": "group"}


def _set(definition: Document, flags: Mapping[str, Any]) -> Document:
    return set_names(definition, flags, _MEMBERS)


def set_names(definition: Document, flags: Mapping[str, Any], lists: Mapping[str, str]) -> Document:
    """A group with the members and the description of the flags; `lists` are its fields with the word of each one's."""
    changed = dict(definition)
    for field, word in lists.items():
        title = word.title()
        given, added, removed = (flags.get(key) or () for key in (field, f"added_{field}", f"removed_{field}"))
        if given and (added or removed):
            some = f"--add{title} and --remove{title} change some"
            raise InvalidInput(f"--{word} gives all {field}, {some}: keep one way.")
        members = list(given) or _changed_members(changed.get(field) or [], added, removed, f"--remove{title}")
        changed = {**changed, field: sorted(dict.fromkeys(members))}
        if not changed[field]:
            del changed[field]
    return with_text(changed, "description", flags["description"])


def _changed_members(members: Sequence[str], added: Sequence[str], removed: Sequence[str], flag: str) -> list[str]:
    for name in removed:
        if name not in members:
            raise InvalidInput(f"{flag} {name}: there is no such member.{did_you_mean(name, members)}")
    if both := sorted({*added} & {*removed}):
        raise InvalidInput(f"{listed(both)} is both added and removed: keep one of the two.")
    return [name for name in (*members, *added) if name not in removed]


def listed_names(field: str) -> Any:
    """A column of names."""
    return lambda group: ", ".join(group.get(field) or [])


def member_options(field: str, word: str) -> list[Option]:
    """Flags that add and remove members."""
    title, metavar = word.title(), word.upper()
    return [
        option(
            f"add{title}", parameter=f"added_{field}", metavar=metavar, multiple=True, help=f"Add a {word}. Repeatable."
        ),
        option(
            f"remove{title}",
            parameter=f"removed_{field}",
            metavar=metavar,
            multiple=True,
            help=f"Remove a {word}. Repeatable.",
        ),
    ]


_USERS = Option(["--user", "users"], metavar="USER", multiple=True, help="A member. Repeatable; replaces all users.")
_GROUPS = Option(
    ["--group", "groups"],
    metavar="GROUP",
    multiple=True,
    help="A group whose members are members too. Repeatable; replaces all groups.",
)

get_group, create_group, update_group, delete_group = commands(
    FleetNoun(
        name="group",
        is_fleet=False,
        about="A group has users, and the members of other groups. Roles are given to it by `create grant`.",
        columns={"NAME": "name", "USERS": listed_names("users"), "GROUPS": listed_names("groups")},
        wide_columns={"DESCRIPTION": "description", "VERSION": "version"},
        fields={field: field for field in ("name", "users", "groups", "description", "version")},
        parameters=(_USERS, _GROUPS, DESCRIPTION),
        changing=[flag for field, word in _MEMBERS.items() for flag in member_options(field, word)],
        set=_set,
        examples={
            "get": ["rainbowctl get group", "rainbowctl get group ml -o yaml"],
            "create": [
                "rainbowctl create group ml --user ada --user otto --description 'Machine learning'",
                "rainbowctl create group staff --group ml --group ops",
            ],
            "update": [
                "rainbowctl update group ml --addUser mia --removeUser otto -m 'otto has moved on'",
                "rainbowctl update group ml --description '' --dryRun",
            ],
            "delete": ["rainbowctl delete group ml", "rainbowctl delete group ml --force"],
        },
    )
)
