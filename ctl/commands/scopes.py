"""`get scope`: the scopes right below one, and what is set there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows
from ctl.cli.options import SCOPE_PARAMETERS, Option
from ctl.cli.output import Column
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.kinds import built_in
from ctl.client.nouns import noun_of
from ctl.client.scopes import KEYS, Scope

_HELP = """Show the scopes right below one, the kinds that are set at each, and how many rows are below it.

Below the platform are the domains and projects, below a project its domains, below these the workflows, and below a
workflow its launch plans. Without -p and -d it is the platform; a default project or domain of the context plays no
part. `rainbowctl explain all` tells what applies at one of them.
"""
_LISTING = Listing(
    fields={"level": "level", "rows_below": "rows_below", **{key: key for key in KEYS}}, prefixes=("scope",)
)


def _kinds(scope: Document) -> str:
    built = {kind.name: kind.noun for kind in built_in()}
    return ", ".join(built.get(name, noun_of(name)) for name in scope["kinds"])


_COLUMNS: Mapping[str, Column] = {
    "SCOPE": lambda scope: Scope.from_document(scope).describe(),
    "LEVEL": "level",
    "SET HERE": _kinds,
    "ROWS BELOW": "rows_below",
}


@command(
    help=_HELP,
    params=[
        *SCOPE_PARAMETERS,
        Option(["--search"], metavar="TEXT", help="Only those whose names contain this, in any case of letters."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get scope",
        "rainbowctl get scope -p flytesnacks -d development --search train",
        "rainbowctl get scope -p flytesnacks -d development -w core.train -o json",
    ],
)
def get_scope(session: Session, search: str | None, **flags: Any) -> None:
    scope = Scope(**scope_filters(session, flags))
    below = session.client.scopes_below(scope, search=search)
    where = "below the platform" if scope.level == "platform" else f"below {scope.describe()}"
    scopes = choose_rows(session, below, flags, _LISTING, "scope", where=where)
    session.printer.show(_names(scopes), scopes, scopes, _COLUMNS, empty=f"There is no such scope {where}.")


def _names(scopes: Sequence[Document]) -> Iterator[str]:
    return ("/".join(["scope", *Scope.from_document(scope).document().values()]) for scope in scopes)
