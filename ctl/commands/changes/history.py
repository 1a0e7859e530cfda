"""`history`: who changed what, when and why, and what happened to the fleet in between."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from ctl.cli.diffs import one_line
from ctl.cli.groups import command
from ctl.cli.lists import Chosen, Listing, choose_page, request_size, typed_choice
from ctl.cli.options import SCOPE_PARAMETERS, Option, kind_argument
from ctl.cli.output import Printer, Sentence, Time
from ctl.cli.provenance import describe_given_up, describe_provenance, describe_rollback, show_author
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session
from ctl.cli.windows import named_by_flags
from ctl.client.answers import Document, RowChange
from ctl.client.calls.registrations import Identifier
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.executions import ExecutionId
from ctl.client.facts import CAUSES, FINISHED_PHASES, PHASES, TIMELINE_TYPES
from ctl.client.nouns import DEFINED, NAMED, find_noun, row_kind
from ctl.client.times import distance, is_earlier, parse_since, parse_time
from ctl.client.words import count, listed
from ctl.commands.changes.reports import show_rows

#: The kinds of entries of the timeline.
_SOURCES = ("revision", "cluster-event", "redecision", "pruning", "registration", "execution", "creation")

#: The type of the registration of a workflow; the others are about launch plans.
_WORKFLOW_REGISTERED = "WORKFLOW_REGISTERED"
#: What happened to a launch plan, by type; any other type is that of its registration.
_ACTIVATIONS = {"LAUNCH_PLAN_ACTIVATED": "activated", "LAUNCH_PLAN_DEACTIVATED": "deactivated"}

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
        "source": _SOURCES,
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
            type=click.Choice(_SOURCES),
            metavar="|".join(_SOURCES),
            help="Only entries of this kind.",
        ),
        Option(["--executions"], is_flag=True, help="Ends of executions too; --source execution shows these alone."),
        Option(["--creations"], is_flag=True, help="Creations of executions too; --source creation shows these alone."),
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
        chosen = choose_page(session, _find_entries(session, word, flags, pruned), flags, _LISTING)
        entries = list(chosen.rows)
        is_newest_first = not flags["sort_by"] and not flags["is_ascending"]
        _show_entries(session, entries, _place(chosen, len(entries), is_newest_first), is_newest_first=is_newest_first)
        if not entries and flags["author"]:
            for unknown in session.client.unknown_timeline_names(actor=flags["author"], **_execution_filters(flags)):
                session.printer.note(str(unknown["message"]))
        for sentence in pruned:
            session.printer.note(sentence)


def _refuse_filters(session: Session, number: str, flags: Mapping[str, Any]) -> None:
    is_filtered = any(
        flags[key] for key in ("author", "since", "until", "is_all", "cluster", "source", "executions", "creations")
    )
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
    selected |= _execution_filters(flags)
    pages = session.client.timeline_pages(**filters, **{name: value for name, value in selected.items() if value})
    return _read_entries(pages, pruned)


def _execution_filters(flags: Mapping[str, Any]) -> dict[str, str]:
    """Whether ends and creations of executions are asked for; where these alone are, as if they were beside others."""
    asked = {"executions": "execution", "creations": "creation"}
    return {name: "true" for name, source in asked.items() if flags[name] or flags["source"] == source}


def _read_entries(pages: Iterator[Document], pruned: list[str]) -> Iterator[Document]:
    with named_by_flags():
        for page in pages:
            yield from page["entries"]
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
        session.printer.note(_summary(session, entries, place, is_newest_first=is_newest_first))
    lines = [line for entry in entries for line in _lines(session, entry)]
    session.printer.show(
        (_name(entry) for entry in entries),
        lines,
        entries,
        {
            "REVISION": "revision",
            "WHEN": Time(_time),
            "WHO": "who",
            "WHAT": "what",
            "WHY": Sentence("message", is_past=True),
        },
        {"REQUEST": "request_id"},
        empty="Nothing matches.",
    )


#: What entries of each kind are called in a sentence: one, and several.
_NAMES = {
    "revision": ("revision", "revisions"),
    "cluster-event": ("event of clusters", "events of clusters"),
    "redecision": ("round of new decisions", "rounds of new decisions"),
    "pruning": ("round of pruning", "rounds of pruning"),
    "registration": ("registration", "registrations"),
    "execution": ("end of an execution", "ends of executions"),
    "creation": ("creation of an execution", "creations of executions"),
}


def _summary(session: Session, entries: list[Document], place: str, *, is_newest_first: bool) -> str:
    """How many entries of each kind are shown, since when, and which of all that match they are."""
    counts = Counter(str(entry["source"]) for entry in entries)
    parts = [f"{number} {_NAMES[source][number != 1]}" for source in _SOURCES if (number := counts[source])]
    oldest = min(time for entry in entries if (time := _time(entry)))
    order = ", newest first" if is_newest_first else ""
    return f"{place}{listed(parts)}, the oldest {session.printer.when(oldest)}{order}."


def _lines(session: Session, entry: Document) -> Iterator[Document]:
    """The lines of an entry in a table: of a revision one for each row that is shown."""
    first, *more = _what(session, entry)
    yield {**entry, "who": show_author(entry), "what": first}
    for text in more:
        yield {"revision": entry["revision"], "what": text}


def _name(entry: Document) -> str:
    """An entry as `-o name` prints it; what was registered as `get` does."""
    if entry["source"] == "registration":
        word = "workflow" if entry["type"] == _WORKFLOW_REGISTERED else "launchplan"
        return "/".join([word, *Identifier.from_document(entry["id"]).document().values()])
    if entry["source"] in ("execution", "creation"):
        return ExecutionId.from_document(entry["execution"]).resource
    return f"{entry['source']}/{entry['revision'] if entry['source'] == 'revision' else entry['number']}"


def _what(session: Session, entry: Document) -> list[str]:
    """What happened: of a revision each row with its values, old and new, or how many more there are."""
    if entry["source"] == "registration":
        id = Identifier.from_document(entry["id"])
        noun = "workflow" if entry["type"] == _WORKFLOW_REGISTERED else "launch plan"
        of = f" of workflow {entry['workflow']}" if entry.get("workflow") else ""
        happened = _ACTIVATIONS.get(str(entry["type"]), "registered")
        by = f", replaced by {entry['replaced_by']}" if entry.get("replaced_by") else ""
        return [f"{happened} {noun} {id.project}/{id.domain}/{id.name} version {id.version}{of}{by}"]
    if entry["source"] == "execution":
        return [_end(entry)]
    if entry["source"] == "creation":
        return [f"{str(entry['type']).lower()} execution {ExecutionId.from_document(entry['execution'])}"]
    if entry["source"] != "revision":
        happened = str(entry["type"]).lower().replace("_", " ")
        happened += _drain(session.printer, entry)
        where = f"cluster {entry['cluster']}: " if entry.get("cluster") else ""
        return [f"{where}{happened} (event {entry['number']})"]
    rows = [RowChange.from_document(change) for change in entry.get("changes") or []]
    lines = [_row(session, row) for row in rows]
    rest = int(entry.get("change_count") or 0) - len(rows)
    lines += [f"and {count(rest, 'more row')}" if rows else count(rest, "row")] if rest else []
    start, *others = lines or ["nothing"]
    return [f"{_rolled_back(entry)}{start}", *others]


def _end(entry: Document) -> str:
    """The end of an execution: `execution p/d/fit: FAILED on east (LIMIT, OUT_OF_MEMORY, exit 1)`."""
    where = f" on {entry['cluster']}" if entry.get("cluster") else ""
    code = entry.get("exit_code")
    # The phase says the reason of most ends.
    reason = entry.get("reason") if entry.get("reason") != entry["type"] else None
    causes = [entry.get("cause"), reason, f"exit {code}" if code else None]
    why = ", ".join(cause for cause in causes if cause)
    what = f"{entry['type']}{where}{f' ({why})' if why else ''}{describe_given_up(entry)}"
    return f"execution {ExecutionId.from_document(entry['execution'])}: {what}"


def _drain(printer: Printer, event: Document) -> str:
    """The deadline of a drain, and what ended it; empty for any other event."""
    deadline, ended_by = event.get("deadline"), event.get("ended_by")
    words = ""
    if deadline:
        is_ahead = distance(deadline).startswith("in ")
        is_ended_before = ended_by is not None and is_earlier(ended_by["at"], deadline)
        # What runs at a silent cluster has not ended at the deadline.
        verb = "deadline" if is_ended_before else "ends what runs" if is_ahead else "its deadline passed"
        words = f", {verb} {printer.when(deadline, is_ahead=True)}"
    return f"{words}; ended by {describe_provenance(printer, ended_by)}" if ended_by else words


def _row(session: Session, row: RowChange) -> str:
    """What happened to a row, with its values if it has any."""
    values = one_line(row.before, row.after)
    happened = f"{row.action} {row.title(session.client.noun(row.kind))}"
    return f"{happened}: {values}" if values else happened


def _rolled_back(revision: Document) -> str:
    """What a rollback rolled back; empty for any other revision."""
    rollback = describe_rollback(revision, "revision ")
    return f"{rollback}: " if rollback else ""


def _time(entry: Document) -> str | None:
    return entry.get("created_at") or entry.get("at")


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
    made_by = {**revision, "revision": revision["number"], "at": _time(revision)}
    changed = f"{count(len(changes), 'row')} {'was' if len(changes) == 1 else 'were'} changed"
    printer.sentence(f"{changed} by {describe_provenance(printer, made_by)}.")
    printer.line(f"revision {revision['number']}")
    printer.line(f"when  {printer.when(_time(revision))}")
    printer.line(f"who   {show_author(revision)}")
    if revision.get("message"):
        printer.sentence(f"why   {revision['message']}", indent=" " * 6)
    printer.line(f"what  {_rolled_back(revision)}{count(len(changes), 'row')}")
    for rollback in revision.get("rolled_back_by") or []:
        printer.sentence(f"then  rolled back by {describe_provenance(printer, rollback)}", indent=" " * 6)
    printer.line()
    show_rows(session, changes, with_diffs=True)
