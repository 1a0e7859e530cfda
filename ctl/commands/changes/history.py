"""`history`: who changed what, when and why, and what happened to the fleet in between."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.lists import Chosen, Listing, choose_page, request_size, typed_choice
from ctl.cli.options import SCOPE_PARAMETERS, Option, kind_argument
from ctl.cli.output import Columns, Sentence, Time
from ctl.cli.provenance import describe_provenance, show_author
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session
from ctl.cli.windows import WINDOW, named_by_flags
from ctl.client.answers import Document, RowChange
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.facts import CAUSES, FINISHED_PHASES, PHASES, TIMELINE_TYPES
from ctl.client.nouns import DEFINED, NAMED, find_noun, row_kind
from ctl.client.times import parse_since, parse_time
from ctl.client.words import count, listed
from ctl.commands.changes.entries import (
    SOURCES,
    counted,
    group_lines,
    joined_groups,
    lines_of,
    name_of,
    rolled_back,
    time_of,
)
from ctl.commands.changes.reports import show_rows

_LARGEST_PAGE = 1000
_FIELDS = (
    *("number", "created_at", "at", "source", "revision", "cluster", "type", "author", "claimed_by", "message"),
    *("request_id", "change_count", "reason", "cause", "exit_code"),
)
_LISTING = Listing(
    fields={
        **{name: name for name in _FIELDS},
        "phase": lambda entry: entry["type"] if entry["source"] == "execution" else None,
    },
    words={
        "source": SOURCES,
        "type": TIMELINE_TYPES,
        "phase": [phase for phase in PHASES if phase in FINISHED_PHASES],
        "cause": CAUSES,
    },
    order="at",
    limit=20,
)

_HELP = """Show revisions and what happened in between, newest first: who changed what, when and why. With REVISION,
show the differences of one; with FROM..TO, the net difference between two, in either order. Revision 0 is before the
first.

A revision is one change of one or more rows, and is never edited. Its first rows are shown with their values, old and
new; a rollback says which revision it undid, or went back to, and `history REVISION` which later ones rolled it back.
-p, -d, WORKFLOW and --launchplan select the revisions that changed a row with that key: -p X selects everything at and
below project X. NOUN selects one kind, or `project`, `cluster`, `pool` or `label`; these last three with a NAME the
changes of that one. Times are UTC.

Between the revisions stand the registrations of workflows and launch plans, who activated or deactivated a launch plan,
and what happened to clusters: who cordoned or drained one, when an agent joined, fell silent or came back; and each
round in which waiting executions were decided again, or retention deleted what was over, with its cause and counts.
--source shows one kind of entries. --cluster shows one cluster's part: what happened to it, rounds that moved
executions from or to it, and changes of its definition or of the members of pools and labels that had or have it. What
happens to clusters belongs to no scope and to no other noun.

Ends of executions, which may be many, are shown with --executions, or alone with --source execution: each with its
phase, cluster and cause. -p, -d, WORKFLOW, --launchplan and --cluster select them too; --author those that somebody
ended. Creations are shown with --creations, or alone with --source creation; relaunches and recoveries are said to be
such. `--author WHO --executions --creations` is all that somebody did.

--by request shows together what one command did, such as the registrations of `register files` or the events of `cordon
a b`, and --request ID all of one. Programs join their requests by the same X-Request-Id. Executions, and what happened
before this was recorded, have none.

