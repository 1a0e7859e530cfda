"""`get execution`: one by its name or a list by filters; with --watch until Ctrl-C. `get execution-event`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.lists import PAGE, choose_rows, list_options, more_note, opening, typed_choice
from ctl.cli.options import LAUNCH_PLAN_WORDS, Option, option, require_text, text_option
from ctl.cli.output import FOLDED_WIDTH
from ctl.cli.session import Session
from ctl.cli.watching import Backoff
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.executions import (
    GROUP_WORDS,
    Execution,
    parse_cause,
    parse_groups,
    parse_origin,
    parse_phase,
    parse_state,
)
from ctl.client.facts import CAUSES, ORIGINS, SORT_FIELDS
from ctl.client.scopes import describe_keys
from ctl.client.selectors import filters, find_field, parse_selector
from ctl.client.times import parse_since
from ctl.client.words import listed
from ctl.commands.executions.options import (
    EXECUTION_PARAMETERS,
    SCOPE_FORMS,
    SELECTOR,
    execution_id,
    name_argument,
    scope_options,
    selected_scope,
)
from ctl.commands.executions.tables import (
    EVENT_LISTING,
    note_pruned_events,
    print_execution,
    show_counts,
    show_events,
    show_executions,
)

_LARGEST_PAGE = 1000
#: Columns by which a line of YAML may be longer than it is folded at, for a word is never broken.
_LONG_WORD = 30
_POLL_SECONDS = 2.0
#: Formats that show which rung decided where an execution went, which costs the admin more.
_WITH_ORIGIN = ("wide", "json", "yaml")

_HELP = f"""Show executions, newest first: of a project and domain, or one by its NAME.

-p and -d select the executions of a project or domain; without them, and without a context, all are shown. Archived
ones are left out unless --state selects them.

--filter.fieldSelector takes a selector. {SELECTOR}

--watch shows changes as they happen: with NAME until the execution is finished, otherwise until Ctrl-C. --details
shows everything about one execution: the request, the job, the settings and the events.

--by counts the executions instead, the most frequent first, or the newest day: by {listed(GROUP_WORDS, "or")}, or by
up to three of them: project,cluster. Days are those of the creation, the start or the end, in UTC. NEXT ATTEMPT is
when the first of those in back-off may start again, or of those about which clusters are asked is decided or asked
about again; CPU, MEMORY and GPU are what they request together. WAITING are those that wait for their start, and how
long the first and the median of them have: --phase QUEUED --by pool,user tells who waits longest. -o wide adds how
many have started, and how long those had waited, how many ran and for how long, and the CPU and GPU hours they had.

