"""`get kind`: what can be set, and with which fields."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, refuse_choice
from ctl.cli.options import kind_argument
from ctl.cli.output import Columns
from ctl.cli.session import Session
from ctl.client.errors import NotFound
from ctl.client.formats import to_yaml
from ctl.client.kinds import Kind, by_word
from ctl.client.schemas import Field, allowed_values, fields, show, type_name
from ctl.client.words import did_you_mean

_COLUMNS: Columns = {
    "NOUN": attrgetter("noun"),
    "NUMBER": attrgetter("number"),
    "NAME": attrgetter("name"),
    "MERGE": attrgetter("merge"),
    "DECLARED": lambda kind: "yes" if kind.declared else "no",
    "LEVELS": lambda kind: ", ".join(kind.levels),
}


def _origin(kind: Kind) -> str:
    return "declared" if kind.declared else "built in"


_FIELD_COLUMNS: Columns = {
    "FIELD": lambda field: field.path,
    "TYPE": type_name,
    "ALLOWED": lambda field: allowed_values(field.schema),
    "DEFAULT": lambda field: "" if field.schema.get("default") is None else show(field.schema["default"]),
    "DESCRIPTION": lambda field: field.schema.get("description"),
}
_FIELDS = ("noun", "number", "name", "merge", "declared")
_LISTING = Listing(fields={name: attrgetter(name) for name in _FIELDS}, order="noun")
_EXAMPLE_SCOPE = {"project": "flyteexamples", "domain": "development"}


@command(
    help="Show the kinds of settings, built in and declared, or one of them with its fields and an example file.",
    params=[kind_argument("[KIND]", "Noun, name or number."), *_LISTING.options()],
    examples=[
        "rainbowctl get kind",
        "rainbowctl get kind task-resource-attribute",
        "rainbowctl get kind 3 -o json",
    ],
)
def get_kind(session: Session, kind: str | None, **flags: Any) -> None:
    entries = session.client.kinds_document()["kinds"]
    kinds = [Kind.from_document(entry) for entry in entries]
    if kind is None:
        chosen_kinds = choose_rows(session, kinds, flags, _LISTING, "kind", by=_origin)
        names = (f"kind/{listed.noun}" for listed in chosen_kinds)
        document = [entries[kinds.index(listed)] for listed in chosen_kinds]
        session.printer.show(names, chosen_kinds, document, _COLUMNS, {"DESCRIPTION": attrgetter("description")})
        return
    refuse_choice(flags, kind)
    chosen = by_word(kinds, kind)
    if chosen is None:
        nouns = [listed.noun for listed in kinds]
        raise NotFound(f"There is no kind {kind!r}.{did_you_mean(kind, nouns)}", name="kind_not_found")
    if not session.printer.machine_output([f"kind/{chosen.noun}"], entries[kinds.index(chosen)]):
        _describe(session, chosen)


#: How rows join, in words.
_MERGES = {
    "leaf": "leaf by leaf",
    "replace": "as a whole (the most specific row replaces the others)",
    "tightest": "as bounds that all hold, each for the sum of everything at and below its scope",
}


def _describe(session: Session, kind: Kind) -> None:
    printer = session.printer
    merge = _MERGES.get(kind.merge, _MERGES["replace"])
    printer.line(f"{kind.noun} ({kind.name}, number {kind.number}{', declared' if kind.declared else ''})")
    if kind.description:
        printer.sentence(kind.description)
    printer.sentence(f"Levels: {', '.join(kind.levels)}. Inherited {merge}.")
    printer.line()
    printer.rows(list(_all_fields(kind)), _FIELD_COLUMNS)
    printer.line()
    printer.line(f"A file for `rainbowctl update {kind.noun} --attrFile`:")
    printer.line()
    scope = {key: name for key, name in _EXAMPLE_SCOPE.items() if key in _scope_keys(kind)}
    for line in to_yaml({**scope, **kind.example}).splitlines():
        printer.line(f"  {line}")


def _all_fields(kind: Kind) -> Iterator[Field]:
    """The fields, and those of the objects in their lists as `overrides[].task_type`."""
    for entry in fields(kind.schema):
        yield entry
        if entry.shape in {"keyed", "objects"}:
            yield from fields(entry.schema["items"], f"{entry.path}[]", entry.leaf)


def _scope_keys(kind: Kind) -> set[str]:
    if "project-domain" in kind.levels or "workflow" in kind.levels:
        return {"project", "domain"}
    return set(kind.levels)
