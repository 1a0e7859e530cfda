"""`explain KIND --reach`: which scopes below a row follow it, and which say otherwise or the same again."""

from __future__ import annotations

from collections.abc import Mapping

from ctl.cli.output import Column, Printer
from ctl.cli.provenance import as_of, describe_origin_revision, describe_revision, describe_setter
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.kinds import Kind
from ctl.client.schemas import summary
from ctl.client.scopes import Scope
from ctl.client.words import count, listed

#: Rows of the table, unless it is wide.
SHOWN = 20
#: The ways in which scopes stand to a row, in the order of the summary, and their words for one scope and for several.
_RELATIONS = {
    "follows": ("follows it", "follow it"),
    "says_otherwise": ("says otherwise", "say otherwise"),
    "says_the_same": ("says the same again", "say the same again"),
    "follows_another": ("follows another row", "follow another row"),
}


def show_reach(session: Session, kind: Kind, scope: Scope, *, everything: bool) -> None:
    """Print how the scopes below a row stand to it; the first thousand of them, or all."""
    reach = session.client.reach(scope, kind, everything=everything)
    printer, scopes = session.printer, reach["scopes"]
    if printer.machine_output((Scope.from_document(place).name(kind.noun) for place in scopes), reach):
        return
    row, revisions = reach["row"], reach.get("revisions")
    numbers = sorted(set((reach.get("row_revisions") or {}).values())) or [None]
    set_by = listed(describe_setter(printer, {**row, "revision": number}, revisions) for number in numbers)
    payload = summary(kind.schema, row["attributes"][kind.payload_key])
    counts = reach["counts"]
    parts = [f"{counts[key]} {words[counts[key] != 1]}" for key, words in _RELATIONS.items()]
    if outranked := counts.get("outranked"):
        having = counts["follows"] + counts["says_the_same"]
        verb = "goes" if outranked == 1 else "go"
        parts.append(f"{outranked} of {having} with its value {verb} by another pool or label")
    if mixed := counts.get("differs_by_field"):
        parts.append(f"{mixed} {'differs' if mixed == 1 else 'differ'} by field")
    if ignored := counts.get("not_followed"):
        parts.append(f"at {ignored} executions do not follow every field of it")
    first = "the first " if reach.get("token") else ""
    printer.sentence(
        f"{kind.noun} {payload}, set by {set_by}: "
        f"of {first}{count(len(scopes), 'scope')} below {', '.join(parts)}; {as_of(reach)}."
    )
    shown = scopes if printer.is_wide else scopes[:SHOWN]
    if shown:
        printer.line()
        columns: dict[str, Column] = {"LEVEL": "level", "SCOPE": _place, "RELATION": _stands}
        if any(_set_by(printer, place, revisions) for place in shown):
            columns["SET BY"] = lambda place: _set_by(printer, place, revisions)
        if any(place.get("consequence") for place in shown):
            columns["PLACEMENT GOES BY"] = lambda place: _goes_by(printer, place.get("consequence"), revisions)
        if any(place.get("field_effects") for place in shown):
            columns["EFFECT"] = _effect
        printer.rows(shown, columns)
    if len(shown) < len(scopes):
        printer.note(f"{len(scopes) - len(shown)} more: -o wide shows them.")
    if reach.get("token"):
        printer.note("There are more scopes below: --all counts every one of them.")


def _place(place: Document) -> str:
    return Scope.from_document(place).describe()


def _set_by(printer: Printer, place: Document, revisions: Mapping[str, Document] | None) -> str:
    """The revisions that set what a scope has instead of the row, and of other scopes' rows where those are."""
    if "origins" not in place:  # of an older admin
        return describe_revision(printer, place.get("version"), revisions) if place["relation"] != "follows" else ""
    here = Scope.from_document(place)
    parts = [
        describe_origin_revision(printer, origin, revisions)
        if origin["level"] == place["level"] and Scope.from_document(origin) == here
        else describe_setter(printer, origin, revisions)
        for origin in place["origins"].values()
    ]
    return "; ".join(dict.fromkeys(parts))


def _effect(place: Document) -> str:
    """`defaults.cpu: the job of workflow fit v1 says 4`, of the fields that executions do not follow."""
    return "; ".join(f"{entry['field']}: {entry['effect']}" for entry in place.get("field_effects") or [])


def _goes_by(printer: Printer, consequence: Document | None, revisions: Mapping[str, Document] | None) -> str:
    """`label spare of domain development (revision 41, …)`; empty where placement follows the row."""
    if not consequence:
        return ""
    setter = describe_setter(printer, consequence["origin"], revisions)
    return f"{consequence['noun']} {consequence['name']} of {setter}"


def _stands(place: Document) -> str:
    """`follows it`; of each field where they differ."""
    fields: dict[str, list[str]] = {}
    for path, relation in place["fields"].items():
        fields.setdefault(relation, []).append(path)
    if place.get("consequence") and place["relation"] == "follows":
        return "has its value"
    if len(fields) == 1:
        return _RELATIONS[place["relation"]][0]
    ordered = (relation for relation in _RELATIONS if relation in fields)
    return "; ".join(f"{_RELATIONS[relation][0]}: {', '.join(fields[relation])}" for relation in ordered)
