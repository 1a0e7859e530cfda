"""`explain`: what a kind resolves to at a scope, and every step that led to it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import (
    SCOPE_PARAMETERS,
    Argument,
    Option,
    WholeNumber,
    assumed_files_option,
    at_option,
    kind_argument,
    text_option,
)
from ctl.cli.scopes import resolve_scope
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, InvalidRequest
from ctl.client.kinds import Kind
from ctl.client.nouns import DEFINED, TOKEN_POOL, find_noun
from ctl.client.scopes import Scope, check_level
from ctl.commands.attributes.explain import kinds_of, opening, show_values

_EXECUTION = ("execution", "executions")

_HELP = """Show what applies at a scope, and where it comes from, level by level. One sentence sums it up.

KIND is a noun, a name or a number, or `all`, the default. The trail runs from the platform down to the scope; levels
that set nothing are shown too. For each field the most specific level that sets it wins. Beside what a level sets
stand the revision that set it, who made that, when and why; -o wide shows the time itself. Where a row stood at the
scope and was deleted, the revision that deleted it is shown. Where no row sets a kind, also where the configuration has
a default, the nearest row of another scope is shown, with the command that sets the same at this one. A pool, label or
queue tag that executions do not follow now is marked: what outranks it, or why they are refused or wait. So is a field
that the workflow's job or the launch plan's definition says itself, a default above the limit, which they get, and a
field that agents get and no engine of Rainbow reads.

--with FILE shows what would apply if the documents in it were applied; --at shows what applied at a revision or a time,
with the platform's current configuration. A workflow or launch plan that nothing is known of is noted, with the closest
name that there is.

--reach shows which scopes below the row that is set at this scope follow it, which say otherwise, and which say the
same again: workflows and launch plans that are registered or have settings, and projects in their domains. Fields that
their jobs or definitions say themselves are marked.

explain execution NAME says how it stands now and why, and what happens next; each attempt with its native id, when it
ended and by what; the lease, and when its agent was last heard; the rule that decided, what each rung asks for, most
specific first, and the revision that set it; every candidate and why it was not chosen; the clusters that were no
candidates and why; what its job gets, and the settings that reached it. -o wide adds the rungs that say nothing, the
result of each filter, every cluster and attempt, each setting with its trail, and the times themselves; --decision
shows an earlier decision. --whyNot CLUSTER says first why it did not go to that one: not a candidate, and whether it
could run it now; or a candidate that was not chosen, and why.

explain access USER PERMISSION says whether a user may do something at the scope that -p, -d, -w and --launchplan give:
by which grant, through which groups, or which roles would allow it and who could give them. `group:NAME` in place of
USER asks for all members of a group. `get role` lists the permissions.

