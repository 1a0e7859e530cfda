"""Who may do what at a scope, what a user or group may do everywhere, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_page, choose_rows
from ctl.cli.options import SCOPE_PARAMETERS, definition_completer, option, require_text, text_option
from ctl.cli.output import Columns
from ctl.cli.provenance import describe_version
from ctl.cli.scopes import resolve_scope, scope_filters
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.scopes import LEVEL_FLAGS, Scope
from ctl.client.words import count
from ctl.commands.access.grants import COLUMNS, grantee, place
from ctl.commands.access.use_grants import target

_GET_HELP = """Show who may do what at a scope: every grant that reaches it, of the broadest scopes first, with the
users of a group. -o wide also shows the permissions that count there, and who gave it. `rainbowctl explain access USER
PERMISSION` tells why someone may do something, or what is missing.

With --user or --group show what that user, or every member of that group, may do over all scopes: each grant with its
role, the groups that it comes through, and who gave it when; what the roles give; and the use grants by which clusters
may be used, those of projects where the user may create executions too. -p, -d, WORKFLOW and --launchplan choose the
grants that reach a scope; the context plays no part then. What you may not see is left out.
"""
#: Users of a group that a table names.
_MOST_USERS = 5


def _users(grant: Document) -> list[str]:
    """The users who have a role by a grant: those of the group, or the one that it is given to."""
    users: list[str] = grant.get("users") or ([grant["user"]] if grant.get("user") else [])
    return users


def _first_users(grant: Document) -> str:
    absent = grant.get("absent_users") or []
    users = [f"{name} (no such user)" if name in absent else name for name in _users(grant)]
    more = f" and {len(users) - _MOST_USERS} more" if len(users) > _MOST_USERS else ""
    return f"{', '.join(users[:_MOST_USERS])}{more}"


_LISTING = Listing(
    fields={name: name for name in ("name", "role", "user", "group", "level")}
    | {"users": _users, "permissions": "permissions"},
    words={"level": tuple(LEVEL_FLAGS)},
    order="name",
)


@command(
    help=_GET_HELP,
    params=[
        *SCOPE_PARAMETERS,
        text_option("user", metavar="USER", help="What this user may do, over all scopes."),
        option(
            "group",
            metavar="GROUP",
            help="What the members of this group may do, over all scopes.",
            callback=require_text,
            shell_complete=definition_completer("group"),
        ),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get access -p flyteexamples -d development",
        "rainbowctl get access --user ada",
        "rainbowctl get access --group ml -o wide",
        "rainbowctl get access --user ada --selector 'permissions=attributes.write'",
        "rainbowctl get access -d production -o wide",
        "rainbowctl get access -p flyteexamples --selector 'permissions=attributes.write' -o json",
    ],
)
def get_access(session: Session, user: str | None, group: str | None, **flags: Any) -> None:
    if user and group:
        raise InvalidInput("Whose access? Give --user USER or --group GROUP, one of the two.")
    if user or group:
        _show_held(session, user, group, flags)
        return
    scope = _scope(session, flags)
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
    if printer.is_table:
        _note_unknown(session, answer)


def _note_unknown(session: Session, answer: Document) -> None:
    """Name the users and groups of an answer that do not exist."""
    for unknown in answer.get("unknown_names") or []:
        session.printer.note(str(unknown["message"]))


def _scope(session: Session, flags: Mapping[str, Any]) -> Scope:
    """The scope of the command line; a word alone, which is no workflow, may be meant for a user."""
    try:
        return resolve_scope(session, flags)
    except InvalidInput as error:
        if flags["workflow"]:
            raise InvalidInput(f"{error.message} If it is a user, write --user {flags['workflow']}.") from error
        raise


def _show_held(session: Session, user: str | None, group: str | None, flags: Mapping[str, Any]) -> None:
    """What a user or group may do over all scopes, or at one, and which clusters it may use."""
    keys = scope_filters(session, flags)
    answer = session.client.held_access(user=user, group=group, scope=Scope(**keys) if keys else None)
    chosen = choose_page(session, answer["grants"], flags, _LISTING)
    grants = list(chosen.rows)
    printer, uses = session.printer.folded(), answer.get("use_grants") or []
    names = [*(f"grant/{grant['name']}" for grant in grants), *(f"use-grant/{grant['name']}" for grant in uses)]
    if printer.machine_output(names, {**answer, "grants": grants}):
        return
    printer.sentence(str(answer["message"]))
    _note_unknown(session, answer)
    given: Columns = {"GIVEN BY": lambda grant: describe_version(printer, grant)}
    if grants:
        printer.line()
        wide: Columns = {"PERMISSIONS": lambda grant: ", ".join(grant["permissions"]), "NAME": "name"}
        printer.rows(grants, {"ROLE": "role", "ON": place, "THROUGH": _through, **given}, wide)
    elif answer["grants"]:
        printer.note(f"None of {count(len(answer['grants']), 'grant')} matches.")
    if grants and not printer.is_wide:
        printer.line()
        for line in _permissions(grants):
            printer.sentence(line, indent="  ")
    if uses:
        printer.line()
        covers: Columns = {"COVERS": lambda grant: ", ".join(grant["clusters"])}
        printer.rows(uses, {"MAY USE": target, "THROUGH": _through_use, **covers, **given}, {"NAME": "name"})


def _through(grant: Document) -> str:
    """The groups by which a user has a grant; none for one of the user's own."""
    return " → ".join(grant.get("through") or [])


def _through_use(grant: Document) -> str:
    """The same of a use grant, which may be a project's."""
    return f"project {grant['project']}" if grant.get("project") else _through(grant)


def _permissions(grants: Sequence[Document]) -> Iterator[str]:
    """What each role gives, once; a role gives more on the platform than at a scope."""
    by_role: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for grant in grants:
        by_role.setdefault((grant["role"], tuple(grant["permissions"])), []).append(place(grant))
    for (role, permissions), places in by_role.items():
        where = f" on {places[0]}" if sum(name == role for name, _ in by_role) > 1 else ""
        yield f"{role}{where} gives {', '.join(permissions) or 'nothing: the role is not declared any more'}."


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
    _note_unknown(session, answer)
    if grants := answer["grants"] or answer["elsewhere"]:
        printer.line()
        columns: Columns = {
            **COLUMNS,
            "THROUGH": lambda grant: " → ".join(grant.get("through") or []) or grantee(grant),
            "GIVEN BY": lambda grant: describe_version(printer, grant),
        }
        printer.rows(grants, columns, {"NAME": "name"})
