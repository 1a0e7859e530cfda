"""`explain`: what a kind resolves to at a scope, and every step that led to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ctl.answers import Document, Effective
from ctl.commands.scopes import resolve_scope
from ctl.errors import InvalidInput, InvalidRequest
from ctl.groups import Command
from ctl.kinds import Kind, built_in
from ctl.options import Option, at_option, kind_argument, scope_parameters
from ctl.schemas import leaf_values, show, summary
from ctl.scopes import BEYOND, Scope, describe_origin
from ctl.session import Session

_HELP = """Show what applies at a scope, and every step that led to it.

KIND is a noun, a name or a number, or `all`, which is the default. The trail runs from the platform to the scope
asked for; levels that say nothing are shown too. What a level says counts unless a more specific one
says otherwise about the same field.

--with FILE answers as if the documents in it had been applied, without applying them; --at as of a revision, with the
platform's configuration of today.

explain execution NAME shows why an execution is where it is: what each rung asks for, most specific first; every
candidate with the verdict of each filter and its score; and the choice. -o wide adds each setting with its trail;
--decision shows an earlier decision.
"""


def explain() -> click.Command:
    def run(session: Session, kind: str | None, **flags: Any) -> None:
        if kind in {"execution", "executions"}:
            from ctl.commands.execution_explains import explain_execution

            explain_execution(session, flags)
            return
        if flags["decision"] is not None:
            raise InvalidInput("--decision goes with `rainbowctl explain execution NAME`: leave it out.")
        scope = resolve_scope(session, flags)
        wanted = None if kind is None or kind == "all" else session.client.kind(kind)
        document = _document(session, scope, wanted, flags)
        printer = session.printer
        if printer.format == "name":
            kinds = _kinds(session, wanted, document["values"])
            for value in document["values"]:
                printer.line(scope.name(kinds[value["resource_type"]].noun))
        elif not printer.is_table:
            printer.document(document)
        else:
            show_values(session, scope, document["values"], wanted)

    return Command(
        "explain",
        run,
        help=_HELP,
        takes=("project", "domain"),
        params=[
            kind_argument("[KIND|all|execution]", "Noun, name or number, or execution; all without one."),
            *scope_parameters(),
            Option(
                ["--with", "files"],
                metavar="FILE|DIR|-",
                multiple=True,
                help="As if these documents were applied. Repeatable.",
            ),
            at_option("As of this revision."),
            Option(
                ["--decision"], metavar="N", type=click.IntRange(min=1), help="With execution: an earlier decision."
            ),
        ],
        examples=[
            "rainbowctl explain execution-cluster-label -p flyteexamples -d development",
            "rainbowctl explain task-resource-attribute -p flyteexamples -d development my.workflow",
            "rainbowctl explain all -d production -o json",
            "rainbowctl explain task-resource-attribute -p flyteexamples -d development --with limits.yaml",
            "rainbowctl explain all -p flyteexamples -d development --at 12",
            "rainbowctl explain execution nightly -p flyteexamples -d development",
        ],
    )


def _document(session: Session, scope: Scope, wanted: Kind | None, flags: Mapping[str, Any]) -> Document:
    if not flags["files"]:
        return session.client.effective_document(scope, wanted, at=flags["at"])
    if flags["at"] is not None:
        raise InvalidInput("--with is about what is to come, --at about what was: keep one of the two.")
    from ctl.commands.proposing import read
    from ctl.proposals import Proposal

    proposal = Proposal.from_documents(read(session, flags["files"]))
    try:
        return session.client.effective_with(scope, wanted, changes=proposal.changes)
    except InvalidRequest as error:
        raise proposal.locate(error) from None


def _kinds(session: Session, wanted: Kind | None, values: Sequence[Document]) -> dict[str, Kind]:
    """The kinds an answer speaks of, by name; the admin is asked again only for declared ones."""
    kinds = {kind.name: kind for kind in (*built_in(), *([wanted] if wanted else []))}
    if any(value["resource_type"] not in kinds for value in values):
        kinds |= {kind.name: kind for kind in session.client.kinds()}
    return kinds


def show_values(session: Session, scope: Scope, values: Sequence[Document], wanted: Kind | None = None) -> None:
    """What each kind resolves to at a scope, with its trail."""
    printer, kinds = session.printer, _kinds(session, wanted, values)
    for index, entry in enumerate(values):
        effective, kind = Effective.from_document(entry), kinds[entry["resource_type"]]
        if index:
            printer.line()
        printer.line(f"{kind.noun} at {scope.describe()}")
        printer.line()
        printer.table(["LEVEL", "SCOPE", "SAYS", "EFFECT"], [_step_cells(kind, step) for step in effective.trail])
        printer.line()
        rows = [
            [path, show(value), describe_origin(effective.origins.get(path, {}), scope)]
            for path, value in leaf_values(kind.schema, effective.value)
        ]
        rows += [[path, "(unset)", describe_origin(origin, scope)] for path, origin in effective.unset.items()]
        if rows:
            printer.table(["FIELD", "VALUE", "ORIGIN"], rows)
        else:
            printer.line("No value: no level says anything.")


def _step_cells(kind: Kind, step: Document) -> list[str]:
    key = f" ({step['key']})" if step.get("key") else ""
    where = Scope.from_document(step)
    place = f"configuration{key}" if step["level"] == "platform" else BEYOND.get(step["level"], where.describe())
    if step.get("state") != "set":
        return [step["level"], place, "", "silent"]
    version = f" (version {step['version']})" if step.get("version") else ""
    return [step["level"], place, summary(kind.schema, step.get("value") or {}) + version, _effect(step)]


def _effect(step: Document) -> str:
    used, overridden = step.get("used") or [], step.get("overridden") or []
    if not used and not overridden:
        return "none"
    if not overridden:
        return "used"
    if not used:
        return "overridden"
    return f"used: {', '.join(used)}; overridden: {', '.join(overridden)}"
