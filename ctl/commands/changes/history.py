"""`history`: who changed what, when and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from heapq import merge
from typing import Any

import click

from ctl.cli.diffs import one_line
from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose, request_size, typed_choice
from ctl.cli.options import SCOPE_PARAMETERS, Option, kind_argument
from ctl.cli.output import Time
from ctl.cli.provenance import show_author
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session
from ctl.client.answers import Document, RowChange
from ctl.client.errors import InvalidInput
from ctl.client.nouns import DEFINED, find_noun, row_kind
from ctl.client.times import parse_time
from ctl.client.words import count
from ctl.commands.changes.reports import show_rows

#: The kinds of entries of the timeline.
_SOURCES = ("revision", "cluster-event", "redecision", "pruning")

#: Up to how many revisions of one row the row is looked up for the table; that is a request each.
_MOST_LOOKUPS = 50
_LARGEST_PAGE = 1000
_FIELDS = ("number", "created_at", "author", "claimed_by", "message", "request_id", "change_count")
_LISTING = Listing(fields={name: name for name in _FIELDS}, order="number", limit=20)
_ENTRY_FIELDS = ("at", "source", "revision", "cluster", "type", "author", "claimed_by", "message", "change_count")
_TIMELINE = Listing(fields={name: name for name in _ENTRY_FIELDS}, order="at", limit=20)

_HELP = """Show revisions, newest first: who changed what, when and why. With REVISION, show the differences of one;
with FROM..TO, the net difference between two, in either order. Revision 0 is before the first.

A revision is one change of one or more rows, and is never edited. -p, -d, WORKFLOW and --launchplan select the
revisions that changed a row with that key: -p X selects everything at and below project X. NOUN selects one kind, or
`project`, `cluster`, `pool` or `label`. Times are UTC.

The author is anonymous while the admin does not know its users; the name that the caller gave is shown beside it.

--all shows what happened to clusters between the revisions: who cordoned or drained one, when an agent joined, fell
silent or came back; and each round in which waiting executions were decided again, or retention deleted what was over,
with counts. --cluster shows one cluster's part of that, --source one kind of entries. A revision of one row shows its
values, old and new; a rollback says which revision it undid, or went back to.
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
            help="Also events of clusters, new decisions and pruning.",
        ),
        Option(
            ["--source"],
            type=click.Choice(_SOURCES),
            metavar="|".join(_SOURCES),
            help="Only these, of all that --all shows.",
        ),
        Option(["--cluster"], metavar="NAME", help="What was changed of this cluster, and what happened to it."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl history",
        "rainbowctl history 12",
        "rainbowctl history 9..12",
        "rainbowctl history task-resource-attribute -p flyteexamples --since 24h",
        "rainbowctl history --author ann --filter.limit 100 -o json",
        "rainbowctl history --all --since 2h",
        "rainbowctl history --cluster east",
        "rainbowctl history --source redecision --since 24h",
    ],
)
def history(session: Session, word: str | None, **flags: Any) -> None:
    if word is not None and word.isdecimal():
        _refuse_filters(session, word, flags)
        _show_one(session, session.client.revision(int(word)))
    elif word is not None and (between := re.fullmatch(r"([0-9]{1,18})\.\.([0-9]{1,18})", word)):
        _refuse_filters(session, word, flags)
        _show_difference(session, int(between[1]), int(between[2]))
    elif flags["is_all"] or flags["cluster"] or flags["source"]:
        _show_timeline(session, list(choose(session, _find_entries(session, word, flags), flags, _TIMELINE)))
    else:
        _show_list(session, list(choose(session, _find_revisions(session, word, flags), flags, _LISTING)))


def _refuse_filters(session: Session, number: str, flags: Mapping[str, Any]) -> None:
    is_filtered = any(flags[key] for key in ("author", "since", "until", "is_all", "cluster", "source"))
    if is_filtered or typed_choice(flags) or scope_filters(session, flags):
        meaning = "the difference of two revisions" if ".." in number else "one revision"
        raise InvalidInput(f"{number} is {meaning}: leave out the filters.")


def _find_revisions(session: Session, noun: str | None, flags: Mapping[str, Any]) -> Iterator[Document]:
    filters, author = _filters(session, noun, flags, _LISTING), flags["author"]
    if not author:
        return session.client.revisions(**filters)
    # The author and the claimed author are two filters of the API.
    known = session.client.revisions(**filters, author=author)
    claimed = session.client.revisions(**filters, claimed_by=author)
    return _unique(merge(known, claimed, key=lambda revision: -int(revision["number"])))


