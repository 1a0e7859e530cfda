"""`where-used`: what names something of the fleet, a token pool, kind or value, where, and what depends on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import Argument, Option, complete_kind
from ctl.cli.output import Columns, Printer
from ctl.cli.provenance import as_of, describe_provenance, describe_registration, describe_revision, describe_setter
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.executions import ExecutionId
from ctl.client.schemas import leaf_parts
from ctl.client.scopes import Scope
from ctl.client.selectors import SIGNS
from ctl.client.words import count, did_you_mean, listed
from ctl.commands.access.use_grants import COLUMNS as USE_GRANT_COLUMNS

#: Rows of the tables, unless they are wide.
SHOWN = 20
_TOKEN_POOL = "token-pool"
#: Nouns that executions are selected by.
_SELECTED = ("pool", "label", "cluster")
#: A field and a value of it, or one that amounts are compared with.
_COMPARED = re.compile(r"([^<>=]*)(>=|<=|>|<|=)(.*)", re.DOTALL)
_NOUNS = ("pool", "label", "cluster", "queue", "queue-tag", _TOKEN_POOL)

_HELP = """Show where a pool, label, cluster, queue, queue tag, token pool, kind or value is used.

NOUN is pool, label, cluster, queue, queue-tag or token-pool, with its NAME, or a kind, with a FIELD or FIELD=VALUE,
or alone. 'FIELD>VALUE' (also >=, < and <=, in quotes) finds amounts that compare so: quantities, durations and
numbers. The answer has every setting, launch plan and key of the configuration that says it; how many scopes and
launch plans have it from there (--reach lists them); who may use it by use grants; the executions that wait or run by
it, of a cluster also those that wait for it without a cluster and name it; and at how many of the scopes executions
would be refused if it went away. Of a token pool it has the quotas that bound it, the task types, launch plans and
workflows that ask for its tokens, and the executions that need some. Nothing is written.

