"""What templates call: addresses of pages, times, numbers, and what the caller may do."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from flask import Flask, current_app, g, request
from jinja2 import Undefined
from markupsafe import Markup, escape

from admin import __version__
from admin.api.current import CALLER, access, context
from admin.console.forms import NOTICE_COOKIE, form_token
from admin.console.pages import PREFIX
from admin.console.responses import is_secure
from admin.core.identities import Identity, Proof
from admin.core.problems import Path, dotted
from admin.core.provenance import show_name
from admin.core.resources import parse_capacity
from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.core.times import show_duration
from admin.services.context import Context

#: Resources that are counted in bytes, and those that are counted in pieces.
_IN_BYTES = ("memory", "ephemeral_storage")
_PIECES = ("nodes", "executions")
_UNITS = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def page(*parts: str, **query: Any) -> str:
    """The address of a page by the parts of its path; what is None or empty in its query is left out."""
    path = "/".join([PREFIX, *(quote(part, safe="") for part in parts)]) if parts else f"{PREFIX}/"
    return path + _query(query)


def here(**changes: Any) -> str:
    """The address of this page with another query; None or empty takes something out of it, and paging starts anew."""
    return request.path + _query({**request.args.to_dict(), "token": None, **changes})


def came_from() -> str | None:
    """The page of this console whose form was sent, as far as the browser tells."""
    try:
        parts = urlsplit(request.referrer or "")
    except ValueError:
        return None
    if parts.netloc != request.host or not parts.path.startswith(f"{PREFIX}/"):
        return None
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _query(query: dict[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""


def moment(text: str) -> datetime:
    """The time in an answer."""
    return datetime.fromisoformat(text)


def ago(text: str) -> str:
    """How long ago a time is, or how far ahead."""
    seconds = (context().clock() - moment(text)).total_seconds()
    largest = show_duration(abs(seconds)).split(" ")
    span = " ".join(largest[:2])
    return f"in {span}" if seconds <= -1 else f"{span} ago"


def so_far(text: str) -> str:
    """How long something goes on that began at a time."""
    return show_duration((context().clock() - moment(text)).total_seconds())


#: How long ago a status says that its phase began: `RUNNING on east for 4 min 10 s`, `SUCCEEDED on east 2 d 3 h ago`.
_AGE = re.compile(r"([A-Z_]+(?: on \S+)?) (for )?(\d+ (?:years?|d|h|min|s)(?: \d+ (?:d|h|min|s))?)(?(2)| ago)")


def ticking(message: str, since: str) -> Markup:
    """The sentence of a status, whose age goes on while the page is open."""
    begin = _AGE.match(message)
    if begin is None:
        return escape(message)
    start, is_span, text = begin.groups()
    if not is_span:  # as the script of the page goes on with it
        text = " ".join(text.split()[:2]) + " ago"
    shape = Markup(' data-span=""') if is_span else ""
    # The sentence may be one that is read out when it changes, which is not meant of its age.
    time = Markup('<time datetime="{}" title="{}" aria-live="off"{}>{}</time>').format(since, since, shape, text)
    return escape(f"{start} {is_span or ''}") + time + escape(message[begin.end() :])


def now() -> str:
    """The admin's time, by which a script goes on telling how long ago things were."""
    admin: Context = current_app.extensions["rainbow"]  # as nobody sees it, for pages of refusals have no caller
    return admin.clock().isoformat()


def duration(seconds: float | Undefined | None) -> str:
    """How long something took; nothing where an answer does not say."""
    return "" if seconds is None or isinstance(seconds, Undefined) else show_duration(seconds)


def size(count: int | float) -> str:
    """A number of bytes, as of a file."""
    shown, unit = _in_unit(count)
    return f"{shown} {unit}B"


def _in_unit(count: int | float) -> tuple[str, str]:
    """A number of bytes in the largest unit in which it is one or more, and that unit."""
    for unit, bytes_ in _UNITS:
        if count >= bytes_:
            return f"{count / bytes_:.4g}", unit
    return str(count), ""


def amount(quantity: str | int, resource: str) -> str:
    """An amount of a resource as an answer has it; bytes in their largest unit, rounded: 24103Mi is 23.54Gi."""
    if resource not in _IN_BYTES:
        return str(quantity)
    try:
        return "".join(_in_unit(parse_capacity({resource: quantity})[resource]))
    except ValueError:  # a sum may be more than any one amount that is taken
        return str(quantity)


def who(of: Mapping[str, Any]) -> str:
    """Who did something, as the sentences of answers and the filters by authors have it: `anonymous (says ada)`."""
    author = of.get("author") or of.get("created_by") or of.get("principal") or ""
    claimed_by = of.get("claimed_by")
    if not author:
        return str(claimed_by or "")
    return show_name(author, claimed_by, of.get("proof") or of.get("created_proof"))


