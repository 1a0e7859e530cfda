"""Users: people and service accounts, who prove themselves by tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.cli.options import text_option
from ctl.cli.output import Columns, Field, Time
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.commands.fleet.definitions import FleetNoun
from ctl.commands.fleet.members import DESCRIPTION, commands, with_text

DELETE_HELP = """Delete {nouns} by their names, and revoke their tokens at once.

Their settings and executions stay; --dryRun shows which executions would wait then. Grants and groups that name them
stay too, without effect until a user of that name is created: a warning names each. Rolling the deletion back brings a
user back without its tokens. Of several names, all are deleted, or none. Asks for confirmation on a terminal. If there
is none of that name, there is nothing to delete, and the exit status is 0.
"""


def type_of(user: Document) -> str:
    """Whether a user is a person or a program."""
    return "service account" if user.get("service_account") else "person"


COLUMNS: Columns = {"NAME": "name", "TYPE": type_of, "CREATED": Time("created_at"), "DESCRIPTION": "description"}
WIDE_COLUMNS: Columns = {"LAST SEEN": Time("last_seen_at"), "UPDATED": Time("updated_at"), "VERSION": "version"}
#: That lists can be selected and sorted by.
FIELDS: Mapping[str, Field] = {
    field: field for field in ("name", "service_account", "description", "version", "created_at", "last_seen_at")
}
IDLE = text_option(
    "idle",
    metavar="DURATION",
    help="Only those of whom no token was used for so long, such as 90d, and who are older; -o wide says when.",
)


def set_description(definition: Document, flags: Mapping[str, Any]) -> Document:
    """A user with the description of the flags."""
    return with_text(definition, "description", flags["description"])


def tell_tokens(session: Session, name: str) -> None:
    """Say how a new user gets a token, which nobody is admitted without as soon as there is one."""
    session.printer.note(
        f"`rainbowctl create user-token {name} NAME` makes its tokens. As soon as there is a user, every request needs "
        f"a token: without one, run `rainbow-admin create-token {name}` on the admin's host."
    )


get_user, create_user, update_user, delete_user = commands(
    FleetNoun(
        name="user",
        about=(
            "A user is a person or a service account, and is proven by a token; what a user does is recorded under the "
            "user's name. As soon as there is one, every request needs a token."
        ),
        columns=COLUMNS,
        wide_columns=WIDE_COLUMNS,
        fields=FIELDS,
        filters=(IDLE,),
        parameters=(DESCRIPTION,),
        set=set_description,
        is_fleet=False,
        delete_help=DELETE_HELP.format(nouns="users"),
        after_create=tell_tokens,
        examples={
            "get": [
                "rainbowctl get user",
                "rainbowctl get user ada -o yaml",
                "rainbowctl get users --idle 90d -o wide",
            ],
            "create": [
                "rainbowctl create user ada --description 'Runs the examples.'",
                "printf 'name: ada@example.org\\n' | rainbowctl create user --file - --dryRun",
            ],
            "update": ["rainbowctl update user ada --description 'Runs the benchmarks.'"],
            "delete": ["rainbowctl delete user ada -m 'left'", "rainbowctl delete user ada --dryRun"],
        },
    )
)