It is of the first hundred that say it and the first thousand scopes below them; --all goes on to the end. The exit
status is 3 for a name that there is not and was not, and that nothing uses.
"""


@command(
    help=_HELP,
    params=[
        Argument(
            "noun",
            metavar="NOUN",
            explanation="pool, label, cluster, queue, queue-tag, token-pool, or a kind.",
            shell_complete=complete_kind,
        ),
        Argument(
            "name",
            required=False,
            metavar="[NAME]",
            explanation="Its name; of a kind a field, FIELD=VALUE or 'FIELD>VALUE'.",
        ),
        Option(["--reach"], is_flag=True, help="List the scopes that have it."),
        Option(["--all", "everything"], is_flag=True, help="Every use and scope, not only the first ones."),
    ],
    examples=[
        "rainbowctl where-used pool gpu",
        "rainbowctl where-used cluster east --reach",
        "rainbowctl where-used queue-tag critical -o json",
        "rainbowctl where-used token-pool hive",
        "rainbowctl where-used task-resource-attribute limits.cpu=2",
        "rainbowctl where-used task-resource-attribute 'limits.memory>4Gi'",
    ],
)
def where_used(session: Session, noun: str, name: str | None, *, reach: bool, everything: bool) -> None:
    session.fold()
    query = _query(session, noun, name)
    answer = session.client.uses(query, reach=reach, everything=everything)
    printer = session.printer
    is_unused, deleted = _is_unused(answer), answer.get("deleted_by")
    near = did_you_mean(answer.get("name") or "", answer.get("closest", []))
    unknown = "" if answer["known"] or deleted else f"No {noun} is called '{answer['name']}'.{near}"
    if unknown and noun == "queue":
        unknown += f" A tag is asked for by `rainbowctl where-used queue-tag {answer['name']}`."
    is_shown = printer.machine_output((_name(use) for use in answer["uses"]), answer)
    if is_unused and unknown:
        raise NotFound(f"{unknown} {_describe_unused(noun, answer)}", name=f"{noun.replace('-', '_')}_not_found")
    if is_shown:
        return
    alike = f" Did you mean {listed(answer['closest'], 'or')}?" if answer["known"] and answer.get("closest") else ""
    printer.sentence(f"{_describe_unused(noun, answer)}{alike}" if is_unused else _opening(noun, answer))
    if unknown:
        printer.warning(unknown)
    elif deleted:
        printer.warning(f"The {noun} '{answer['name']}' was deleted by {describe_provenance(printer, deleted)}.")
    for key in ("pools", "labels"):
        if answer.get(key) and not is_unused:
            printer.sentence(f"It is in the {key} {', '.join(answer[key])}.")
    if is_unused:
        return
    _table(
        session,
        answer["uses"],
        {
            "SET BY": lambda use: _set_by(printer, use, answer.get("revisions")),
            "KIND": lambda use: session.client.noun(use["resource_type"]),
            "FIELDS": _fields,
        },
    )
    _show_revisions(printer, answer)
    if answer.get("scopes"):
        _table(
            session,
            answer["scopes"],
            {
                "SCOPE": _scope,
                "KIND": lambda place: session.client.noun(place["resource_type"]),
                "WITHOUT IT": _without,
            },
        )
    _show_use_grants(session, answer)
    _show_token_requests(session, answer)
    _show_executions(session, noun, answer)
    if answer.get("token"):
        printer.note("There is more: --all goes on to the end.")


def _is_unused(answer: Document) -> bool:
    """Whether no setting, launch plan, configuration, use grant or unfinished execution says it."""
    executions = answer["executions"]
    has_none = not answer["uses"] and not answer["reach"]["scopes"] and not answer.get("token")
    has_none = has_none and not answer.get("use_grants") and not answer.get("token_requests", {}).get("requests")
    return has_none and bool(executions["complete"]) and not executions["phases"]


def _describe_unused(noun: str, answer: Document) -> str:
    """That nothing uses it, and of a cluster which pools and labels have it."""
    title = f"{noun} '{answer['name']}'" if answer.get("name") else noun
    groups = [f"{key} {', '.join(answer[key])}" for key in ("pools", "labels") if answer.get(key)]
    beside = f" but the {' and the '.join(groups)} that it is in" if groups else ""
    others = "no setting, active launch plan, configuration or unfinished execution"
    others += " that you may see" if answer.get("partial") else ""
    return f"Nothing uses {title}{beside}: {others}, {as_of(answer)}."


def _opening(noun: str, answer: Document) -> str:
    """The answer in one sentence: how often it is named, what inherits it, and what depends on it."""
    counts, more = answer["reach"], "at least " if answer.get("token") else ""
    title = f"{noun} {answer['name']}".strip()
    parts = [
        _times(noun, answer, title, more),
        f"{more}{count(counts['scopes'], 'scope')} {'has' if counts['scopes'] == 1 else 'have'} it, "
        f"{count(counts['launch_plans'], 'launch plan')} among them",
    ]
    if noun == _TOKEN_POOL:
        parts.append(_describe_requests(answer))
    elif noun in _NOUNS:
        would = "without it executions would be" if answer["known"] else "executions are"
        waiting = f" and wait at {more}{count(counts['waiting'], 'scope')}" if counts.get("waiting") else ""
        if not answer.get("partial") or counts["refused"] or counts.get("waiting"):
            parts.append(f"{would} refused at {more}{count(counts['refused'], 'scope')}{waiting}")
    seen = " of what you may see" if answer.get("partial") else ""
    return f"{'; '.join(parts)};{seen} {as_of(answer)}."


def _describe_requests(answer: Document) -> str:
    """How many launch plans and workflows ask for tokens of a pool, and of how many the executions would be refused."""
    requests = answer["token_requests"]
    number, more = requests["launch_plans"] + requests["workflows"], "" if requests["complete"] else "at least "
    asking = f"{count(requests['launch_plans'], 'launch plan')} and {count(requests['workflows'], 'workflow')}"
    if not number:
        return "no launch plan or workflow asks for it"
    would = "without it executions would be" if answer["known"] else "executions are"
    return f"{more}{asking} {'asks' if number == 1 else 'ask'} for it; {would} refused of {more}{requests['refused']}"


def _times(noun: str, answer: Document, title: str, more: str) -> str:
    """How often settings say it; of a cluster apart from how often they say a pool or label that it is in."""
    uses = answer["uses"]
    if noun != "cluster":
        return f"{title} is set {more}{count(len(uses), 'time')}"
    named = sum(answer["name"] in use["fields"].values() and _is_label(use, answer) for use in uses)
    return (
        f"{title} is set {more}{count(named, 'time')} by its name and {more}{count(len(uses) - named, 'time')} by a "
        "pool or label that it is in"
    )


def _is_label(use: Document, answer: Document) -> bool:
    """Whether a setting says the cluster's own name, and not that of a pool or label which is called the same."""
    return use["resource_type"] == "EXECUTION_CLUSTER_LABEL" and answer["name"] not in (answer.get("labels") or ())


def _query(session: Session, noun: str, name: str | None) -> Document:
    if noun in _NOUNS:
        if not name:
            raise InvalidInput(f"Which {noun}? Write `rainbowctl where-used {noun} NAME`.")
        return {noun.replace("-", "_"): name}
    try:
        query: Document = {"resource_type": session.client.kind(noun).name}
    except InvalidInput:
        nouns = [*_NOUNS, *(kind.noun for kind in session.client.kinds())]
        hint = did_you_mean(noun, nouns) or f" There are {', '.join(_NOUNS)}, and the kinds of `rainbowctl get kind`."
        raise InvalidInput(f"There is no noun {noun!r}.{hint}") from None
    compared = _COMPARED.fullmatch(name or "")
    field, sign, value = compared.groups() if compared else (name, "", "")
    query |= {"field": field} if field else {}
    query |= {"value": value} if sign else {}
    return query | ({"comparison": SIGNS[sign]} if sign not in ("", "=") else {})


