"""Roles: named sets of permissions."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, refuse_choice
from ctl.cli.options import Argument
from ctl.cli.output import Columns
from ctl.cli.session import Session
from ctl.client.errors import NotFound
from ctl.client.words import did_you_mean

_HELP = """Show the roles: viewer, submitter, editor, operator and admin, and those that the admin's configuration
declares. With a name, one, with what each of its permissions allows and where one must have it. `create grant` gives
them.
"""
_LISTING = Listing(fields={name: name for name in ("name", "description", "permissions")}, order="name")


@command(
    help=_HELP,
    params=[
        Argument("name", required=False, metavar="[ROLE]", explanation="Name of a role."),
        *_LISTING.options(),
    ],
    examples=["rainbowctl get role", "rainbowctl get role editor", "rainbowctl get roles -o yaml"],
)
def get_role(session: Session, name: str | None, **flags: Any) -> None:
    answer = session.client.roles()
    if name is None:
        roles = choose_rows(session, answer["roles"], flags, _LISTING, "role")
        columns: Columns = {
            "NAME": "name",
            "PERMISSIONS": lambda role: len(role["permissions"]),
            "DESCRIPTION": "description",
        }
        session.printer.show((f"role/{role['name']}" for role in roles), roles, roles, columns)
        return
    refuse_choice(flags, name)
    role = next((role for role in answer["roles"] if role["name"] == name), None)
    if role is None:
        hint = did_you_mean(name, [str(role["name"]) for role in answer["roles"]])
        raise NotFound(f"There is no role {name!r}.{hint}", name="role_not_found")
    if session.printer.machine_output([f"role/{name}"], role):
        return
    session.printer.sentence(f"Role {name}: {role['description']}." if role["description"] else f"Role {name}.")
    session.printer.line()
    held = [entry for entry in answer["permissions"] if entry["name"] in role["permissions"]]
    session.printer.rows(held, {"PERMISSION": "name", "ALLOWS": "description", "WHERE": "place"})