explain token-pool NAME says what bounds the tokens of a pool, how much of each bound is held, which one is full, and
which revision set it: where somebody holds or wants tokens, or at the scope that -p, -d, -w and --launchplan give.
"""


@command(
    help=_HELP,
    params=[
        kind_argument(
            "[KIND|all|execution|access|token-pool]",
            "Noun, name or number, or execution, access or token-pool; all without one.",
        ),
        *SCOPE_PARAMETERS,
        Argument("permission", required=False, metavar="[PERMISSION]", explanation="With access: what is to be done."),
        assumed_files_option(),
        at_option("As of this revision."),
        Option(["--reach"], is_flag=True, help="Show which scopes below follow what is set at this one."),
        Option(["--all", "everything"], is_flag=True, help="With --reach: every scope, not only the first 1000."),
        Option(["--decision"], metavar="N", type=WholeNumber(min=1), help="With execution: an earlier decision."),
        text_option(
            "whyNot", metavar="CLUSTER", help="With execution: say why it did not go to this cluster.", noun="cluster"
        ),
    ],
    examples=[
        "rainbowctl explain execution-cluster-label -p flyteexamples -d development",
        "rainbowctl explain task-resource-attribute -p flyteexamples -d development my.workflow",
        "rainbowctl explain all -d production -o json",
        "rainbowctl explain task-resource-attribute -p flyteexamples -d development --with limits.yaml",
        "rainbowctl explain all -p flyteexamples -d development --at 12",
        "rainbowctl explain all -p flyteexamples -d development --at 2026-03-01T12:00",
        "rainbowctl explain task-resource-attribute -d production --reach",
        "rainbowctl explain execution nightly -p flyteexamples -d development",
        "rainbowctl explain execution nightly -p flyteexamples -d development --whyNot east",
        "rainbowctl explain access ada attributes.write -p flyteexamples -d development",
        "rainbowctl explain token-pool hive",
    ],
)
def explain(session: Session, kind: str | None, **flags: Any) -> None:
    session.fold()
    if flags["everything"] and not flags["reach"]:
        raise InvalidInput("--all goes with --reach: leave it out.")
    for key, flag in (("decision", "--decision"), ("why_not", "--whyNot")):
        if flags[key] is not None and kind not in _EXECUTION:
            raise InvalidInput(f"{flag} goes with `rainbowctl explain execution NAME`: leave it out.")
    if kind == "access":
        from ctl.commands.access.access import explain_access

        explain_access(session, flags)
        return
    if flags["permission"] is not None:
        word = flags["permission"]
        raise InvalidInput(f"{word} is one word too many: a permission goes with `rainbowctl explain access USER`.")
    if kind in _EXECUTION:
        from ctl.commands.executions.explain import explain_execution

        explain_execution(session, flags)
        return
    noun = find_noun(kind or "", DEFINED)
    if noun == TOKEN_POOL:
        from ctl.commands.fleet.token_pools import explain_token_pool

        explain_token_pool(session, flags)
        return
    if noun is not None:
        raise InvalidInput(
            f"explain is of settings, executions, access and token pools: `rainbowctl get {noun} NAME` says how a "
            f"{noun} stands and why, `rainbowctl explain execution NAME` why an execution is where it is."
        )
    scope = resolve_scope(session, flags)
    chosen = None if kind is None or kind == "all" else _kind(session, kind, scope)
    if flags["reach"]:
        _show_reach(session, scope, chosen, flags)
        return
    document = _document(session, scope, chosen, flags)
    if not session.printer.machine_output(_names(session, scope, chosen, document["values"]), document):
        for unknown in document.get("unknown_names") or []:
            session.printer.note(str(unknown["message"]))
        session.printer.sentence(opening(session, scope, chosen, document, is_assumed=bool(flags["files"])))
        session.printer.line()
        show_values(
            session,
            scope,
            document["values"],
            chosen,
            revisions=document.get("revisions"),
            nearest=document.get("nearest"),
            consequences=document.get("consequences"),
            field_effects=document.get("field_effects"),
            deleted_by=document.get("deleted_by"),
        )


def _kind(session: Session, word: str, scope: Scope) -> Kind:
    try:
        return session.client.kind(word)
    except InvalidInput as error:
        if scope.workflow or not scope.domain or not scope.project:
            raise
        name, options = shlex.quote(word), f"-p {scope.project} -d {scope.domain}"
        raise InvalidInput(
            f"{error} Of a workflow: `rainbowctl explain all {name} {options}`; of an execution: "
            f"`rainbowctl explain execution {name} {options}`."
        ) from None


def _show_reach(session: Session, scope: Scope, kind: Kind | None, flags: Mapping[str, Any]) -> None:
    from ctl.commands.attributes.reach import show_reach

    if kind is None:
        raise InvalidInput("Whose reach? Name one kind: rows of each kind have their own.")
    if flags["files"] or flags["at"] is not None:
        raise InvalidInput("--reach shows what follows a row now: leave out --with and --at.")
    check_level(scope, kind.noun, kind.levels)
    show_reach(session, kind, scope, everything=flags["everything"])


def _names(session: Session, scope: Scope, chosen: Kind | None, values: Sequence[Document]) -> Iterator[str]:
    kinds = kinds_of(session, chosen, values)
    for value in values:
        yield scope.name(kinds[value["resource_type"]].noun)


def _document(session: Session, scope: Scope, kind: Kind | None, flags: Mapping[str, Any]) -> Document:
    if not flags["files"]:
        is_now = flags["at"] is None
        return session.client.effective_document(scope, kind, at=flags["at"], provenance=True, nearest=is_now)
    if flags["at"] is not None:
        raise InvalidInput("--with assumes changes, --at shows the past: keep one of the two.")
    from ctl.commands.changes.documents import read, stale_documents
    from ctl.commands.changes.reports import tell_warnings
    from ctl.files.proposals import Proposal

    proposal = Proposal.from_documents(read(session, flags["files"]))
    try:
        document = session.client.effective_with(scope, kind, changes=proposal.changes)
    except InvalidRequest as error:
        raise proposal.locate(error) from None
    if warnings := stale_documents(session, proposal):
        document["warnings"] = warnings
        tell_warnings(session, warnings)
    return document
