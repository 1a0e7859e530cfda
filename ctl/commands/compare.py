"""`compare`: what differs between two scopes, revisions, executions or clusters, or between settings then and now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import SCOPE_PARAMETERS, at_option, kind_argument, option, text_option
from ctl.cli.output import Columns, Printer
from ctl.cli.provenance import describe_setter
from ctl.cli.revisions import revision_or_time
from ctl.cli.scopes import resolve_scope
from ctl.cli.session import Session
from ctl.cli.windows import named_by_flags
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.executions import ExecutionId, parse_id
from ctl.client.schemas import leaf_parts, show
from ctl.client.scopes import KEYS, Scope
from ctl.client.times import format_duration

_HELP = """Show what differs between two scopes, field by field, with the origin of each value. Nothing is written.

The first scope is named as everywhere; what is not named of the other one is the same. --at and --otherAt compare as of
revisions or times, also at one scope, with the platform's current configuration; what two revisions changed anywhere is
shown by `rainbowctl history FROM..TO`. Fields that executions do not follow, since a workflow's job or a launch plan
says them itself, are marked.

compare execution NAME shows where the settings that an execution was decided by differ from those that the same request
would get now; with --otherExecution, what differs between two executions: what they run and who created them, how each
was placed by its last decision and who said so, how it ended, and the settings. The other one is in the same project
and domain, unless it is written PROJECT/DOMAIN/NAME or --otherProject or --otherDomain name another.

