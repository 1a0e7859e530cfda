"""How the effective value of a kind is shown: every step of its trail, and the origin of each leaf."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ctl.cli.output import Printer
from ctl.cli.provenance import (
    as_of,
    describe_field_origin,
    describe_fields_revisions,
    describe_provenance,
    describe_setter,
)
from ctl.cli.session import Session
from ctl.client.answers import Document, Effective
from ctl.client.kinds import Kind, built_in
from ctl.client.schemas import leaf_values, show, summary
from ctl.client.scopes import BEYOND, LEVEL_FLAGS, Scope
from ctl.client.words import count, listed


def kinds_of(session: Session, chosen: Kind | None, values: Sequence[Document]) -> dict[str, Kind]:
    """The kinds of an answer by name; the admin is asked only for declared ones."""
    kinds = {kind.name: kind for kind in (*built_in(), *([chosen] if chosen else []))}
    if any(value["resource_type"] not in kinds for value in values):
        kinds |= {kind.name: kind for kind in session.client.kinds()}
    return kinds


def opening(session: Session, scope: Scope, chosen: Kind | None, document: Document, *, is_assumed: bool) -> str:
    """The answer in one sentence: what applies at a scope, and who set it; or which kinds have a value there."""
    values, kinds = document["values"], kinds_of(session, chosen, document["values"])
    end = f"{as_of(document)}{' and the given documents' if is_assumed else ''}."
    if len(values) != 1:
        nouns = [kinds[value["resource_type"]].noun for value in values if value["value"]]
        which = f": {', '.join(nouns)}" if nouns else ""
        has = "has" if len(nouns) == 1 else "have"
        outcomes = {name: entry["outcome"] for name, entry in (document.get("consequences") or {}).items()}
        harm = ""
        for outcome, verb in _HARMS.items():
            harming = [kind.noun for name, kind in kinds.items() if outcomes.get(name) == outcome]
            harm += f"; new executions there {verb} because of {listed(harming)}" if harming else ""
        return f"{len(nouns)} of {count(len(values), 'kind')} {has} a value at {scope.describe()}{which}{harm}; {end}"
    [value] = values
    kind = kinds[value["resource_type"]]

    def set_by(origins: Mapping[str, Document]) -> str:
        revisions = document.get("revisions")
        return listed(describe_setter(session.printer, origin, revisions) for origin in _distinct(origins))

    if not value["value"]:
        why = f"{set_by(value['unset'])} takes it away" if value["unset"] else "no level sets one"
        if deletion := (document.get("deleted_by") or {}).get(kind.name):
            why += f", and its row there was deleted by {describe_provenance(session.printer, deletion)}"
        return f"{kind.noun} has no value at {scope.describe()}: {why}; {end}"
    text = summary(kind.schema, value["value"])
    return f"{kind.noun} at {scope.describe()} is {text}, set by {set_by(value['origins'])}; {end}"


def _distinct(origins: Mapping[str, Document]) -> list[Document]:
    """The rows that the origins of some fields name, the most specific last; the configuration counts as one."""
    places = {str(origin): origin for origin in origins.values()}
    if sum(origin["level"] == "platform" for origin in places.values()) > 1:
        places = {key: origin for key, origin in places.items() if origin["level"] != "platform"}
        places["platform"] = {"level": "platform"}
    return sorted(places.values(), key=lambda origin: _SPECIFICITY.get(origin["level"], len(_SPECIFICITY)))


_SPECIFICITY = {level: number for number, level in enumerate(LEVEL_FLAGS)}


def show_values(
    session: Session,
    scope: Scope | None,
    values: Sequence[Document],
    chosen: Kind | None = None,
    *,
    revisions: Mapping[str, Document] | None = None,
    nearest: Mapping[str, Document] | None = None,
    consequences: Mapping[str, Document] | None = None,
    field_effects: Mapping[str, Sequence[Document]] | None = None,
    deleted_by: Mapping[str, Document] | None = None,
) -> None:
    """
    What each kind resolves to, with its trail and the revisions that set each level; at a scope if one is given.

    Of a single kind at a scope, the opening sentence has its name. `nearest` are the rows of other scopes by the names
    of the kinds that no row sets at this one or above, `consequences` what happens with values that executions do not
    follow, `field_effects` with single fields of them, `deleted_by` the revisions that deleted the rows that stood at
    the scope.
    """
    printer, kinds = session.printer, kinds_of(session, chosen, values)
    for index, entry in enumerate(values):
        effective, kind = Effective.from_document(entry), kinds[entry["resource_type"]]
        if index:
            printer.line()
        if scope is None or len(values) > 1:
            printer.sentence(f"{kind.noun} at {scope.describe()}" if scope else kind.noun)
            printer.line()
        consequence = (consequences or {}).get(kind.name)
        effects = {str(entry["field"]): entry for entry in (field_effects or {}).get(kind.name) or []}
        messages = [consequence["message"]] if consequence else []
        messages += dict.fromkeys(str(entry["message"]) for entry in effects.values() if entry["message"])
        for message in messages:
            printer.sentence(message)
        if messages:
            printer.line()
        steps = []
        for step in effective.trail:
            own = {path: entry for path, entry in effects.items() if _is_set_by(effective, path, step)}
            steps.append(_step_cells(printer, kind, step, revisions, _effect(step, consequence, own)))
        deletion = (deleted_by or {}).get(kind.name)
        if deletion and steps:  # the last step is that of the scope itself
            steps[-1][-1] = f"deleted by {describe_provenance(printer, deletion)}"
        printer.table(["LEVEL", "SCOPE", "VALUE", "EFFECT", "SET BY"], steps)
        printer.line()
        if kind.merge == "tightest" and sum(step.get("state") == "set" for step in effective.trail) > 1:
            printer.sentence(
                "Every row holds, for the sum of everything at and below its scope; the tightest is shown here."
            )
            printer.line()
        rows = [
            [path, show(value), describe_field_origin(printer, effective.origins.get(path, {}), scope, revisions)]
            for path, value in leaf_values(kind.schema, effective.value)
        ]
        rows += [
            [path, "(unset)", describe_field_origin(printer, origin, scope, revisions)]
            for path, origin in effective.unset.items()
        ]
        titles = ["FIELD", "VALUE", "ORIGIN"]
        if effects:
            titles.append("EFFECT")
            rows = [[*cells, str(effects[cells[0]]["effect"]) if cells[0] in effects else "used"] for cells in rows]
        if rows:
            printer.table(titles, rows)
        elif scope is None or len(values) > 1:  # else the opening sentence says so
            printer.line("No value: no level sets one.")
            if scope is not None and scope.level in kind.levels and kind.name not in (nearest or {}):
                printer.sentence(f"To set one at {scope.describe()}: rainbowctl update {kind.noun} {_flags(scope)} …")
        if row := (nearest or {}).get(kind.name):
            place = describe_setter(printer, row, revisions)
            printer.sentence(f"Nearest: {summary(kind.schema, row['value'])} at {place}.")
            if row.get("warning"):  # what would be refused here too is not advised
                printer.warning(f"The nearest value: {printer.in_words(row['warning'])}")
            else:
                printer.sentence(f"To set the same {f'at {scope.describe()}' if scope else 'here'}: {row['command']}")


def _flags(scope: Scope) -> str:
    """The flags that name a scope."""
    flags = {"project": "-p", "domain": "-d", "workflow": "-w", "launch_plan": "--launchplan"}
    return " ".join(f"{flags[key]} {shlex.quote(name)}" for key, name in scope.document().items())


def _step_cells(
    printer: Printer,
    kind: Kind,
    step: Document,
    revisions: Mapping[str, Document] | None,
    effect: str,
) -> list[str]:
    key = f" ({step['key']})" if step.get("key") else ""
    where = Scope.from_document(step)
    place = f"configuration{key}" if step["level"] == "platform" else BEYOND.get(step["level"], where.describe())
    if step.get("state") != "set":
        return [step["level"], place, "", "silent", ""]
    set_by = describe_fields_revisions(printer, step, revisions)
    return [step["level"], place, summary(kind.schema, step.get("value") or {}), effect, set_by]


#: What values come to that new executions do not get over, in words.
_HARMS = {"refuses": "are refused", "waits": "wait"}
#: What a value comes to that executions do not follow, as cells say it.
_CONSEQUENCES = {
    "outranked": "outranked by {noun} {name}",
    "refuses": "refuses executions",
    "waits": "executions wait",
}


def _is_set_by(effective: Effective, path: str, step: Document) -> bool:
    """Whether a field of an effective value, or that it has none, comes from a step."""
    origin = effective.origins.get(path) or effective.unset.get(path) or {}
    return origin.get("level") == step["level"] and Scope.from_document(origin) == Scope.from_document(step)


def _effect(step: Document, consequence: Document | None, own: Mapping[str, Document]) -> str:
    """What a step comes to; `own` are its fields that win over other steps and that executions do not follow."""
    used = [path for path in step.get("used") or [] if path not in own]
    overridden = [path for path in step.get("overridden") or [] if path not in own]
    if not used and not overridden and not own:
        return "none"
    if not overridden and not own:
        return _CONSEQUENCES[consequence["outcome"]].format(**consequence) if consequence else "used"
    if not used and not own:
        return "overridden"
    parts = [
        *([f"used: {', '.join(used)}"] if used else []),
        *([f"overridden: {', '.join(overridden)}"] if overridden else []),
        *(f"{path}: {entry['effect']}" for path, entry in own.items()),
    ]
    return "; ".join(parts)
