"""Lists: the flags that choose among rows, and the rows that they choose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from ctl.cli.options import WholeNumber, option, selector_option, text_option
from ctl.cli.output import Field, field_value
from ctl.cli.session import Session
from ctl.client.errors import InvalidInput
from ctl.client.nouns import plural
from ctl.client.scopes import KEYS
from ctl.client.words import count, did_you_mean, fold, listed

if TYPE_CHECKING:
    from datetime import datetime

    from ctl.client.selectors import Reader, Term

Row = TypeVar("Row")

#: How many rows a page has, unless --filter.limit says it.
PAGE = 100
#: Flyte's names of fields, for the lists that have these fields.
_ALIASES = {
    **{f"{key}.name": key for key in KEYS},
    "project.identifier": "project",
    "workflow.version": "workflow_version",
}
_NUMBER = WholeNumber(min=1)


def list_options(fields: Iterable[str], *, selector: str = "", limit: int | None = None) -> list[click.Parameter]:
    """
    flytectl's flags of every list, each also without `filter.` before it.

    `fields` can be sorted by, `selector` is the help of the selector, and `limit` how many rows come without a limit.
    """
    names = listed(fields)
    most = f"How many at most, {limit} by default." if limit else "How many at most."
    terms = "FIELD=VALUE, FIELD contains VALUE and so on"
    about = selector or f"Only rows that match all of these terms: {terms}. Fields: {names}."
    return [
        selector_option(f"{about} Also --selector."),
        text_option("filter.sortBy", "sortBy", parameter="sort_by", metavar="FIELD", help=f"Sort by {names}."),
        option("filter.asc", "asc", parameter="is_ascending", is_flag=True, help="Smallest or oldest first."),
        option("filter.limit", "limit", parameter="limit", metavar="N", type=_NUMBER, help=most),
        option("filter.page", "page", parameter="page", metavar="N", type=_NUMBER, help="Page to show, from 1."),
    ]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What the rows of a list can be selected and sorted by."""

    fields: Mapping[str, Field]  #: `at` and those whose name ends in `_at` are times
    aliases: Mapping[str, str] = field(default_factory=dict)  #: Flyte's names of fields, beside those of a scope
    prefixes: Sequence[str] = ()  #: that may stand before a field, as in `workflow.name`
    states: Sequence[str] = ()  #: the words of `state`, by Flyte's numbers
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)  #: of other fields that have one of a few words
    order: str = "created_at"  #: what --filter.asc alone sorts by
    limit: int | None = None  #: how many rows come unless --filter.limit says it; all by default
    ahead: Sequence[str] = ()  #: the times that lie ahead
    amounts: Sequence[str] = ()  #: fields that are quantities, such as 500m or 4Gi

    def options(self) -> list[click.Parameter]:
        return list_options(self.fields, limit=self.limit)

    def names(self) -> dict[str, str]:
        """Every field by all of its names."""
        own = {name: name for name in self.fields} | dict(self.aliases)
        prefixed = {f"{prefix}.{alias}": name for prefix in self.prefixes for alias, name in own.items()}
        return {alias: name for alias, name in _ALIASES.items() if name in self.fields} | prefixed | own


def typed_choice(flags: Mapping[str, Any]) -> str | None:
    """The first flag that chooses among rows, of those that were typed."""
    names = {
        "selector": "--filter.fieldSelector",
        "sort_by": "--filter.sortBy",
        "is_ascending": "--filter.asc",
        "limit": "--filter.limit",
        "page": "--filter.page",
    }
    return next((flag for key, flag in names.items() if flags[key]), None)


def refuse_choice(flags: Mapping[str, Any], name: str) -> None:
    """Refuse flags that choose among rows where one was named."""
    if flag := typed_choice(flags):
        raise InvalidInput(f"{name} names one, and {flag} chooses among many: leave out one of the two.")


@dataclass(frozen=True, kw_only=True)
class Chosen(Generic[Row]):
    """The rows that the flags choose, and where they stand among all that match."""

    rows: Iterable[Row]
    skipped: int = 0  #: rows of the pages before
    has_more: bool = False


def choose(session: Session, rows: Iterable[Row], flags: Mapping[str, Any], listing: Listing) -> Iterable[Row]:
    """The rows that the flags choose, in the order they ask for."""
    return choose_page(session, rows, flags, listing).rows


def choose_page(session: Session, rows: Iterable[Row], flags: Mapping[str, Any], listing: Listing) -> Chosen[Row]:
    """The same, for an answer that says whether there are others."""
    if flags["selector"]:
        rows = _select(rows, flags["selector"], listing)
    if flags["sort_by"] or flags["is_ascending"]:
        rows = _sort(rows, flags, listing)
    limit, page = flags["limit"] or listing.limit, flags["page"] or 1
    if not limit and not flags["page"]:
        return Chosen(rows=rows)
    limit = limit or PAGE
    skipped = (page - 1) * limit
    chosen = list(islice(rows, skipped, skipped + limit + 1))
    has_more = len(chosen) > limit
    if has_more:
        _note_at_end(session, more_note(page, limit))
    return Chosen(rows=chosen[:limit], skipped=skipped, has_more=has_more)


def choose_rows(
    session: Session,
    rows: Iterable[Row],
    flags: Mapping[str, Any],
    listing: Listing,
    noun: str,
    *,
    where: str = "",
    by: Field | None = None,
) -> list[Row]:
    """The same as a list of something; a sentence says before the table how many they are, as `opening` does."""
    chosen = choose_page(session, rows, flags, listing)
    chosen_rows = list(chosen.rows)
    if chosen_rows and session.printer.is_table:
        values = [] if by is None else [str(field_value(row, by)) for row in chosen_rows]
        session.printer.note(
            opening(
                len(chosen_rows), noun, where=where, values=values, skipped=chosen.skipped, has_more=chosen.has_more
            )
        )
    return chosen_rows


