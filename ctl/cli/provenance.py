"""How provenance is shown, everywhere the same way: the revision or event that set something, by whom, when and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ctl.cli.output import Printer
from ctl.client.answers import Document
from ctl.client.words import show_ranges

if TYPE_CHECKING:
    from ctl.client.scopes import Scope

#: The author of a change by an unidentified caller.
ANONYMOUS = "anonymous"

#: The author, and the proof, of what is done with the token that operators share.
_SHARED_TOKEN = "shared-token"

#: Who sets a field that only documents given with --with would set.
ASSUMED = "the given documents"


def show_name(author: str | None, claimed_by: str | None, proof: str | None = None) -> str:
    """A caller's name: the author, and beside it the administrator who acted as the author, or the claimed name."""
    claim = f"(says {claimed_by})" if claimed_by else ""
    how, _, administrator = (proof or "").partition(" of ")
    if how == _SHARED_TOKEN and author not in (_SHARED_TOKEN, ANONYMOUS):
        administrator = _SHARED_TOKEN
    claim = f"(by {administrator})" if administrator else claim
    return " ".join(part for part in (author, claim) if part)


def show_author(document: Document, claimed: str = "claimed_by") -> str:
    """
    Who did something: its author and the claimed name, which stands under the key `claimed`.

    Where an answer has no author, the caller is anonymous, and the name in it is claimed.
    """
    name = document.get(claimed)
    if document.get("author"):
        return show_name(document["author"], document.get("claimed_by"), document.get("proof"))
    return show_name(ANONYMOUS, None if name == ANONYMOUS else name) if name else ""


def describe_given_up(document: Document) -> str:
    """`, given up by otto` where that was another than who had ended it; empty otherwise."""
    given_up = document.get("given_up")
    ended_by = show_author(document, "principal" if "principal" in document else "claimed_by")
    name = show_author(given_up) if given_up else ""
    return f", given up by {name}" if name and name != ended_by else ""


#: What provenance is of.
_NUMBERED = ("revision", "event")


def describe_provenance(printer: Printer, provenance: Document) -> str:
    """
    `revision 41, anonymous (says ana), 3 d 4 h ago, 'cap memory'`; wide output has the time itself.

    A rollback has what it rolled back: `revision 42 (rollback of 41), …`.
    """
    parts = [
        *(f"{noun} {provenance[noun]}{_rolled_back(provenance)}" for noun in _NUMBERED if provenance.get(noun)),
        "which is no longer kept" if provenance.get("kept") is False else "",
        show_name(provenance.get("author"), provenance.get("claimed_by"), provenance.get("proof")),
        printer.when(provenance.get("at")),
        f"'{' '.join(str(provenance['message']).split())}'" if provenance.get("message") else "",
    ]
    return ", ".join(part for part in parts if part)


def describe_registration(printer: Printer, provenance: Document) -> str:
    """`registered by anonymous (says ana), 3 d 4 h ago, 'nightly runs'`, of a version of a launch plan."""
    return f"registered by {describe_provenance(printer, provenance)}"


def describe_revision(printer: Printer, version: int | None, revisions: Mapping[str, Document] | None) -> str:
    """A revision; its number alone where the answer has no revisions, and that it is not kept where it has others."""
    if not version:
        return ""
    unknown = {"revision": version} if revisions is None else {"revision": version, "kept": False}
    return describe_provenance(printer, (revisions or {}).get(str(version)) or unknown)


def describe_origin_revision(printer: Printer, origin: Document, revisions: Mapping[str, Document] | None) -> str:
    """The revision that set a field; where that is not known, the last one of its row, and that it is so."""
    if origin.get("assumed"):
        return ASSUMED
    number = origin.get("revision") or origin.get("version")
    revision = describe_revision(printer, number, revisions)
    if revision and number and (origin.get("set_before") or 0) > number:
        return f"{revision}, or an earlier one"
    if revision and origin.get("set_before"):
        return f"before revision {origin['set_before']}; its row was changed last by {revision}"
    return revision


def describe_state(printer: Printer, document: Document, state: str) -> str:
    """What set a state of something: `revision 5, anonymous (says ana), 3 d 4 h ago`; empty where that is not known."""
    provenance = (document.get("provenance") or {}).get(state)
    return describe_provenance(printer, provenance) if provenance else ""


