"""`get all`: what is defined, of all nouns, and who defined it."""

from __future__ import annotations

from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, request_size, selected_filter, typed_choice
from ctl.cli.options import domain_option, option, project_option
from ctl.cli.output import Columns, Field, Time
from ctl.cli.provenance import show_author
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.facts import DEFINED_NOUNS
from ctl.client.nouns import find_noun
from ctl.client.words import did_you_mean, listed

_HELP = """Show what is defined, of all nouns: projects, clusters, pools, labels, queues, workflows, launch plans,
users, groups, grants and so on, each with the revision that made it as it is, who did that and when. Of a workflow or
launch plan it is the version that was registered last, which -o wide names; what the admin's configuration declares has
no revision. Built-in kinds and roles are not listed.

--noun setting lists instead what is set at scopes, of all kinds, each by its kind and scope;
`rainbowctl get KIND -A` has the values of one kind.

-p and -d show a project or domain, and what is registered, granted or set there.
"""
_LARGEST_PAGE = 1000


def _made_by(row: Document) -> Document:
    provenance: Document = row.get("provenance") or {}
    return provenance


def _of_maker(name: str) -> Field:
    return lambda row: _made_by(row).get(name)


def _who(row: Document) -> str:
    return "configuration" if row["source"] == "configuration" else show_author(_made_by(row))


_LISTING = Listing(
    fields={
        **{name: name for name in ("noun", "name", "source", "revision", "version")},
        **{name: _of_maker(name) for name in ("author", "claimed_by", "at", "message")},
    },
    words={"noun": DEFINED_NOUNS, "source": ("managed", "configuration", "registered")},
    order="name",
)
_COLUMNS: Columns = {
    "NOUN": "noun",
    "NAME": "name",
    "REVISION": "revision",
    "WHEN": Time(_of_maker("at")),
    "WHO": _who,
}
_WIDE: Columns = {"VERSION": "version", "WHY": _of_maker("message")}


@command(
    help=_HELP,
    params=[
        option("noun", metavar="NOUN", help="Only those of this noun."),
        project_option("Only this project, and what is registered, granted or set there."),
        domain_option("Only this domain, and what is registered, granted or set there."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get all",
        "rainbowctl get all -p flyteexamples",
        "rainbowctl get all --noun pool -o json",
        "rainbowctl get all --selector 'author=ada,at>7d' --filter.sortBy at",
        "rainbowctl get all --noun setting -p flyteexamples --selector 'claimed_by=ann'",
    ],
)
def get_all(session: Session, noun: str | None, **flags: Any) -> None:
    filters: Document = {**scope_filters(session, {}), "limit": request_size(flags, _LISTING, _LARGEST_PAGE)}
    if noun is not None:
        filters["noun"] = _find(noun)
    if filter := selected_filter(flags, _LISTING):
        filters["filters"] = filter
    rows = session.client.all_definitions(**filters)
    definitions = choose_rows(session, rows, flags, _LISTING, "definition", by="noun")
    is_chosen = len(filters) > 1 or typed_choice(flags)
    session.printer.show(
        (_name(row) for row in definitions),
        definitions,
        definitions,
        _COLUMNS,
        _WIDE,
        empty="No definitions match." if is_chosen else "Nothing is defined.",
    )


def _find(word: str) -> str:
    """The noun that a word means, in any spelling."""
    noun = find_noun(word, DEFINED_NOUNS)
    if noun is None:
        choices = f"choose {listed(DEFINED_NOUNS, 'or')}.{did_you_mean(word, DEFINED_NOUNS)}"
        raise InvalidInput(f"--noun: there is no noun {word!r}: {choices}")
    return noun


def _name(row: Document) -> str:
    """A definition as `get` of its noun prints it."""
    if row["noun"] == "setting":
        return str(row["name"])
    noun = "launchplan" if row["noun"] == "launch-plan" else row["noun"]
    return "/".join(part for part in (noun, row["name"], row.get("version")) if part)