What still runs counts in duration>1h and the like, and when sorted by duration, with the time until now. Times are
shown as how long ago; -o wide shows them in UTC.
"""


#: Flags that choose among many.
_LIST_FILTERS: Sequence[click.Parameter] = [
    text_option("phase", metavar="PHASE[,PHASE]", help="In one of these phases."),
    text_option("reason", metavar="CODE", help="With this reason, such as CLUSTERS_FULL."),
    text_option("cause", metavar="CAUSE[,CAUSE]", help=f"Ended by one of these: {listed(CAUSES, 'or')}."),
    text_option("cluster", metavar="NAME", help="On this cluster.", noun="cluster"),
    text_option("pool", metavar="NAME", help="Placed by this pool.", noun="pool"),
    text_option("label", metavar="NAME", help="Placed by this execution cluster label.", noun="label"),
    Option(["-w", "--workflow"], metavar="NAME", callback=require_text, help="Of this workflow."),
    text_option(*LAUNCH_PLAN_WORDS, parameter="launch_plan", metavar="NAME", help="Of this launch plan."),
    text_option("version", metavar="VERSION", help="Of this version."),
    text_option("origin", metavar="RUNG[,RUNG]", help=f"Placed by one of these: {listed(ORIGINS, 'or')}."),
    text_option(
        "originScope", parameter="origin_scope", metavar="SCOPE", help=f"Placed by what this scope says: {SCOPE_FORMS}."
    ),
    text_option(
        "limitScope", parameter="limit_scope", metavar="SCOPE", help="Ended by a limit that this scope sets; also job."
    ),
    text_option(
        "createdBy", parameter="created_by", metavar="NAME", help="Created by this caller, verified or claimed."
    ),
    text_option("state", metavar="STATE", help="ACTIVE, the default, ARCHIVED, or ALL."),
    text_option("since", metavar="TIME", help="Created since then: 24h, 7d, 2026-03-01, 2026-03-01T12:00."),
    *list_options(SORT_FIELDS, selector="See above.", limit=PAGE),
]


@command(
    help=_HELP,
    params=[
        name_argument(required=False, metavar="[NAME]"),
        *scope_options(),
        *_LIST_FILTERS,
        text_option("by", metavar="GROUP", help="Count them by this instead, or by several: A,B. See above."),
        Option(["--details"], is_flag=True, help="Everything about one execution."),
        Option(["--watch"], is_flag=True, help="Show it again whenever it changes."),
        option("nodeID", metavar="ID", hidden=True),
    ],
    examples=[
        "rainbowctl get execution -p flytesnacks -d development",
        "rainbowctl get executions --allProjects --phase QUEUED --reason CLUSTERS_FULL",
        'rainbowctl get execution -p flytesnacks --filter.fieldSelector "phase=QUEUED,cluster in (a;b)"',
        "rainbowctl get execution nightly -p flytesnacks -d development --details",
        "rainbowctl get execution nightly -p flytesnacks -d development --watch",
        "rainbowctl get execution -p flytesnacks --since 1h -o name",
        "rainbowctl get execution -A --cause limit,cluster-lost --selector 'attempt>1' -o wide",
        "rainbowctl get execution -A --phase QUEUED --by reason",
        "rainbowctl get execution -A --phase QUEUED --by pool,user",
        "rainbowctl get execution -A --origin request,launch-plan --since 1h -o wide",
        "rainbowctl get execution -p flytesnacks --since 24h --by cause -o json",
        "rainbowctl get execution -A --since 7d --originScope -/production --by labels.team",
        "rainbowctl get execution -A --cause limit --by limit-scope",
    ],
)
def get_execution(session: Session, name: str | None, **flags: Any) -> None:
    if flags["node_id"] is not None:
        raise InvalidInput("--nodeID: an execution is one job, without nodes: leave it out.")
    if name is not None:
        _show_one(session, name, flags)
    elif flags["details"]:
        raise InvalidInput("--details shows one execution: give its NAME.")
    elif flags["by"]:
        _count(session, flags)
    elif flags["watch"]:
        _watch(session, flags)
    else:
        _list(session, flags)


def _show_one(session: Session, name: str, flags: Mapping[str, Any]) -> None:
    wrong = _choosing_flags(flags)
    if wrong:
        verb = "is" if len(wrong) == 1 else "are"
        raise InvalidInput(f"{name} is one execution: leave out {', '.join(wrong)}, which {verb} for lists.")
    id = execution_id(session, name)
    if flags["watch"]:
        if flags["details"]:
            raise InvalidInput("--details shows an execution once, --watch continuously: keep one of the two.")
        from ctl.commands.executions.follow import watch_execution

        watch_execution(session, id)
        return
    execution = Execution.from_document(session.client.execution(id, with_status=True))
    if flags["details"]:
        _details(session, execution)
    elif session.printer.is_table:
        _show_standing(session, execution)
    else:
        print_execution(session, execution)


def _show_standing(session: Session, execution: Execution) -> None:
    """Where one execution stands, as `explain` says it, and its row of a list."""
    from ctl.commands.executions.standing import describe_ahead, show_next, show_standing

    printer = session.printer.folded()
    if execution.document.get("status") and printer.has_headers:
        show_standing(printer, execution.document)
        show_next(printer, execution.document)
        for entry in describe_ahead(printer, execution.document):
            printer.sentence(entry, indent=" " * 10)
        printer.line()
    show_executions(session, [execution], with_place=False, is_folded=True)


def _choosing_flags(flags: Mapping[str, Any]) -> list[str]:
    """The flags that choose among many, of those that were typed."""
    names = {str(param.name): param.opts[0] for param in _LIST_FILTERS}
    names |= {"by": "--by", "all_projects": "--allProjects"}
    return [flag for key, flag in names.items() if flags[key]]


def _query(session: Session, flags: Mapping[str, Any], where: Mapping[str, str]) -> Document:
    """The filters and the order that the flags ask for, as the API takes them."""
    now = datetime.now(UTC)
    query: Document = {**where}
    for key in ("reason", "cluster", "pool", "label", "workflow", "launch_plan", "version", "created_by"):
        query[key] = flags[key]
    for key in ("origin_scope", "limit_scope"):
        query[key] = flags[key]
    if flags["phase"]:
        query["phase"] = ",".join(parse_phase(word.strip(), "--phase") for word in flags["phase"].split(","))
    if flags["cause"]:
        query["cause"] = ",".join(parse_cause(word.strip(), "--cause") for word in flags["cause"].split(","))
    if flags["origin"]:
        query["origin"] = ",".join(parse_origin(word.strip(), "--origin") for word in flags["origin"].split(","))
    if flags["state"]:
        query["state"] = parse_state(flags["state"], "--state", may_be_all=True)
    if flags["since"]:
        query["created_after"] = parse_since(flags["since"], "--since", now=now)
    if flags["selector"]:
        terms = parse_selector(flags["selector"], "--filter.fieldSelector", now=now)
        query["filters"] = filters(terms, "--filter.fieldSelector")
        if any(term.field == "state" for term in terms):
            query.setdefault("state", "ALL")
    if flags["sort_by"]:
        query["sort_by.key"] = find_field(flags["sort_by"], SORT_FIELDS, "--filter.sortBy")
    if flags["sort_by"] or flags["is_ascending"]:
        query["sort_by.direction"] = "ASCENDING" if flags["is_ascending"] else "DESCENDING"
    return query


def _find_executions(
    session: Session, flags: Mapping[str, Any], where: Mapping[str, str]
) -> tuple[list[Execution], bool, str]:
    """The executions of the page asked for, whether there are more, and if not what was pruned, in a sentence."""
    limit = flags["limit"] or PAGE
    start = ((flags["page"] or 1) - 1) * limit
    query = _query(session, flags, where)
    if session.printer.format in _WITH_ORIGIN:
        query["with_origin"] = "true"
    if session.printer.format in _WITH_ORIGIN or _asks_for_limits(flags):
        query["with_limit_scope"] = "true"  # an older admin answers it only then
    pruned = ""

    def documents() -> Iterator[Document]:
        nonlocal pruned
        for page in session.client.execution_pages(**query, limit=min(limit + 1, _LARGEST_PAGE)):
            yield from page["executions"]
            pruned = str(page.get("not_counted") or "")

    executions = [Execution.from_document(document) for document in islice(documents(), start, start + limit + 1)]
    return executions[:limit], len(executions) > limit, pruned


def _asks_for_limits(flags: Mapping[str, Any]) -> bool:
    """Whether executions are selected that a limit ended."""
    return bool(flags["limit_scope"]) or "LIMIT" in _causes(flags)


def _causes(flags: Mapping[str, Any]) -> list[str]:
    return [parse_cause(word.strip(), "--cause") for word in (flags["cause"] or "").split(",") if word.strip()]


def _list(session: Session, flags: Mapping[str, Any]) -> None:
    where = selected_scope(session, flags)
    executions, has_more, pruned = _find_executions(session, flags, where)
    if executions and session.printer.is_table:
        session.printer.note(_opening(executions, where, flags, has_more=has_more))
    _print(session, executions, where, flags)
    if session.printer.is_table:
        _note_more(session, executions, flags)
    if has_more:
        session.printer.note(more_note(flags["page"] or 1, flags["limit"] or PAGE))
    elif not executions:
        _explain_absence(session, flags, where)
    if pruned:
        session.printer.note(pruned)


def _opening(
    executions: Sequence[Execution], where: Mapping[str, str], flags: Mapping[str, Any], *, has_more: bool
) -> str:
    """How many executions a page has, and in which phases they are."""
    return opening(
        len(executions),
        "execution",
        where=f"of {describe_keys(where)}" if where else "",
        values=(str(execution.phase) for execution in executions),
        skipped=((flags["page"] or 1) - 1) * (flags["limit"] or PAGE),
        has_more=has_more,
    )


def _explain_absence(session: Session, flags: Mapping[str, Any], where: Mapping[str, str]) -> None:
    """Why a list is empty, as far as a name is the reason."""
    if not _choosing_flags(flags):
        if session.printer.is_table:
            session.printer.note_absence("No executions yet.")
        return
    is_later = (flags["page"] or 1) > 1
    if session.printer.is_table:
        session.printer.note_absence(f"There is no page {flags['page']}." if is_later else "No executions match.")
    if not is_later:
        for name in session.client.unknown_execution_names(**_query(session, flags, where)):
            session.printer.note(str(name["message"]))


def _note_more(session: Session, executions: Sequence[Execution], flags: Mapping[str, Any]) -> None:
    """What a list cannot tell, and the command that does."""
    if executions and "decisions" in _selected_by(flags):
        session.printer.note("`rainbowctl explain execution NAME` says from where to where each went, and why.")


def _selected_by(flags: Mapping[str, Any]) -> list[str]:
    """The fields that executions are selected or sorted by; the cause of what was cancelled counts as who did it."""
    selector = flags["selector"]
    terms = parse_selector(selector, "--filter.fieldSelector", now=datetime.now(UTC)) if selector else []
    causes = [value for term in terms if term.field == "cause" for value in term.values]
    is_cancelled = "CANCELLED" in (*causes, *_causes(flags))
    sorted_by = [find_field(flags["sort_by"], SORT_FIELDS, "--filter.sortBy")] if flags["sort_by"] else []
    return [*(term.field for term in terms), *sorted_by, *(["abort_principal"] if is_cancelled else [])]


def _print(
    session: Session, executions: Sequence[Execution], where: Mapping[str, str], flags: Mapping[str, Any]
) -> None:
    names = (execution.id.resource for execution in executions)
    is_done = session.printer.machine_output(names, [execution.document for execution in executions])
    if executions and not is_done:
        with_place = len(where) < 2
        show_executions(
            session,
            executions,
            with_place=with_place,
            with_origin=True,
            with_limit_scope=_asks_for_limits(flags),
            selected_by=_selected_by(flags),
        )


def _count(session: Session, flags: Mapping[str, Any]) -> None:
    """Print how many executions there are of each group."""
    meaningless = {"watch": "--watch", "sort_by": "--filter.sortBy", "is_ascending": "--filter.asc"}
    meaningless |= {"limit": "--filter.limit", "page": "--filter.page"}
    if wrong := [flag for key, flag in meaningless.items() if flags[key]]:
        raise InvalidInput(f"--by counts all executions that match: leave out {', '.join(wrong)}.")
    by = parse_groups(flags["by"], "--by")
    answer = session.client.execution_counts(by, **_query(session, flags, selected_scope(session, flags)))
    show_counts(session, answer)


def _watch(session: Session, flags: Mapping[str, Any]) -> None:
    """Print the list, and then each execution that is new or has changed."""
    where = selected_scope(session, flags)
    seen = {execution.id: execution for execution in _find_executions(session, flags, where)[0]}
    _print(session, list(seen.values()), where, flags)
    has_headers, backoff = bool(seen), Backoff(session)
    while True:
        sys.stdout.flush()
        session.sleep(_POLL_SECONDS)
        page = backoff.call(lambda: _find_executions(session, flags, where)[0])
        changed = [
            execution
            for execution in page or []
            if execution.id not in seen or seen[execution.id].document != execution.document
        ]
        seen |= {execution.id: execution for execution in changed}
        for execution in reversed(changed):
            if not session.printer.stream([execution.id.resource], [execution.document]):
                show_executions(
                    session,
                    [execution],
                    with_place=len(where) < 2,
                    with_origin=True,
                    with_limit_scope=_asks_for_limits(flags),
                    selected_by=_selected_by(flags),
                    has_headers=not has_headers,
                )
            has_headers = True


def _details(session: Session, execution: Execution) -> None:
    printer = session.printer
    events = list(session.client.execution_events(execution.id))
    explanation = session.client.explain_execution(execution.id)
    document = {"execution": execution.document, "events": events, "explanation": explanation}
    if printer.machine_output([execution.id.resource], document):
        return
    from ctl.client.formats import to_yaml
    from ctl.commands.executions.explain import show_explanation

    printer.text(to_yaml(execution.document, width=FOLDED_WIDTH - _LONG_WORD))
    printer.line()
    show_explanation(session, explanation)
    printer.line()
    show_events(session, events)
    note_pruned_events(session, events)


@command(
    help="Show what happened to an execution, oldest first: each event with its phase, cluster and reason.",
    params=[*EXECUTION_PARAMETERS, *EVENT_LISTING.options()],
    examples=[
        "rainbowctl get execution-event nightly -p flytesnacks -d development",
        "rainbowctl get execution-events flytesnacks/development/nightly -o json",
    ],
)
def get_execution_event(session: Session, name: str, **flags: Any) -> None:
    id = execution_id(session, name)
    events = list(session.client.execution_events(id))
    chosen_events = choose_rows(session, events, flags, EVENT_LISTING, "event", where=f"of execution {id}")
    names = (f"execution-event/{id}/{event.get('number', '')}" for event in chosen_events)
    if session.printer.machine_output(names, chosen_events):
        return
    note_pruned_events(session, events)
    if typed_choice(flags) and not chosen_events:
        session.printer.note("No events match.")
    else:
        show_events(session, chosen_events)