def _filters(session: Session, noun: str | None, flags: Mapping[str, Any], listing: Listing) -> Document:
    """What the flags select, but for the author."""
    now = datetime.now(UTC)
    filters: Document = {**scope_filters(session, flags), "limit": request_size(flags, listing, _LARGEST_PAGE)}
    if noun is not None and noun != "all":
        defined = find_noun(noun, DEFINED)
        filters["resource_type"] = row_kind(defined) if defined else session.client.kind(noun).name
    if flags["since"]:
        filters["after"] = parse_time(flags["since"], "--since", now=now)
    if flags["until"]:
        filters["before"] = parse_time(flags["until"], "--until", now=now, is_end=True)
    return filters


def _find_entries(session: Session, noun: str | None, flags: Mapping[str, Any]) -> Iterator[Document]:
    """Revisions and events of clusters."""
    filters = _filters(session, noun, flags, _TIMELINE)
    if flags["cluster"]:
        session.client.definition("cluster", flags["cluster"])  # so that a misspelt name is not taken for a quiet one
    selected = {"actor": flags["author"], "cluster": flags["cluster"], "source": flags["source"]}
    return session.client.timeline(**filters, **{name: value for name, value in selected.items() if value})


def _unique(revisions: Iterator[Document]) -> Iterator[Document]:
    last = None
    for revision in revisions:
        if revision["number"] != last:
            yield revision
        last = revision["number"]


def _show_list(session: Session, revisions: list[Document]) -> None:
    looks_up = len(revisions) <= _MOST_LOOKUPS
    session.printer.show(
        (f"revision/{revision['number']}" for revision in revisions),
        revisions,
        revisions,
        {
            "REVISION": "number",
            "WHEN": Time(_time),
            "WHO": show_author,
            "WHAT": lambda revision: _what(session, revision, looks_up),
            "WHY": "message",
        },
        {"REQUEST": "request_id"},
        empty="No revisions match.",
    )


def _show_timeline(session: Session, entries: list[Document]) -> None:
    session.printer.show(
        (_name(entry) for entry in entries),
        entries,
        entries,
        {
            "WHEN": Time(_time),
            "REVISION": "revision",
            "WHO": show_author,
            "WHAT": lambda entry: _what_happened(session, entry),
            "WHY": "message",
        },
        empty="Nothing matches.",
    )


def _name(entry: Document) -> str:
    """An entry as `-o name` prints it."""
    return f"{entry['source']}/{entry['revision'] if entry['source'] == 'revision' else entry['number']}"


def _what_happened(session: Session, entry: Document) -> str:
    if entry["source"] != "revision":
        happened = str(entry["type"]).lower().replace("_", " ")
        return f"cluster {entry['cluster']}: {happened}" if entry.get("cluster") else happened
    return f"{_rolled_back(entry)}{_what_changed(session, entry)}"


def _rolled_back(revision: Document) -> str:
    """What a rollback rolled back; empty for any other revision."""
    if revision.get("undone"):
        return f"rollback of revision {revision['undone']}: "
    return f"rollback to revision {revision['restored']}: " if revision.get("restored") is not None else ""


def _what_changed(session: Session, entry: Document) -> str:
    changes = [RowChange.from_document(change) for change in entry.get("changes") or []]
    if len(changes) != 1:
        return count(int(entry.get("change_count") or 0), "row")
    [row] = changes
    return f"{row.action} {row.title(session.client.noun(row.kind))}: {one_line(row.before, row.after)}"


def _time(entry: Document) -> str | None:
    return entry.get("created_at") or entry.get("at")


def _what(session: Session, revision: Document, looks_up: bool) -> str:
    number, rolled_back = int(revision.get("change_count") or 0), _rolled_back(revision)
    if number != 1 or not looks_up:
        return f"{rolled_back}{count(number, 'row')}"
    [change] = session.client.revision(int(revision["number"]))["changes"][:1] or [{}]
    row = RowChange.from_document(change)
    return f"{rolled_back}{row.action} {row.title(session.client.noun(row.kind))}"


def _show_difference(session: Session, start: int, end: int) -> None:
    rows = session.client.revision_diff(start, end)
    if not session.printer.is_table:
        session.printer.document(rows)
    elif rows:
        show_rows(session, [RowChange.from_document(row) for row in rows], with_diffs=True)
    else:
        session.printer.note(f"Nothing differs between revisions {start} and {end}.")


def _show_one(session: Session, revision: Document) -> None:
    printer = session.printer
    if printer.machine_output([f"revision/{revision['number']}"], revision):
        return
    changes = [RowChange.from_document(change) for change in revision["changes"]]
    printer.line(f"revision {revision['number']}")
    printer.line(f"when  {printer.when(_time(revision))}")
    printer.line(f"who   {show_author(revision)}")
    if revision.get("message"):
        printer.line(f"why   {revision['message']}")
    printer.line(f"what  {_rolled_back(revision)}{count(len(changes), 'row')}")
    printer.line()
    show_rows(session, changes, with_diffs=True)