def _table(session: Session, rows: list[Document], columns: Columns) -> None:
    printer = session.printer
    shown = rows if printer.is_wide else rows[:SHOWN]
    if shown:
        printer.line()
        printer.rows(shown, columns)
    if len(shown) < len(rows):
        printer.note(f"{len(rows) - len(shown)} more: -o wide shows them.")
    printer.line()


def _show_use_grants(session: Session, answer: Document) -> None:
    """Who may use it by a grant; an older admin does not say, nor does any to who may not read that."""
    grants = answer.get("use_grants")
    if not grants:
        return
    number = answer["use_grant_count"]
    session.printer.sentence(f"{count(number, 'use grant')} {'lets' if number == 1 else 'let'} it be used:")
    _table(session, grants, USE_GRANT_COLUMNS)
    if number > len(grants):
        session.printer.note(f"`rainbowctl get use-grant` lists those beyond the first {len(grants)}.")


def _show_token_requests(session: Session, answer: Document) -> None:
    """What asks for tokens of a pool, of the first ones."""
    requests = answer.get("token_requests", {}).get("requests")
    if requests:
        columns: dict[str, Any] = {"ASKED BY": _asked_by, "AMOUNT": "amount", "SAID BY": _said_by}
        _table(session, requests, {**columns, "WITHOUT IT": _without_tokens})


def _asked_by(request: Document) -> str:
    return f"{_scope(request)} (version {request['version']})" if "version" in request else "jobs of a task type"


def _said_by(request: Document) -> str:
    """Where the amount is given: in the definition itself, by the workflow of a launch plan, or in configuration."""
    version = request.get("workflow_version")
    return request.get("key") or (f"workflow version {version}" if version else "its definition")


def _without_tokens(request: Document) -> str:
    return "" if request["level"] == "platform" else _without(request)


def _show_executions(session: Session, noun: str, answer: Document) -> None:
    affected = answer["executions"]
    phases = ", ".join(f"{number} {phase}" for phase, number in sorted(affected["phases"].items()))
    newest = "" if affected["complete"] else " among the newest 1000"
    number = affected.get("waiting_for_it")  # of a cluster; an older admin does not say
    waiting = f"; {number} of them {'waits' if number == 1 else 'wait'} for it without a cluster" if number else ""
    session.printer.sentence(f"Executions that have not ended{newest}: {phases or 'none'}{waiting}.")
    if affected["executions"]:
        columns: dict[str, Any] = {"EXECUTION": _execution, "PHASE": "phase"}
        _table(session, affected["executions"], columns | ({"WHERE": _where} if number is not None else {}))
    unlisted = sum(affected["phases"].values()) - len(affected["executions"])
    if unlisted > 0:
        at_least = "" if affected["complete"] else "at least "
        chosen = f"--{noun} {answer['name']} --phase {','.join(sorted(affected['phases']))}"
        lists_all = f": `rainbowctl get execution -A {chosen}` lists all." if noun in _SELECTED else "."
        session.printer.note(f"Beyond the newest {len(affected['executions'])}, {at_least}{unlisted} more{lists_all}")


def _execution(execution: Document) -> str:
    return str(ExecutionId.from_document(execution["id"]))


def _where(execution: Document) -> str:
    return "waits for it" if execution.get("waits_for_it") else "at it"


def _name(use: Document) -> str:
    return Scope.from_document(use).name(use["resource_type"]) if use["level"] != "platform" else str(use["key"])


def _set_by(printer: Printer, use: Document, revisions: Mapping[str, Document] | None) -> str:
    if use["level"] == "launch-plan-definition":
        registered = use.get("registered_by")  # an older admin does not say
        by = f", {describe_registration(printer, registered)}" if registered else ""
        return f"definition of {_scope(use)} (version {use['version']}{by})"
    return describe_setter(printer, use, revisions if printer.is_wide else None)


def _show_revisions(printer: Printer, answer: Document) -> None:
    """The revisions that the table names by their number alone; wide output has all of each in its place."""
    known = answer.get("revisions") or {}
    uses = [] if printer.is_wide else answer["uses"][:SHOWN]
    numbers = {use.get("revision") or use.get("version") for use in uses if use["level"] != "launch-plan-definition"}
    for number in sorted(number for number in numbers if str(number) in known):
        printer.sentence(describe_revision(printer, number, known), indent="  ")
    if uses:
        printer.line()


def _scope(place: Document) -> str:
    return Scope.from_document(place).describe()


def _fields(use: Document) -> str:
    """The fields that say it, each entry of a value by its own path: `envs.values.MODE=night`."""
    parts = ((path, *part) for path, value in use["fields"].items() for part in leaf_parts(value).items())
    return ", ".join(f"{path}.{name}={text}" if name else f"{path}={text}" for path, name, text in parts)


def _without(place: Document) -> str:
    return "refused" if place["refused"] else "waits" if place.get("waiting") else "goes on"
