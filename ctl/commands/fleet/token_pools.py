"""Token pools: counted resources that executions and programs hold while they work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ctl.cli.options import Option, option
from ctl.cli.output import Columns, Time
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.commands.fleet.definitions import FleetNoun
from ctl.commands.fleet.members import DESCRIPTION, commands, with_text

_CAPS = ("project", "namespace", "execution")
_TOKENS = click.IntRange(min=0)
_PARAMETERS = (
    Option(["--capacity"], metavar="N", type=_TOKENS, help="How many tokens there are."),
    option("projectCap", parameter="cap_project", metavar="N", type=_TOKENS, help="The most for each project."),
    option(
        "namespaceCap",
        parameter="cap_namespace",
        metavar="N",
        type=_TOKENS,
        help="The most for each project in each domain.",
    ),
    option("executionCap", parameter="cap_execution", metavar="N", type=_TOKENS, help="The most for each execution."),
    DESCRIPTION,
)


def _set(definition: Document, flags: Mapping[str, Any]) -> Document:
    """A definition with the flags applied; caps that no flag names stay."""
    definition = with_text(definition, "description", flags["description"])
    if flags["capacity"] is not None:
        definition = {**definition, "capacity": flags["capacity"]}
    caps = {name: flags[f"cap_{name}"] for name in _CAPS if flags[f"cap_{name}"] is not None}
    return {**definition, "caps": {**definition.get("caps", {}), **caps}} if caps else definition


def _caps(pool: Document) -> str:
    return ", ".join(f"{name} {cap}" for name, cap in (pool.get("caps") or {}).items())


def _place(entry: Document) -> str:
    return "/".join(entry[key] for key in ("project", "domain", "execution") if entry.get(key))


def show_details(session: Session, pool: Document, switched_by: str, defined_by: str) -> None:
    """Print a pool, who holds its tokens, and who waits for some."""
    printer = session.printer
    held = f"{pool['used']} of {pool['capacity']} tokens are held, {pool['free']} are free"
    printer.sentence(f"token pool {pool['name']}: {held}; {pool['waiting']} in line")
    for name, text in (("description", pool.get("description")), ("caps", _caps(pool)), ("defined", defined_by)):
        if text:
            printer.sentence(f"{name:<14}{text}", indent=" " * 14)
    claim: Columns = {"TOKEN": "token", "AMOUNT": "amount", "FOR": _place, "BY": "holder", "SINCE": Time("since")}
    if pool.get("holders"):
        printer.line()
        printer.rows(pool["holders"], {**claim, "UNTIL": Time("until", is_ahead=True)})
    if pool.get("waiters"):
        printer.line()
        printer.rows(pool["waiters"], {"PLACE": "place", **claim, "PRIORITY": "priority"})


get_token_pool, create_token_pool, update_token_pool, delete_token_pool = commands(
    FleetNoun(
        name="token-pool",
        is_fleet=False,
        about=(
            "A token pool is a number of tokens, of which executions and programs hold some while they work: say, 100 "
            "connections to Hive. Caps bound what each project, each project in a domain, and each execution may hold."
        ),
        columns={"NAME": "name", "CAPACITY": "capacity", "USED": "used", "FREE": "free", "WAITING": "waiting"},
        wide_columns={"CAPS": _caps, "DESCRIPTION": "description", "VERSION": "version"},
        fields={name: name for name in ("name", "capacity", "used", "free", "waiting", "description", "version")},
        parameters=_PARAMETERS,
        set=_set,
        details=show_details,
        examples={
            "get": ["rainbowctl get token-pool", "rainbowctl get token-pool hive -o yaml"],
            "create": ["rainbowctl create token-pool hive --capacity 100 --projectCap 20 --executionCap 2"],
            "update": ["rainbowctl update token-pool hive --capacity 50 -m 'half of the servers are down'"],
            "delete": ["rainbowctl delete token-pool hive", "rainbowctl delete token-pool hive --force"],
        },
    )
)