compare cluster NAME --otherCluster OTHER shows what differs between two clusters: how they are defined, the pools and
labels that they are in, their state, capacity, engine and agent, what their descriptions have of each type, and the
fields of settings that their engines do nothing with.
"""

_OTHERS = {
    "project": option("otherProject", parameter="other_project", metavar="PROJECT", help="Project of the other scope."),
    "domain": option("otherDomain", parameter="other_domain", metavar="DOMAIN", help="Domain of the other scope."),
    "workflow": option(
        "otherWorkflow", parameter="other_workflow", metavar="WORKFLOW", help="Workflow of the other scope."
    ),
    "launch_plan": option(
        "otherLaunchplan",
        "otherLaunchPlan",
        parameter="other_launch_plan",
        metavar="NAME",
        help="Launch plan of the other scope.",
    ),
}


@command(
    help=_HELP,
    params=[
        kind_argument("[KIND|all|execution|cluster]", "Noun, name or number, execution or cluster; all without one."),
        *SCOPE_PARAMETERS,
        *_OTHERS.values(),
        option(
            "otherExecution",
            parameter="other_execution",
            metavar="NAME",
            help="With compare execution: the other one.",
        ),
        text_option(
            "otherCluster", parameter="other_cluster", metavar="NAME", help="With compare cluster: the other one."
        ),
        at_option("The first as of this revision."),
        option(
            "otherAt",
            parameter="other_at",
            metavar="REVISION|TIME",
            callback=revision_or_time,
            help="The other as of this revision.",
        ),
    ],
    examples=[
        "rainbowctl compare all -p flyteexamples -d staging --otherDomain production",
        "rainbowctl compare task-resource-attribute -p flyteexamples -d development --otherProject flytesnacks",
        "rainbowctl compare all -p flyteexamples -d development --at 12",
        "rainbowctl compare execution nightly -p flyteexamples -d development",
        "rainbowctl compare execution nightly-1 -p flyteexamples -d development --otherExecution nightly-2",
        "rainbowctl compare cluster east --otherCluster west",
    ],
)
def compare(session: Session, kind: str | None, **flags: Any) -> None:
    session.fold()
    if kind in {"cluster", "clusters"}:
        _show_clusters(session, flags)
        return
    if flags["other_cluster"] is not None:
        raise InvalidInput("--otherCluster goes with `rainbowctl compare cluster NAME`.")
    if kind in {"execution", "executions"}:
        comparison, name = _of_execution(session, flags)
    else:
        comparison, name = _of_scopes(session, kind, flags)
    printer = session.printer
    if printer.machine_output([name], comparison):
        return
    settings = _describe_settings(comparison)
    printer.sentence(comparison.get("message") or settings)
    for word in ("first", "second"):
        if comparison[word].get("placed"):
            placed = _placed(printer, comparison[word]["placed"], comparison.get("revisions"))
            printer.sentence(f"{word:<7} {placed}", indent=" " * 8)
    if comparison.get("facts"):
        _show_facts(printer, comparison["facts"])
        printer.line()
        printer.sentence(f"Settings: {settings[:1].lower()}{settings[1:]}", indent="  ")
    rows = [cells for difference in comparison["differences"] for cells in _rows(session, comparison, difference)]
    if rows:
        printer.line()
        titles = ["KIND", "FIELD", "FIRST", "FIRST SET BY", "SECOND", "SECOND SET BY", "EFFECT"]
        if not any(cells[-1] for cells in rows):
            titles, rows = titles[:-1], [cells[:-1] for cells in rows]
        printer.table(titles, rows)


def _show_clusters(session: Session, flags: Mapping[str, Any]) -> None:
    """What differs between two clusters, in the format asked for."""
    name, other = flags["workflow"], flags["other_cluster"]
    if name is None or other is None:
        raise InvalidInput("Which clusters? Write `rainbowctl compare cluster NAME --otherCluster OTHER`.")
    others = {**_SCOPE_FLAGS, "other_execution": "--otherExecution"}
    if wrong := [flag for key, flag in others.items() if flags[key] is not None]:
        raise InvalidInput(f"{', '.join(wrong)}: clusters belong to no scope, and are compared as they are now.")
    with named_by_flags({"other": "--otherCluster"}):
        comparison = session.client.compare_clusters(name, other)
    printer = session.printer
    if printer.machine_output([f"cluster/{name}"], comparison):
        return
    printer.sentence(comparison["message"])
    for word in ("first", "second"):
        printer.sentence(f"{word:<7} {comparison[word]['summary']}", indent=" " * 8)
    _show_facts(printer, comparison["facts"])


def _show_facts(printer: Printer, facts: Sequence[Document]) -> None:
    """What differs between two executions or clusters, and what is the same."""
    different = [fact for fact in facts if not fact["equal"]]
    if different:
        printer.line()
        columns: Columns = {"PART": "part", "FACT": _fact_name}
        printer.rows(different, {**columns, **{side.upper(): partial(_fact, side) for side in ("first", "second")}})
    same = [f"{_fact_name(fact)} {_fact('first', fact)}" for fact in facts if fact["equal"]]
    if same:
        printer.line()
        printer.sentence(f"The same on both sides: {'; '.join(same)}.", indent="  ")


def _fact_name(fact: Document) -> str:
    """The fact in words; a path, such as that of a variable of the environment, is left as it is."""
    field = str(fact["field"])
    return field if "." in field else field.removesuffix("_seconds").replace("_", " ")


def _fact(side: str, fact: Document) -> str:
    value = fact.get(side)
    if value is None:
        return "(none)"
    return format_duration(value) if fact["field"].endswith("_seconds") else show(value)


def _describe_settings(comparison: Document) -> str:
    """How many fields of settings differ, between what."""
    number = len(comparison["differences"])
    counted = "1 field differs" if number == 1 else f"{number or 'No'} fields differ"
    sides = f"first is {_side(comparison['first'])}; second is {_side(comparison['second'])}"
    return f"{counted}, {comparison['equal']} equal: {sides}."


def _of_scopes(session: Session, kind: str | None, flags: Mapping[str, Any]) -> tuple[Document, str]:
    if flags["other_execution"] is not None:
        raise InvalidInput("--otherExecution goes with `rainbowctl compare execution NAME`.")
    if kind is not None and ".." in kind:
        raise InvalidInput(f"What differs between two revisions is shown by `rainbowctl history {kind}`.")
    scope = resolve_scope(session, flags)
    chosen = None if kind is None or kind == "all" else session.client.kind(kind)
    named = {key: flags[f"other_{key}"] for key in KEYS if flags[f"other_{key}"] is not None}
    other = Scope(**{**scope.document(), **named})
    if other == scope and flags["at"] is None and flags["other_at"] is None:
        raise InvalidInput("Compare with what? Name another scope, as with --otherDomain, or a revision with --at.")
    comparison = session.client.compare(scope, other, chosen, at=flags["at"], other_at=flags["other_at"])
    return comparison, scope.name("comparison")


def _of_execution(session: Session, flags: Mapping[str, Any]) -> tuple[Document, str]:
    from ctl.commands.executions.options import execution_id

    other_name, place = flags["other_execution"], ("other_project", "other_domain")
    allowed = () if other_name is None else place
    wrong = [flag for key, flag in _SCOPE_FLAGS.items() if flags[key] is not None and key not in allowed]
    if wrong:
        other = "what applies to it now" if other_name is None else "another as each was decided"
        raise InvalidInput(f"{', '.join(wrong)}: an execution is compared with {other}. Leave it out.")
    if flags["workflow"] is None:
        raise InvalidInput("Which execution? Write `rainbowctl compare execution NAME`.")
    id = execution_id(session, flags["workflow"])
    if other_name is None:
        return session.client.compare_execution(id), id.resource
    project, domain = (flags[key] for key in place)
    if "/" not in other_name:
        project, domain = project or id.project, domain or id.domain
    return session.client.compare_execution(id, parse_id(other_name, project, domain)), id.resource


#: Flags that are about scopes, by their parameters.
_SCOPE_FLAGS = {
    "workflow_flag": "--workflow",
    "launch_plan": "--launchplan",
    "at": "--at",
    "other_at": "--otherAt",
    **{str(other.name): other.opts[0] for other in _OTHERS.values()},
}


def _side(side: Document) -> str:
    scope = f"{Scope.from_document(side).describe()}, as of revision {side['revision']}"
    execution = side.get("execution")
    return f"execution {ExecutionId.from_document(execution)} at {scope}" if execution else scope


def _placed(printer: Printer, placed: Document, revisions: Mapping[str, Document] | None) -> str:
    """Where an execution was placed by its last decision, why, and who said so."""
    from ctl.commands.executions.explain import describe_placement, describe_rung
    from ctl.commands.executions.tables import rung_origin

    where, rule = describe_placement(placed), f"{placed['rule'][:1].upper()}{placed['rule'][1:]}."
    decided = f"decision {placed['decision']}, {printer.when(placed['decided_at'])}"
    origin = placed.get("origin") or {}  # an older admin has none
    revision = describe_rung(printer, origin, revisions)
    set_by = f" Set by {rung_origin(origin, revision)}." if revision else ""
    return f"{where}, {decided}: {placed['reason']['message']} {rule}{set_by}"


def _rows(session: Session, comparison: Document, difference: Document) -> Iterator[list[str]]:
    """A row for a field that differs; where its value has fields of its own, one for each of these that differs."""
    sides = difference["first"], difference["second"]
    noun = session.client.noun(difference["resource_type"])
    set_by = [_set_by(session.printer, side, comparison.get("revisions")) for side in sides]
    parts = [leaf_parts(side["value"]) if side["state"] == "set" else {} for side in sides]
    for path in dict.fromkeys((*parts[0], *parts[1])) or [""]:
        values = [part.get(path) if part else f"({side['state']})" for part, side in zip(parts, sides, strict=True)]
        if values[0] != values[1]:
            field = ".".join(name for name in (difference["field"], path) if name)
            first, second = (value or "" for value in values)
            yield [noun, field, first, set_by[0], second, set_by[1], _effect(*sides)]


def _effect(first: Document, second: Document) -> str:
    """What wins over a field that executions do not follow, on one side or on both."""
    sides = {"first": first, "second": second}
    effects = {word: str(side["effect"]["effect"]) for word, side in sides.items() if side.get("effect")}
    if len(effects) > 1 and len(set(effects.values())) == 1:
        return f"both: {effects['first']}"
    return "; ".join(f"{word}: {effect}" for word, effect in effects.items())


def _set_by(printer: Printer, leaf: Document, revisions: Mapping[str, Document] | None) -> str:
    origin = leaf.get("origin")
    return describe_setter(printer, origin, revisions) if origin else ""
