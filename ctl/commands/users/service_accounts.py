"""Service accounts: users that are programs."""

from __future__ import annotations

from ctl.client.answers import Document
from ctl.client.errors import NotFound
from ctl.commands.fleet.definitions import FleetNoun
from ctl.commands.fleet.members import DESCRIPTION, commands
from ctl.commands.users.users import COLUMNS, DELETE_HELP, FIELDS, IDLE, WIDE_COLUMNS, set_description, tell_tokens


def _check(user: Document) -> None:
    if not user.get("service_account"):
        raise NotFound(
            f"{user['name']} is a person, not a service account: write `user` in place of `service-account`.",
            name="user_not_found",
        )


get_service_account, create_service_account, update_service_account, delete_service_account = commands(
    FleetNoun(
        name="service-account",
        resource="user",
        about="A service account is a user that is a program: a pipeline, a scheduler, another service.",
        columns={name: column for name, column in COLUMNS.items() if name != "TYPE"},
        wide_columns=WIDE_COLUMNS,
        fields=FIELDS,
        filters=(IDLE,),
        parameters=(DESCRIPTION,),
        set=set_description,
        fixed={"service_account": True},
        chosen={"service_account": "true"},
        check=_check,
        is_fleet=False,
        delete_help=DELETE_HELP.format(nouns="service accounts"),
        after_create=tell_tokens,
        examples={
            "get": ["rainbowctl get service-account", "rainbowctl get service-account nightly -o json"],
            "create": ["rainbowctl create service-account nightly --description 'Starts the nightly runs.'"],
            "update": ["rainbowctl update service-account nightly --description 'Starts all runs.'"],
            "delete": ["rainbowctl delete service-account nightly"],
        },
    )
)