def describe_version(printer: Printer, document: Document) -> str:
    """The revision that defined something as it is; that it is not kept, and what the row keeps, once it was pruned."""
    if document.get("version_pruned") and not (document.get("provenance") or {}).get("definition"):
        return describe_provenance(printer, {"revision": document["version"], "kept": False})
    return describe_state(printer, document, "definition")


def describe_set_by(printer: Printer, entry: Document) -> str:
    """The revision that set what an entry is about, in its `set_by`; empty where that is not known."""
    set_by = entry.get("set_by")
    if not set_by:
        return ""
    origin = {"revision": set_by["revision"], "set_before": entry.get("set_before")}
    return describe_origin_revision(printer, origin, {str(set_by["revision"]): set_by})


def describe_fields_revisions(printer: Printer, row: Document, revisions: Mapping[str, Document] | None) -> str:
    """
    The revisions that set some fields of a row, newest first, of their numbers by path in `revisions` of the row.

    Where those are not known it is the last one of the row, and that it is so.
    """
    numbers = sorted(set((row.get("revisions") or {}).values()), reverse=True)
    parts = [ASSUMED] if row.get("assumed") else []
    parts += [describe_revision(printer, number, revisions) for number in numbers]
    if (row.get("set_before") or 0) > (row.get("version") or 0) > 0:
        parts.append(f"{describe_revision(printer, row['version'], revisions)}, or an earlier one")
    elif row.get("set_before") or not parts:
        parts.append(f"before revision {row['set_before']}" if row.get("set_before") else "")
        last = describe_revision(printer, row.get("version"), revisions)
        parts.append(f"its row was changed last by {last}" if last and last not in parts else "")
    return "; ".join(part for part in parts if part)


#: What details of conflicts say of the revisions that changed a row since.
LATER_KEYS = ("provenance", "later", "later_count", "undone", "also_undone", "restored")


def describe_later(printer: Printer, detail: Document) -> str:
    """The revisions that changed a row again, of a detail of a conflict, newest first; empty where none is known."""
    number = detail.get("changed_by_revision")
    last = detail.get("provenance") or ({"revision": number} if number else None)
    if last:  # of a rollback of what is asked about that is said already
        last = {**last, **{name: detail[name] for name in ("undone", "also_undone", "restored") if name in detail}}
        if detail.get("rolled_back") and not last.get("also_undone"):
            last["undone"] = None
    later = detail.get("later") or ([last] if last else [])
    parts = [describe_provenance(printer, entry) for entry in later]
    rest = int(detail.get("later_count") or len(later)) - len(later)
    return "; by ".join([*parts, *([f"{rest} more before"] if rest else [])])


def _rolled_back(revision: Document) -> str:
    rollback = describe_rollback(revision)
    return f" ({rollback})" if rollback else ""


def describe_rollback(revision: Document, noun: str = "") -> str:
    """What a rollback rolled back: `rollback of 7`, or with a noun before the number; empty for other revisions."""
    if revision.get("undone"):
        others = revision.get("also_undone") or []
        noun = noun.replace(" ", "s ") if others else noun
        return f"rollback of {noun}{show_ranges([*others, revision['undone']])}"
    return f"rollback to {noun}{revision['restored']}" if revision.get("restored") is not None else ""


def describe_field_origin(
    printer: Printer, origin: Document, here: Scope | None, revisions: Mapping[str, Document] | None
) -> str:
    """Where a field comes from, as seen from a scope if one is given, and who set it: `here (revision 41, ana, …)`."""
    from ctl.client.scopes import describe_origin

    if here is None:
        return describe_setter(printer, origin, revisions)
    if not revisions and not origin.get("assumed"):
        return describe_origin(origin, here)
    place = describe_origin({key: value for key, value in origin.items() if key != "version"}, here)
    revision = describe_origin_revision(printer, origin, revisions)
    return f"{place} ({revision})" if revision else place


def describe_setter(printer: Printer, origin: Document, revisions: Mapping[str, Document] | None) -> str:
    """`domain development (revision 41, anonymous (says ana), 3 d 4 h ago, 'cap memory')`, or the configuration."""
    from ctl.client.scopes import describe_place

    place = describe_place({key: value for key, value in origin.items() if key != "version"})
    revision = describe_origin_revision(printer, origin, revisions)
    return f"{place} ({revision})" if revision else place


def as_of(answer: Document) -> str:
    """`as of revision 7`; of a list that was read while something was changed, from which revision to which."""
    if "first_revision" in answer:
        return f"as of revisions {answer['first_revision']} to {answer['revision']}"
    return f"as of revision {answer['revision']}"
