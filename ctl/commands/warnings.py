"""`get warnings`: the warnings about stored settings that still apply."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose
from ctl.cli.options import strict_option
from ctl.cli.session import Session
from ctl.client.answers import Document, RowChange, warning_text
from ctl.client.errors import WarningsFound
from ctl.client.kinds import built_in
from ctl.client.nouns import noun_of
from ctl.client.scopes import Scope
from ctl.client.words import count


def _noun(warning: Document) -> str:
    name = str(warning.get("resource_type", ""))
    built = {kind.name: kind.noun for kind in built_in()}
    return built.get(name, noun_of(name))


def _level(warning: Document) -> str:
    return str(warning.get("level", Scope.from_document(warning).level))


def _place(warning: Document) -> str:
    return str(warning.get("name") or Scope.from_document(warning).describe())


_LISTING = Listing(
    fields={
        "kind": _noun,
        "level": _level,
        "field": "field",
        "code": "code",
        **{key: key for key in ("project", "domain", "workflow", "launch_plan", "name")},
    },
    order="kind",
)


@command(
    help="Show the current warnings: stored settings that name something unknown or contradict others.",
    params=[strict_option(), *_LISTING.options()],
    examples=["rainbowctl get warnings", "rainbowctl get warnings --strict -o json"],
)
def get_warnings(session: Session, strict: bool, **flags: Any) -> None:
    warnings = list(choose(session, session.client.warnings(), flags, _LISTING))
    session.printer.show(
        (RowChange.from_document(warning).short(_noun(warning)) for warning in warnings),
        warnings,
        warnings,
        {"KIND": _noun, "LEVEL": _level, "SCOPE": _place, "FIELD": "field", "WARNING": warning_text},
        {"CODE": "code"},
        empty="No warnings.",
    )
    if strict and warnings:
        raise WarningsFound(f"{count(len(warnings), 'warning')} under --strict.")
