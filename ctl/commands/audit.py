"""`get audit`: logins, what was done with tokens, and denied requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import PAGE, Listing, choose_rows, request_size, typed_choice
from ctl.cli.options import Option, text_option
from ctl.cli.output import Columns, Sentence, Time
from ctl.cli.provenance import show_author
from ctl.cli.session import Session
from ctl.cli.windows import WINDOW, named_by_flags
from ctl.client.answers import Document
from ctl.client.nouns import USER
from ctl.client.times import parse_time

_HELP = """Show logins, what was done with tokens, and denied requests, newest first.

\b
  WRONG_TOKEN      a token that is unknown, revoked or expired, or not for what was asked
  FORBIDDEN        a caller who is known and may not do this
  LOGIN            the first use of a login at an OpenID provider
  TOKEN_CREATED    a user or a cluster got a token
  TOKEN_REVOKED    a token was revoked, or all tokens of a user or cluster that was deleted
  SESSION_STARTED  somebody signed in at the console
  SESSION_ENDED    somebody signed out there, or a session was ended by its id
  NEW_ADDRESS      a user's token was used from an address for the first time

What is denied again and again is one event a minute for each address and user, with how often it happened; of more than
20 such events of one user or address the others are counted in one. Tokens themselves are never kept. Other workers
store what they note within two seconds. Times are UTC.
"""
_LARGEST_PAGE = 1000
_FIELDS = ("number", "at", "event", "user", "proof", "address", "method", "route", "request_id", "target", "count")
_LISTING = Listing(fields={name: name for name in _FIELDS}, order="at", limit=PAGE)


def _request(event: Document) -> str:
    return " ".join(str(event[key]) for key in ("method", "route") if event.get(key))


def _what(event: Document) -> str:
    """The token, user or cluster that something was done to; else the request that was denied, and how often."""
    times = f" ({event['count']} times)" if event.get("count") else ""
    return f"{event.get('target') or _request(event)}{times}"


def _user(event: Document) -> str:
    return show_author({"author": event.get("user"), "proof": event.get("proof")})


_COLUMNS: Columns = {
    "WHEN": Time("at"),
    "EVENT": "event",
    "USER": _user,
    "ADDRESS": "address",
    "WHAT": _what,
}
_WIDE_COLUMNS: Columns = {
    "PROOF": "proof",
    "LAST": Time("last_at"),
    "REQUEST": _request,
    "REQUEST ID": "request_id",
    "WHY": Sentence("reason"),
}


@command(
    help=_HELP,
    params=[
        Option(["--since"], metavar="TIME", help="Since then: 24h, 7d, 2026-03-01, 2026-03-01T12:00."),
        Option(["--until"], metavar="TIME", help="Until then; a day is included."),
        text_option(
            "user",
            metavar="NAME",
            help="By this user, also as somebody else; and what others did as this user.",
            noun=USER,
        ),
        text_option("event", metavar="TYPE", help="Of this type, such as FORBIDDEN or new-address."),
        text_option("address", metavar="ADDRESS", help="Of requests from this address."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get audit",
        "rainbowctl get audit --since 24h --event wrong-token",
        "rainbowctl get audit --user ada -o json",
        "rainbowctl get audit --address 192.0.2.7 -o wide",
    ],
)
def get_audit(session: Session, **flags: Any) -> None:
    pruned: list[str] = []
    is_filtered = any(flags[key] for key in ("since", "until", "user", "event", "address"))
    events = choose_rows(session, _read(session, flags, pruned), flags, _LISTING, "event", by="event")
    session.printer.show(
        (f"audit/{event['number']}" for event in events),
        events,
        events,
        _COLUMNS,
        _WIDE_COLUMNS,
        empty="Nothing matches." if is_filtered or typed_choice(flags) else "Nothing was noted yet.",
    )
    for sentence in pruned:
        session.printer.note(sentence)


def _read(session: Session, flags: Mapping[str, Any], pruned: list[str]) -> Iterator[Document]:
    """The events that the flags select; once all are read, `pruned` says what is missing after the last."""
    now = datetime.now(UTC)
    filters: Document = {"user": flags["user"], "address": flags["address"]}
    filters["event"] = flags["event"] and flags["event"].upper().replace("-", "_")
    filters["after"] = flags["since"] and parse_time(flags["since"], "--since", now=now)
    filters["before"] = flags["until"] and parse_time(flags["until"], "--until", now=now, is_end=True)
    filters["limit"] = request_size(flags, _LISTING, _LARGEST_PAGE)
    with named_by_flags({**WINDOW, "event": "--event", "user": "--user", "address": "--address"}):
        for page in session.client.audit_pages(**filters):
            yield from page["events"]
            if page.get("not_listed"):
                pruned.append(str(page["not_listed"]))
