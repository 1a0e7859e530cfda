"""`get admin-config`: the configuration that the admin runs with."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows
from ctl.cli.session import Session
from ctl.client.schemas import show

_HELP = """Show the configuration that the admin runs with: each key, its value, and where that comes from.

SOURCE is default, file, environment or command line. Passwords are hidden, and tokens and secrets are in files of their
own, of which only the paths are shown. `rainbowctl config view` shows the settings of rainbowctl itself.
"""

_LISTING = Listing(fields={name: name for name in ("key", "value", "source")}, order="key")


@command(
    help=_HELP,
    params=_LISTING.options(),
    examples=[
        "rainbowctl get admin-config",
        "rainbowctl get admin-config --filter.fieldSelector source!=default",
        "rainbowctl get admin-config -o json",
    ],
)
def get_admin_config(session: Session, **flags: Any) -> None:
    values = choose_rows(session, session.client.admin_config()["values"], flags, _LISTING, "key", by="source")
    session.printer.show(
        (f"admin-config/{row['key']}" for row in values),
        values,
        {"values": values},
        {"KEY": "key", "VALUE": lambda row: show(row.get("value")), "SOURCE": "source"},
        empty="No keys match.",
    )