def number(count: int) -> str:
    """A whole number, with thin spaces between thousands."""
    return f"{count:,}".replace(",", "\u202f")


def curl(line: dict[str, Any]) -> str:
    """A request to REST as a command of a shell."""
    words = ["curl"] if line["method"] == "GET" else ["curl", "-X", line["method"]]
    who = identity()
    if who is not None and who.proof is not Proof.NONE:
        words.append('-H "Authorization: Bearer $RAINBOW_TOKEN"')  # quoted so that the shell fills it in
    words += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in line["headers"].items()]
    if line["body"] is not None:
        words += ["-H 'Content-Type: application/json' -d", shlex.quote(line["body"])]
    origin = f"{'https' if is_secure() else 'http'}://{request.host}"  # as the browser came, for a token is sent along
    return " ".join([*words, shlex.quote(origin + line["url"])])


def command(words: Iterable[str]) -> str:
    """A command of rainbowctl as it is typed."""
    return shlex.join(["rainbowctl", *words])


def may(permission: str, **scope: str | None) -> bool:
    """Whether the caller may do something at a scope; the page shows no action that would be refused."""
    return access().allows(permission, Scope(**{key: value for key, value in scope.items() if value}))


def may_somewhere(permission: str) -> bool:
    """Whether the caller may do something at any scope."""
    return access().allows_some(permission)


def identity() -> Identity | None:
    """Who looks at the page; None on pages that need nobody."""
    caller = request.environ.get(CALLER)
    return None if caller is None else caller.identity


def notice() -> str | None:
    """What was done by the form before this page, told once."""
    g.is_told = True
    return request.cookies.get(NOTICE_COOKIE)


def as_json(value: Any) -> str:
    """A value of any shape, for people to read."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def compact(value: Any) -> str:
    """A value in one line: a text as it is, all others as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def amounts(of: dict[str, str | int]) -> str:
    """Amounts by resource in one line."""
    return ", ".join(f"{amount(each, resource)} {_noun(resource, each)}" for resource, each in of.items())


def _noun(resource: str, quantity: str | int) -> str:
    return resource.removesuffix("s") if resource in _PIECES and quantity == 1 else resource.replace("_", " ")


def leaves(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The leaves of an effective value as answers have it, each with its origin."""
    values = dict(_nodes(entry["value"]))
    return [{"path": path, "value": values.get(path), "origin": origin} for path, origin in entry["origins"].items()]


def _nodes(value: Any, path: Path = ()) -> Iterator[tuple[str, Any]]:
    yield dotted(path), value
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _nodes(item, (*path, name))
    elif _is_keyed(value):
        for entry in value:
            (_, key), *others = entry.items()
            yield dotted((*path, key)), others[0][1] if len(others) == 1 else dict(others)


def _has_parts(value: Any) -> bool:
    return isinstance(value, dict) or _is_keyed(value)


def _is_keyed(value: Any) -> bool:
    """Whether a value is a list whose entries are known by their first field, as kinds have them."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) and len(entry) > 1 for entry in value):
        return False
    keys = [next(iter(entry.values())) for entry in value]
    return bool(keys) and all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys)


def scope_keys(answer: dict[str, Any]) -> dict[str, str]:
    """The keys of the scope of something in an answer, for addresses and questions."""
    return {key: answer[key] for key in SCOPE_KEYS if answer.get(key)}


def differences(before: Any, after: Any) -> list[dict[str, Any]]:
    """The leaves in which two values of a row differ; one that a side has not is left out of it."""
    sides = {
        name: {path: value for path, value in _nodes(side or {}) if path and not _has_parts(value)}
        for name, side in (("before", before), ("after", after))
    }
    rows = []
    for path in dict.fromkeys(path for leaves in sides.values() for path in leaves):
        row = {name: leaves[path] for name, leaves in sides.items() if path in leaves}
        if len(row) < 2 or row["before"] != row["after"]:
            rows.append({"path": path, **row})
    return rows


def limits() -> dict[str, int]:
    """How many executions a page of a list looks at, and how many one counts."""
    most = context().list_limits
    return {"examined": most.examined, "counted": most.counted}


def add_to(app: Flask) -> None:
    """Give the templates of an app what they call."""
    environment = app.jinja_env
    environment.trim_blocks = environment.lstrip_blocks = True
    for filter_ in (
        ago,
        so_far,
        ticking,
        duration,
        size,
        amount,
        who,
        number,
        curl,
        command,
        as_json,
        compact,
        amounts,
        leaves,
        scope_keys,
    ):
        environment.filters[filter_.__name__] = filter_
    for function in (page, here, came_from, may, may_somewhere, identity, form_token, notice, differences, limits, now):
        environment.globals[function.__name__] = function
    environment.globals["version"] = __version__