def opening(
    number: int, noun: str, *, where: str = "", values: Iterable[str] = (), skipped: int = 0, has_more: bool = False
) -> str:
    """
    A list in one sentence: `3 projects: 2 ACTIVE, 1 ARCHIVED.`, `The first 100 workflows in domain staging.`

    `where` tells of where they are, `values` has a word of each to count by, and `skipped` are those of earlier pages.
    """
    from collections import Counter

    rows = count(number, noun)
    if skipped:
        rows = f"{noun} {skipped + 1}" if number == 1 else f"{plural(noun)} {skipped + 1} to {skipped + number}"
        rows = f"{rows[0].upper()}{rows[1:]}"
    elif has_more:
        rows = f"The first {noun if number == 1 else rows}"
    words = ", ".join(f"{times} {value}" for value, times in Counter(values).items())
    return f"{rows}{f' {where}' if where else ''}{f': {words}' if words else ''}."


def _note_at_end(session: Session, text: str) -> None:
    """Print a remark after everything else that the command prints."""
    context = click.get_current_context(silent=True)
    if context is None:
        session.printer.note(text)
    else:
        context.call_on_close(lambda: session.printer.note(text))


def request_size(flags: Mapping[str, Any], listing: Listing, largest: int) -> int:
    """How many rows to ask the admin for at once: as many as `choose` reads."""
    limit = flags["limit"] or listing.limit
    if limit is None or flags["selector"] or flags["sort_by"] or flags["is_ascending"]:
        return largest
    return min((flags["page"] or 1) * limit + 1, largest)


def more_note(page: int, limit: int) -> str:
    return f"There are more: --filter.page {page + 1} shows the next {limit}."


def selected_fields(flags: Mapping[str, Any], listing: Listing) -> set[str]:
    """The fields that the selector is about."""
    return {term.field for term in _terms(flags["selector"], listing)} if flags["selector"] else set()


def selected_filter(flags: Mapping[str, Any], listing: Listing) -> str | None:
    """What the selector says, as the API takes it; None for none, and for one that is longer than it takes."""
    if not flags["selector"]:
        return None
    from ctl.client.facts import MOST_FILTER_LENGTH

    text = "+".join(term.filter for term in _terms(flags["selector"], listing))
    return text if len(text) <= MOST_FILTER_LENGTH else None


def _select(rows: Iterable[Row], selector: str, listing: Listing) -> Iterable[Row]:
    terms = _terms(selector, listing)
    return (row for row in rows if all(term.matches(_value(row, term.field, listing)) for term in terms))


def _terms(selector: str, listing: Listing) -> list[Term]:
    from datetime import UTC, datetime

    from ctl.client.selectors import parse_selector

    types = {name: "time" if _is_time(name) else "text" for name in listing.fields}
    types |= dict.fromkeys(listing.ahead, "time ahead")
    words = {**listing.words, **({"state": listing.states} if listing.states else {})}
    return parse_selector(
        selector,
        "--filter.fieldSelector",
        now=datetime.now(UTC),
        types=types,
        aliases=listing.names(),
        readers={
            **{name: _word_reader(name, words[name], listing) for name in words},
            **dict.fromkeys(listing.amounts, _read_amount),
        },
    )


def _read_amount(text: str, place: str, now: datetime) -> str:
    """Reads a quantity as the number that it stands for."""
    from ctl.client.quantities import parse_quantity

    try:
        return str(float(parse_quantity(text)))
    except ValueError as error:
        raise InvalidInput(f"{place}: {error}.") from None


def _word_reader(name: str, words: Sequence[str], listing: Listing) -> Reader:
    """Reads a value of a field that has one of a few words, in any case; states also by Flyte's numbers."""

    def read(text: str, place: str, now: datetime) -> str:
        if name == "state" and listing.states and text.isdecimal() and int(text) < len(words):
            return words[int(text)]
        by_fold = {fold(word): word for word in words}
        if fold(text) not in by_fold:
            choices = f"choose {listed(words, 'or')}.{did_you_mean(text, words)}"
            raise InvalidInput(f"{place}: there is no {name} {text!r}: {choices}")
        return by_fold[fold(text)]

    return read


def _sort(rows: Iterable[Row], flags: Mapping[str, Any], listing: Listing) -> list[Row]:
    """Rows by a field; those that have nothing in it come last."""
    from ctl.client.selectors import find_field

    word = flags["sort_by"] or listing.order
    key = find_field(word, tuple(listing.fields), "--filter.sortBy", listing.names())
    valued = [(_value(row, key, listing), row) for row in rows]
    present = [(value, row) for value, row in valued if value not in (None, "")]
    present.sort(key=lambda pair: _order(pair[0]), reverse=not flags["is_ascending"])
    return [row for _value, row in present] + [row for value, row in valued if value in (None, "")]


def _order(value: Any) -> tuple[str, Any]:
    """What a value is sorted by: in some lists one field has values of several types, of which numbers come first."""
    return "" if isinstance(value, int | float) else type(value).__name__, value


def _is_time(name: str) -> bool:
    return name == "at" or name.endswith("_at")


def _value(row: Any, name: str, listing: Listing) -> Any:
    """What a row has in a field: a number, a time, or text."""
    value = field_value(row, listing.fields[name])
    if _is_time(name):
        from ctl.client.times import parse_timestamp

        return parse_timestamp(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return [str(entry) for entry in value]
    return value if isinstance(value, int | float) or value is None else str(value)