The author is anonymous while the admin does not know its users; the name that the caller gave is shown beside it.
"""


@command(
    help=_HELP,
    params=[
        kind_argument("[REVISION|FROM..TO|NOUN]", "Number of a revision, two numbers, or a kind.", parameter="word"),
        *SCOPE_PARAMETERS,
        Option(["--author"], metavar="WHO", help="By this author, verified or claimed."),
        Option(["--since"], metavar="TIME", help="Made since then: 24h, 7d, 2026-03-01, 2026-03-01T12:00."),
        Option(["--until"], metavar="TIME", help="Made until then; a day is included."),
        Option(
            ["--all", "is_all"],
            is_flag=True,
            help="Everything, which is the default.",
        ),
        Option(
            ["--source"],
            type=click.Choice(SOURCES),
            metavar="|".join(SOURCES),
            help="Only entries of this kind.",
        ),
        Option(["--executions"], is_flag=True, help="Ends of executions too; --source execution shows these alone."),
        Option(["--creations"], is_flag=True, help="Creations of executions too; --source creation shows these alone."),
        Option(["--by"], type=click.Choice(["request"]), help="Show what each request or command did, together."),
        Option(["--request"], metavar="ID", help="All that one request or command did; -o wide shows the ids."),
        Option(["--cluster"], metavar="NAME", help="What was changed of this cluster, happened to it or moved there."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl history",
        "rainbowctl history 12",
        "rainbowctl history 9..12",
        "rainbowctl history task-resource-attribute -p flyteexamples --since 24h",
        "rainbowctl history --author ann --filter.limit 100 -o json",
        "rainbowctl history --since 2h",
        "rainbowctl history pool gpu",
        "rainbowctl history --cluster east",
        "rainbowctl history --source redecision --since 24h",
        "rainbowctl history --source registration -p flytesnacks -d development",
        "rainbowctl history --source execution --cluster east --since 2h",
        "rainbowctl history --executions -p flytesnacks --since 2h",
        "rainbowctl history --author ann --executions --creations --since 7d",
        "rainbowctl history --by request --since 24h",
    ],
)
def history(session: Session, word: str | None, **flags: Any) -> None:
    if word is not None and word.isdecimal():
        _refuse_filters(session, word, flags)
        _show_one(session, session.client.revision(int(word)))
    elif word is not None and (between := re.fullmatch(r"([0-9]{1,18})\.\.([0-9]{1,18})", word)):
        _refuse_filters(session, word, flags)
        _show_difference(session, int(between[1]), int(between[2]))
    else:
        pruned: list[str] = []
        if flags["by"]:
            _refuse_order(flags)
        chosen = choose_page(session, _find_entries(session, word, flags, pruned), flags, _LISTING)
        entries = list(chosen.rows)
        is_newest_first = not flags["sort_by"] and not flags["is_ascending"]
        place = _place(chosen, len(entries), is_newest_first)
        if flags["by"]:
            _show_groups(session, entries, place)
        else:
            _show_entries(session, entries, place, is_newest_first=is_newest_first)
        named = {key: flags[flag] for key, flag in _NAMED_BY.items() if flags[flag]}
        if not entries and named:
            for unknown in session.client.unknown_timeline_names(**named, **_execution_filters(flags)):
                session.printer.note(str(unknown["message"]))
        for sentence in pruned:
            session.printer.note(sentence)


#: The flags that select among entries, beside scopes.
_FILTERS = ("author", "since", "until", "is_all", "cluster", "source", "executions", "creations", "by", "request")
#: Conditions whose names may be unknown, by their flags.
_NAMED_BY = {"actor": "author", "request_id": "request"}


def _refuse_order(flags: Mapping[str, Any]) -> None:
    """Requests are shown newest first, and have no fields of their own to select by."""
    if flags["selector"] or flags["sort_by"] or flags["is_ascending"]:
        raise InvalidInput(
            "--by request shows the newest first, with all that they did: leave out --filter.fieldSelector, "
            "--filter.sortBy and --filter.asc. --source, --since, --author and scopes select."
        )


def _refuse_filters(session: Session, number: str, flags: Mapping[str, Any]) -> None:
    is_filtered = any(flags[key] for key in _FILTERS)
    if is_filtered or typed_choice(flags) or scope_filters(session, flags):
        meaning = "the difference of two revisions" if ".." in number else "one revision"
        raise InvalidInput(f"{number} is {meaning}: leave out the filters.")


def _filters(session: Session, noun: str | None, flags: Mapping[str, Any]) -> Document:
    """What the flags select, but for the author."""
    now = datetime.now(UTC)
    defined = find_noun(noun, DEFINED) if noun is not None else None
    name = flags["workflow"] if defined in NAMED else None  # the second word
    scope = scope_filters(session, {**flags, "workflow": None} if name else flags)
    filters: Document = {**scope, "limit": request_size(flags, _LISTING, _LARGEST_PAGE)}
    if noun is not None and noun != "all":
        filters["resource_type"] = row_kind(defined) if defined else _kind_name(session, noun, scope)
    if defined and name:
        _check_definition(session, defined, name)
        filters |= {"name": name}
    if flags["since"]:
        filters["after"] = parse_since(flags["since"], "--since", now=now)
    if flags["until"]:
        filters["before"] = parse_time(flags["until"], "--until", now=now, is_end=True)
    return filters


def _kind_name(session: Session, noun: str, scope: Mapping[str, str]) -> str:
    try:
        return session.client.kind(noun).name
    except InvalidInput as error:
        if "project" in scope and "workflow" not in scope:
            raise InvalidInput(f"{error.message} If it is a workflow, write -w {noun}.") from error
        raise


def _find_entries(
    session: Session, noun: str | None, flags: Mapping[str, Any], pruned: list[str]
) -> Iterator[Document]:
    """The entries of the timeline; once all of them are read, `pruned` says what is missing after the last."""
    filters = _filters(session, noun, flags)
    if flags["cluster"]:
        _check_definition(session, "cluster", flags["cluster"])
    selected = {"actor": flags["author"], "cluster": flags["cluster"], "source": flags["source"]}
    selected |= {"request_id": flags["request"], "by": flags["by"]}
    selected |= _execution_filters(flags)
    pages = session.client.timeline_pages(**filters, **{name: value for name, value in selected.items() if value})
    entries = _read_entries(pages, pruned, "groups" if flags["by"] else "entries")
    return joined_groups(entries) if flags["by"] else (entry for page in entries for entry in page)


def _execution_filters(flags: Mapping[str, Any]) -> dict[str, str]:
    """Whether ends and creations of executions are asked for; where these alone are, as if they were beside others."""
    asked = {"executions": "execution", "creations": "creation"}
    return {name: "true" for name, source in asked.items() if flags[name] or flags["source"] == source}


def _read_entries(pages: Iterator[Document], pruned: list[str], key: str) -> Iterator[list[Document]]:
    with named_by_flags({**WINDOW, "request_id": "--request", "by": "--by"}):
        for page in pages:
            yield page[key]
            if page.get("not_listed"):
                pruned.append(str(page["not_listed"]))


def _check_definition(session: Session, noun: str, name: str) -> None:
    """Refuse a name that no cluster, pool or label has or had: a misspelt one is not taken for one without changes."""
    try:
        session.client.definition(noun, name)
    except NotFound as error:
        if not any(detail.get("provenance") for detail in error.details):  # by which it was deleted
            raise


def _place(chosen: Chosen[Document], number: int, is_newest_first: bool) -> str:
    """Which of the entries that match are shown: `The newest 20 of more: `; empty where that are all."""
    if chosen.skipped:
        more = "of more" if chosen.has_more else "which are the last"
        return f"{chosen.skipped + 1} to {chosen.skipped + number}, {more}: "
    return f"The {'newest' if is_newest_first else 'first'} {number} of more: " if chosen.has_more else ""


def _show_entries(session: Session, entries: list[Document], place: str, *, is_newest_first: bool) -> None:
    if entries and session.printer.is_table:
        session.printer.note(_summary(session, entries, place, order=", newest first" if is_newest_first else ""))
    lines = [line for entry in entries for line in lines_of(session, entry)]
    names = (name_of(entry) for entry in entries)
    session.printer.show(names, lines, entries, _COLUMNS, _REQUEST, empty=_NOTHING)


def _show_groups(session: Session, groups: list[Document], place: str) -> None:
    """What each request or command did."""
    entries = [entry for group in groups for entry in group["entries"]]
    if groups and session.printer.is_table:
        session.printer.note(_summary(session, entries, place, order=", newest first, by request"))
    lines = [line for group in groups for line in group_lines(session, group)]
    names = (name_of(entry) for entry in entries)
    session.printer.show(names, lines, groups, {**_COLUMNS, **_REQUEST}, empty=_NOTHING)


_COLUMNS: Columns = {
    "REVISION": "revision",
    "WHEN": Time(time_of),
    "WHO": "who",
    "WHAT": "what",
    "WHY": Sentence("message", is_past=True),
}
_REQUEST: Columns = {"REQUEST": "request_id"}
_NOTHING = "Nothing matches."


def _summary(session: Session, entries: list[Document], place: str, *, order: str) -> str:
    """How many entries of each kind are shown, since when, and which of all that match they are."""
    counts = Counter(str(entry["source"]) for entry in entries)
    oldest = min(time for entry in entries if (time := time_of(entry)))
    return f"{place}{listed(counted(counts))}, the oldest {session.printer.when(oldest)}{order}."


def _show_difference(session: Session, start: int, end: int) -> None:
    session.fold()
    rows = session.client.revision_diff(start, end)
    if not session.printer.is_table:
        session.printer.document(rows)
    elif rows:
        differ = "differs" if len(rows) == 1 else "differ"
        session.printer.note(f"{count(len(rows), 'row')} {differ} between revisions {start} and {end}.")
        show_rows(session, [RowChange.from_document(row) for row in rows], with_diffs=True)
    else:
        session.printer.note_absence(f"Nothing differs between revisions {start} and {end}.")


def _show_one(session: Session, revision: Document) -> None:
    session.fold()
    printer = session.printer
    if printer.machine_output([f"revision/{revision['number']}"], revision):
        return
    changes = [RowChange.from_document(change) for change in revision["changes"]]
    made_by = {**revision, "revision": revision["number"], "at": time_of(revision)}
    changed = f"{count(len(changes), 'row')} {'was' if len(changes) == 1 else 'were'} changed"
    printer.sentence(f"{changed} by {describe_provenance(printer, made_by)}.")
    printer.line(f"revision {revision['number']}")
    printer.line(f"when  {printer.when(time_of(revision))}")
    printer.line(f"who   {show_author(revision)}")
    if revision.get("message"):
        printer.sentence(f"why   {revision['message']}", indent=" " * 6)
    if revision.get("request_id"):
        printer.line(f"by    request {revision['request_id']}")
    printer.line(f"what  {rolled_back(revision)}{count(len(changes), 'row')}")
    for rollback in revision.get("rolled_back_by") or []:
        printer.sentence(f"then  rolled back by {describe_provenance(printer, rollback)}", indent=" " * 6)
    printer.line()
    show_rows(session, changes, with_diffs=True)
