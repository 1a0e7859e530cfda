"""Entries of the timeline in words: revisions, events, registrations, and executions that were created or ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ctl.cli.diffs import one_line
from ctl.cli.output import Printer
from ctl.cli.provenance import describe_given_up, describe_provenance, describe_rollback, show_author
from ctl.cli.session import Session
from ctl.client.answers import Document, RowChange
from ctl.client.calls.registrations import Identifier
from ctl.client.executions import ExecutionId
from ctl.client.times import distance, is_earlier
from ctl.client.words import count, listed

#: The kinds of entries of the timeline.
SOURCES = ("revision", "cluster-event", "redecision", "pruning", "registration", "execution", "creation")

#: The type of the registration of a workflow; the others are about launch plans.
_WORKFLOW_REGISTERED = "WORKFLOW_REGISTERED"
#: What happened to a launch plan, by type; any other type is that of its registration.
_ACTIVATIONS = {"LAUNCH_PLAN_ACTIVATED": "activated", "LAUNCH_PLAN_DEACTIVATED": "deactivated"}

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
#: So many entries of a request are shown, the newest ones.
_MOST_ENTRIES = 5


def counted(counts: Mapping[str, int]) -> list[str]:
    """How many entries there are of each kind, by their sources: `2 revisions`, `1 registration`."""
    return [f"{number} {_NAMES[source][number != 1]}" for source in SOURCES if (number := counts.get(source, 0))]


def lines_of(session: Session, entry: Document) -> Iterator[Document]:
    """The lines of an entry in a table: of a revision one for each row that is shown."""
    first, *more = what_of(session, entry)
    yield {**entry, "who": show_author(entry), "what": first}
    for text in more:
        yield {"revision": entry["revision"], "what": text}


def group_lines(session: Session, group: Document) -> Iterator[Document]:
    """The lines of what one request did: how much of each kind, and its newest entries."""
    entries = group["entries"]
    if len(entries) == 1:
        yield from lines_of(session, entries[0])
        return
    yield {**group, "who": show_author(group), "what": listed(counted(group["counts"]))}
    for entry in entries[:_MOST_ENTRIES]:
        for text in what_of(session, entry):
            yield {"revision": entry.get("revision"), "what": f"  {text}"}
    more = len(entries) - _MOST_ENTRIES
    if more > 0:
        yield {"what": f"  and {more} more: history --request {group['request_id']}"}


def joined_groups(pages: Iterable[Sequence[Document]]) -> Iterator[Document]:
    """What each request did, of pages on whose ends one may go on on the next."""
    before: list[Document] = []
    for page in pages:
        new = []
        for group in page:
            earlier = next((other for other in before if _are_of_one_request(other, group)), None)
            if earlier is None:
                new.append(group)
            else:
                earlier["entries"] += group["entries"]
                earlier["since"] = group["since"]
                earlier["counts"] = dict(Counter(earlier["counts"]) + Counter(group["counts"]))
                if earlier.get("message") != group.get("message"):
                    earlier.pop("message", None)
        yield from before
        before = new
    yield from before


def _are_of_one_request(one: Document, other: Document) -> bool:
    keys = ("request_id", "author", "claimed_by", "proof")
    return bool(one.get("request_id")) and all(one.get(key) == other.get(key) for key in keys)


def name_of(entry: Document) -> str:
    """An entry as `-o name` prints it; what was registered as `get` does."""
    if entry["source"] == "registration":
        word = "workflow" if entry["type"] == _WORKFLOW_REGISTERED else "launchplan"
        return "/".join([word, *Identifier.from_document(entry["id"]).document().values()])
    if entry["source"] in ("execution", "creation"):
        return ExecutionId.from_document(entry["execution"]).resource
    return f"{entry['source']}/{entry['revision'] if entry['source'] == 'revision' else entry['number']}"


def what_of(session: Session, entry: Document) -> list[str]:
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
    return [f"{rolled_back(entry)}{start}", *others]


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


def rolled_back(revision: Document) -> str:
    """What a rollback rolled back; empty for any other revision."""
    rollback = describe_rollback(revision, "revision ")
    return f"{rollback}: " if rollback else ""


def time_of(entry: Document) -> str | None:
    return entry.get("created_at") or entry.get("at")
