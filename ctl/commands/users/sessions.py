"""Sessions of the console."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, typed_choice
from ctl.cli.options import Argument, definition_completer, force_option
from ctl.cli.output import Time
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.session import Session
from ctl.client.nouns import USER

_GET_HELP = """Show who is signed in at the console, without USER all that you may see.

A session ends with the token that it began with, after the time that the admin is configured with, or when it is
deleted. When it was used last is known to the minute.
"""
_DELETE_HELP = """End a session of the console: the browser has to sign in again.

Asks for confirmation on a terminal. A token that the session began with stays good: `rainbowctl delete user-token`
revokes it, and ends all of its sessions.
"""
_FIELDS = ("user", "id", "proof", "token", "address", "created_at", "last_used_at", "expires_at")
_LISTING = Listing(fields={name: name for name in _FIELDS}, ahead=("expires_at",))


@command(
    help=_GET_HELP,
    params=[
        Argument(
            "user",
            required=False,
            metavar="[USER]",
            explanation="Name of the user; all of them without it.",
            shell_complete=definition_completer(USER),
        ),
        *_LISTING.options(),
    ],
    examples=["rainbowctl get session", "rainbowctl get session ada -o json"],
)
def get_session(session: Session, user: str | None, **flags: Any) -> None:
    where = "" if user is None else f"of user {user}"
    listed = choose_rows(session, session.client.sessions(user), flags, _LISTING, "session", where=where, by="proof")
    empty = "Nobody is signed in at the console." if user is None else f"User {user} is not signed in at the console."
    session.printer.show(
        (f"session/{each['user']}/{each['id']}" for each in listed),
        listed,
        listed,
        {
            **({"USER": "user"} if user is None else {}),
            "ID": "id",
            "BY": "proof",
            "TOKEN": "token",
            "CREATED": Time("created_at"),
            "LAST USED": Time("last_used_at"),
            "EXPIRES": Time("expires_at", is_ahead=True),
            "ADDRESS": "address",
            "BROWSER": "browser",
        },
        empty="No sessions match." if typed_choice(flags) else empty,
    )


@command(
    help=_DELETE_HELP,
    params=[
        Argument("user", explanation="Name of the user.", shell_complete=definition_completer(USER)),
        Argument("id", explanation="The id of the session, as `get session` shows it."),
        force_option("Do not ask."),
    ],
    examples=["rainbowctl delete session ada 1f2e3d4c5b6a", "rainbowctl delete session ada 1f2e3d4c5b6a --force"],
)
def delete_session(session: Session, user: str, id: str, force: bool) -> None:
    if is_terminal() and not force:
        confirm(f"End session {id} of user {user}?", "Not confirmed: nothing was ended.")
    answer = session.client.end_session(user, id)
    session.printer.machine_output([f"session/{user}/{id}"], answer)
    session.printer.note(f"Ended session {id} of user {user}.")
