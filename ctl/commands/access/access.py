"""Who may do what at a scope, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows
from ctl.cli.options import SCOPE_PARAMETERS
from ctl.cli.output import Columns
from ctl.cli.provenance import describe_version
from ctl.cli.scopes import resolve_scope
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.words import count
from ctl.commands.access.grants import COLUMNS, grantee

_GET_HELP = """Show who may do what at a scope: every grant that reaches it, of the broadest scopes first, with the
users of a group. -o wide also shows the permissions that count there, and who gave it. `rainbowctl explain access USER
PERMISSION` tells why someone may do something, or what is missing.
"""
#: Users of a group that a table names.
_MOST_USERS = 5


def _users(grant: Document) -> list[str]:
    """The users who have a role by a grant: those of the group, or the one that it is given to."""
    users: list[str] = grant.get("users") or ([grant["user"]] if grant.get("user") else [])
    return users


def _first_users(grant: Document) -> str:
    users = _users(grant)
    more = f" and {len(users) - _MOST_USERS} more" if len(users) > _MOST_USERS else ""
    return f"{', '.join(users[:_MOST_USERS])}{more}"


_LISTING = Listing(
    fields={name: name for name in ("name", "role", "user", "group", "level")}
    | {"users": _users, "permissions": "permissions"},
    order="name",
)


@command(
    help=_GET_HELP,
    params=[*SCOPE_PARAMETERS, *_LISTING.options()],
    examples=[
        "rainbowctl get access -p flyteexamples -d development",
        "rainbowctl get access -d production -o wide",
        "rainbowctl get access -p flyteexamples --selector 'permissions=attributes.write' -o json",
    ],
)
def get_access(session: Session, **flags: Any) -> None:
    scope = resolve_scope(session, flags)
    answer = session.client.access(scope)
    where = f"reaching {scope.describe()}"
    grants = choose_rows(session, answer["grants"], flags, _LISTING, "grant", where=where, by="role")
    printer = session.printer
    none = f"No grants reach {scope.describe()}: nobody may do anything there by a grant."
    if answer["grants"]:
        none = f"None of {count(len(answer['grants']), 'grant')} reaching {scope.describe()} matches."
    wide: Columns = {
        "PERMISSIONS": lambda grant: ", ".join(grant["permissions"]),
        "GIVEN BY": lambda grant: describe_version(printer, grant),
    }
    printer.show(
        (f"grant/{grant['name']}" for grant in grants),
        grants,
        {**answer, "grants": grants},
        {**COLUMNS, "USERS": _first_users},
        wide,
        empty=none,
    )


def explain_access(session: Session, flags: Mapping[str, Any]) -> None:
    """`explain access USER PERMISSION`: why someone may do something at a scope, or what is missing."""
    user, permission = flags["workflow"], flags["permission"]
    if user is None or permission is None:
        raise InvalidInput(
            "Who, and what? Write `rainbowctl explain access USER PERMISSION`; `rainbowctl get role ROLE` lists the "
            "permissions."
        )
    scope = resolve_scope(session, {**flags, "workflow": None})
    noun, _, name = user.partition(":")
    who = {"group": name} if noun == "group" and name else {"user": user}
    answer = session.client.explain_access(permission, scope, **who)
    printer = session.printer
    if printer.machine_output([f"access/{user}/{permission}"], answer):
        return
    printer.sentence(str(answer["message"]))
    if grants := answer["grants"] or answer["elsewhere"]:
        printer.line()
        columns: Columns = {
            **COLUMNS,
            "THROUGH": lambda grant: " → ".join(grant.get("through") or []) or grantee(grant),
            "GIVEN BY": lambda grant: describe_version(printer, grant),
        }
        printer.rows(grants, columns, {"NAME": "name"})
