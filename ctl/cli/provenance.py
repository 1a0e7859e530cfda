"""How it is shown by which revision or event something came to be, by whom, when and why: everywhere the same way."""

from __future__ import annotations

from collections.abc import Mapping

from ctl.cli.output import Printer
from ctl.client.answers import Document

#: The author of what somebody does whom nothing identifies.
ANONYMOUS = "anonymous"


def show_name(author: str | None, claimed_by: str | None) -> str:
    """Who somebody is: the author, and beside it the name that is only claimed."""
    claim = f"(says {claimed_by})" if claimed_by else ""
    return " ".join(part for part in (author, claim) if part)


def show_author(document: Document, claimed: str = "claimed_by") -> str:
    """
    Who did something: its author and the claimed name, which stands under the key `claimed`.

    Where an answer has no author, everybody is anonymous, and the name that it has is only claimed.
    """
    name = document.get(claimed)
    if document.get("author"):
        return show_name(document["author"], document.get("claimed_by"))
    return show_name(ANONYMOUS, None if name == ANONYMOUS else name) if name else ""


def describe_provenance(printer: Printer, provenance: Document) -> str:
    """`revision 41, anonymous (says ana), 3 d 4 h ago, 'cap memory'`; wide output has the time itself."""
    parts = [
        *(f"{noun} {provenance[noun]}" for noun in ("revision", "event") if provenance.get(noun)),
        show_name(provenance.get("author"), provenance.get("claimed_by")),
        printer.when(provenance.get("at")),
        f"'{' '.join(str(provenance['message']).split())}'" if provenance.get("message") else "",
    ]
    return ", ".join(part for part in parts if part)


def describe_revision(printer: Printer, version: int | None, revisions: Mapping[str, Document] | None) -> str:
    """The revision that a row's version names; its number alone where the answer does not have the rest of it."""
    if not version:
        return ""
    return describe_provenance(printer, (revisions or {}).get(str(version)) or {"revision": version})


def describe_setter(printer: Printer, origin: Document, revisions: Mapping[str, Document] | None) -> str:
    """`domain development (revision 41, anonymous (says ana), 3 d 4 h ago, 'cap memory')`, or the configuration."""
    from ctl.client.scopes import describe_place

    place = describe_place({key: value for key, value in origin.items() if key != "version"})
    revision = describe_revision(printer, origin.get("version"), revisions)
    return f"{place} ({revision})" if revision else place


def as_of(answer: Document) -> str:
    """`as of revision 7`; of a list that was read while something was changed, from which revision to which."""
    if "first_revision" in answer:
        return f"as of revisions {answer['first_revision']} to {answer['revision']}"
    return f"as of revision {answer['revision']}"
