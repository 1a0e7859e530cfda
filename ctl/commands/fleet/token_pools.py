"""Token pools: counted resources that executions and programs hold while they work."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ctl.cli.lists import typed_choice
from ctl.cli.options import Option, WholeNumber, option
from ctl.cli.output import Columns, Field, Time, cell_text
from ctl.cli.provenance import describe_provenance
from ctl.cli.scopes import typed_scope
from ctl.cli.session import Session
from ctl.cli.watching import Backoff
from ctl.client.answers import Document
from ctl.client.errors import ClientError, InvalidInput
from ctl.client.nouns import TOKEN_POOL
from ctl.client.scopes import Scope
from ctl.client.times import to_second
from ctl.client.words import count
from ctl.commands.fleet.definitions import FleetNoun
from ctl.commands.fleet.members import DESCRIPTION, commands, with_text

_CAPS = ("project", "namespace", "execution")
_TOKENS = WholeNumber(min=0)
_PARAMETERS = (
    Option(["--capacity"], metavar="N", type=_TOKENS, help="How many tokens there are."),
    option("projectCap", parameter="cap_project", metavar="N", type=_TOKENS, help="The most for each project."),
    option(
        "namespaceCap",
        parameter="cap_namespace",
        metavar="N",
        type=_TOKENS,
        help="The most for each project in each domain.",
    ),
    option("executionCap", parameter="cap_execution", metavar="N", type=_TOKENS, help="The most for each execution."),
    DESCRIPTION,
)


def _set(definition: Document, flags: Mapping[str, Any]) -> Document:
    """A definition with the flags applied; caps that no flag names stay."""
    definition = with_text(definition, "description", flags["description"])
    if flags["capacity"] is not None:
        definition = {**definition, "capacity": flags["capacity"]}
    caps = {name: flags[f"cap_{name}"] for name in _CAPS if flags[f"cap_{name}"] is not None}
    return {**definition, "caps": {**definition.get("caps", {}), **caps}} if caps else definition


def _caps(pool: Document) -> str:
    return ", ".join(f"{name} {cap}" for name, cap in (pool.get("caps") or {}).items())


def _refusals(pool: Document) -> str:
    """How many claims were refused, by level."""
    refusals = (pool.get("refusals") or {}).items()
    counts = ", ".join(f"{level} {count}" for level, count in sorted(refusals))
    return f"since the admin started, by the level that was full: {counts}" if counts else ""


def _use(pool: Document) -> str:
    """How much of a pool is held."""
    if "used" not in pool:
        return f"{count(pool['capacity'], 'token')}; {pool['waiting']} in line"
    free = f"{pool['free']} {'is' if pool['free'] == 1 else 'are'} free"
    return f"{pool['used']} of {pool['capacity']} tokens are held, {free}; {pool['waiting']} in line"


def _summary(pools: Sequence[Document]) -> str:
    """Why nothing is granted now, or everything is, where that is so."""
    reasons = list(dict.fromkeys(pool["reason"] for pool in pools if pool.get("reason")))
    return f"{count(len(pools), TOKEN_POOL)}. {' '.join(reasons)}" if reasons else ""


def _place(entry: Document) -> str:
    return "/".join(entry[key] for key in ("project", "domain", "execution") if entry.get(key))


def show_details(session: Session, pool: Document, switched_by: str, defined_by: str) -> None:
    """Print a pool, who holds its tokens, and who waits for some."""
    printer = session.printer.folded()
    printer.sentence(f"token pool {pool['name']}: {_use(pool)}")
    facts = {
        "reason": pool.get("reason"),
        "description": pool.get("description"),
        "caps": _caps(pool),
        "refused": _refusals(pool),
        "defined": defined_by,
    }
    for name, text in facts.items():
        if text:
            printer.sentence(f"{name:<14}{text}", indent=" " * 14)
    claim: Columns = {"TOKEN": "token", "AMOUNT": "amount", "FOR": _place, "BY": "holder", "SINCE": Time("since")}
    if pool.get("holders"):
        printer.line()
        printer.rows(pool["holders"], {**claim, "UNTIL": Time("until", is_ahead=True)})
        _note_others(session, "hold tokens", pool.get("holder_count", 0) - len(pool["holders"]))
    if pool.get("waiters"):
        printer.line()
        printer.rows(pool["waiters"], {"PLACE": "place", **claim, "PRIORITY": "priority"})
        _note_others(session, "wait", pool["waiting"] - len(pool["waiters"]))


def _note_others(session: Session, what: str, number: int) -> None:
    if number > 0:
        session.printer.note(f"{number} more {what}, and are not shown.")


def _watch(session: Session, name: str | None, flags: Mapping[str, Any]) -> bool:
    """Print pools, and each again whenever it has changed, until Ctrl-C."""
    if not flags["watch"]:
        return False
    if typed := typed_choice(flags):
        raise InvalidInput(f"--watch shows every change: leave out {typed}, or --watch.")

    def read() -> dict[str, Document]:
        client = session.client
        pools = [client.definition(TOKEN_POOL, name)] if name else client.definitions(TOKEN_POOL)
        return {str(pool["name"]): pool for pool in pools}

    seen: dict[str, Document] = {}
    widths: dict[str, int] = {}
    printer, backoff, is_first = session.printer, Backoff(session), True
    while True:
        pools = read() if is_first else backoff.call(read)
        told: dict[str, Document] = {}  # as they were told, where they were read again
        changed = [pool for key, pool in (pools or {}).items() if key not in seen or not _is_same(seen[key], pool)]
        if changed and not printer.stream([f"{TOKEN_POOL}/{pool['name']}" for pool in changed], changed):
            at = to_second(datetime.now(UTC).isoformat())
            if not name:
                changed = [*(_with_holders(session, pool) for pool in changed[:_MOST_READ]), *changed[_MOST_READ:]]
                told = {str(pool["name"]): _as_listed(pool) for pool in changed}
            shown = [{**pool, "at": at} for pool in changed]
            printer.rows(shown, _aligned(shown, widths))
        gone = [] if pools is None else [key for key in seen if key not in pools]
        for key in gone:
            printer.note(f"token-pool {key} was deleted.")
            del seen[key]
        seen |= {**(pools or {}), **told}
        is_first = False
        printer = printer.without_headers() if seen else printer
        sys.stdout.flush()
        session.sleep(_POLL_SECONDS)


def _with_holders(session: Session, pool: Document) -> Document:
    """A pool of a list, which names no holders, with those that it has."""
    if not pool.get("used"):
        return pool
    try:
        return session.client.definition(TOKEN_POOL, str(pool["name"]))
    except ClientError:  # it was deleted meanwhile, or the admin is away: the next round tells
        return pool


def _as_listed(pool: Document) -> Document:
    """A pool without what lists do not have."""
    return {name: value for name, value in pool.items() if name not in _NOT_LISTED}


def _aligned(pools: Sequence[Document], widths: dict[str, int]) -> Columns:
    """The columns of watched pools, as wide as those of the lines before, which stand above them."""
    for title, column in _WATCHED.items():
        texts = [title, *(_watched_text(pool, column) for pool in pools)]
        widths[title] = max(widths.get(title, 0), *map(len, texts))

    def padded(title: str, column: Field) -> Field:
        return lambda pool: _watched_text(pool, column).ljust(widths[title])

    return {title: padded(title, column) for title, column in _WATCHED.items()}


def _watched_text(pool: Document, column: Field) -> str:
    return cell_text(pool, column) or "-"


def _is_same(before: Document, pool: Document) -> bool:
    """Whether nothing has changed but how long tokens are held: each holder renews them again and again."""
    renewed = {number: holder.get("until") for number, holder in enumerate(pool.get("holders") or [])}
    holders = [{**holder, "until": renewed.get(number)} for number, holder in enumerate(before.get("holders") or [])]
    return {**before, "holders": holders} == {**pool, "holders": pool.get("holders") or []}


def _first_holder(pool: Document) -> str:
    """Who has held tokens for longest, and how many others."""
    holders = pool.get("holders") or []
    if not holders:
        return ""
    name = _place(holders[0]) or holders[0].get("token") or "hidden"
    others = pool.get("holder_count", len(holders)) - 1
    return f"{name} and {others} more" if others else str(name)


#: How often a watched pool is read.
_POLL_SECONDS = 1.0
#: Of how many pools that changed together the holders are read, each by a request of its own.
_MOST_READ = 20
#: What only the answer for one pool has.
_NOT_LISTED = ("holders", "holder_count", "waiters", "refusals")
#: Times are absolute: each line stays on the screen while others follow.
_WATCHED: dict[str, Field] = {
    "WHEN": "at",
    "NAME": "name",
    "CAPACITY": "capacity",
    "USED": "used",
    "FREE": "free",
    "WAITING": "waiting",
    "HELD BY": _first_holder,
}


def explain_token_pool(session: Session, flags: Mapping[str, Any]) -> None:
    """`explain token-pool NAME`: what bounds its tokens, what of it is full, and what set that."""
    name = flags["workflow"]
    if name is None:
        raise InvalidInput("Which token pool? Give its name: `rainbowctl explain token-pool NAME`.")
    where = Scope(**{key: text for key, text in typed_scope(session, {**flags, "workflow": None}).items() if text})
    answer = session.client.explain_token_pool(name, where)
    printer = session.printer
    if printer.machine_output([f"{TOKEN_POOL}/{name}"], answer):
        return
    printer.sentence(str(answer["summary"]))
    printer.sentence(f"token pool {name}: {_use(answer)}")
    if refused := _refusals(answer):
        printer.sentence(f"{'refused':<14}{refused}", indent=" " * 14)
    printer.line()
    origin: Columns = {"ORIGIN": "origin"} if printer.is_wide else {}
    columns: Columns = {
        "LEVEL": "level",
        "FOR": lambda limit: _limit_place(limit) or "everybody",
        "CAP": "cap",
        "USED": "used",
        "FREE": lambda limit: "full" if limit["full"] else limit["free"],
        **origin,
        "SET BY": lambda limit: describe_provenance(
            printer, limit.get("provenance") or {"revision": limit["version"], "kept": False}
        ),
    }
    printer.rows(answer["limits"], columns)
    if answer.get("left_out"):
        printer.note(f"{answer['left_out']} more limits are not shown: -p and -d choose.")


def _limit_place(limit: Document) -> str:
    keys = ("project", "domain", "workflow", "launch_plan", "execution")
    named = [(key, limit[key]) for key in keys if limit.get(key)]
    if [key for key, _name in named] == ["domain"]:
        return f"domain {named[0][1]}"
    return "/".join(str(name) for _key, name in named)


get_token_pool, create_token_pool, update_token_pool, delete_token_pool = commands(
    FleetNoun(
        name="token-pool",
        is_fleet=False,
        about=(
            "A token pool is a number of tokens, of which executions and programs hold some while they work: say, 100 "
            "connections to Hive. Caps bound what each project, each project in a domain, and each execution may hold."
        ),
        columns={"NAME": "name", "CAPACITY": "capacity", "USED": "used", "FREE": "free", "WAITING": "waiting"},
        wide_columns={"CAPS": _caps, "DESCRIPTION": "description", "VERSION": "version"},
        fields={name: name for name in ("name", "capacity", "used", "free", "waiting", "description", "version")},
        parameters=_PARAMETERS,
        set=_set,
        details=show_details,
        summary=_summary,
        view_parameters=[Option(["--watch"], is_flag=True, help="Show it again whenever it changes, until Ctrl-C.")],
        view=_watch,
        examples={
            "get": [
                "rainbowctl get token-pool",
                "rainbowctl get token-pool hive -o yaml",
                "rainbowctl get token-pool hive --watch",
            ],
            "create": ["rainbowctl create token-pool hive --capacity 100 --projectCap 20 --executionCap 2"],
            "update": ["rainbowctl update token-pool hive --capacity 50 -m 'half of the servers are down'"],
            "delete": ["rainbowctl delete token-pool hive", "rainbowctl delete token-pool hive --force"],
        },
    )
)
