"""`get cluster NAME`: all that is known of one cluster, in lines below each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ctl.cli.output import Columns, Printer, Time
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.executions import ExecutionId
from ctl.client.times import format_duration
from ctl.client.words import count
from ctl.commands.executions.tables import back_off_of
from ctl.files.fleet import show_able, show_amounts

#: Nodes are shared: one that is not free may have room for more.
_SHOWN = {"nodes": "nodes (free: idle)"}
#: Executions of each list that an answer has.
_MOST_LISTED = 10
_AMOUNTS = ("capacity", "reported_free", "assigned", "free")


def show_details(session: Session, cluster: Document, state: str, switched_by: str, defined_by: str) -> None:
    """Print a cluster; with `-o wide` times are shown as they are."""
    printer = session.printer.folded()
    printer.sentence(str(cluster.get("summary") or f"cluster {cluster['name']}"))
    for name, text in _lines(printer, cluster, state, switched_by, defined_by):
        if text:
            printer.sentence(f"{name:<14}{text}", indent=" " * 14)
    resources = list(dict.fromkeys(name for key in _AMOUNTS for name in cluster.get(key) or {}))
    if resources:
        printer.line()
        amounts = [
            [_SHOWN.get(name, name), *(str((cluster.get(key) or {}).get(name, "")) for key in _AMOUNTS)]
            for name in resources
        ]
        printer.table(["RESOURCE", "TOTAL", "REPORTED FREE", "ASSIGNED SINCE", "FREE"], amounts)
    if cluster.get("by_pool"):
        printer.line()
        printer.rows(list(cluster["by_pool"].items()), _POOL_COLUMNS)
    executions = [*(cluster.get("leased_executions") or []), *(cluster.get("next_executions") or [])]
    unplaced = cluster.get("waiting_for_it") or []
    executions += [{**execution, "why_unplaced": execution["reason"]["code"]} for execution in unplaced]
    if executions:
        printer.line()
        for execution in executions if _tells_outlook(cluster) else ():
            if execution.get("outlook"):
                printer.sentence(f"{execution['id']['name']}: {execution['outlook']}", indent="  ")
        printer.rows(
            executions,
            {
                "EXECUTION": lambda execution: str(ExecutionId.from_document(execution["id"])),
                "PHASE": _phase,
                "SINCE": Time(
                    lambda execution: (
                        execution.get("phase_since") or execution.get("started_at") or execution.get("created_at")
                    )
                ),
                "ATTEMPT": lambda execution: execution.get("attempt_number") or execution.get("attempt"),
                "LEASE UNTIL": Time("lease_expires_at", is_ahead=True),
                "ENDS BY": Time("ends_by", is_ahead=True),
            },
        )
    if printer.is_wide and cluster.get("ignored_settings"):
        printer.line()
        _show_ignored(printer, session, cluster["ignored_settings"])


def _show_ignored(printer: Printer, session: Session, ignored: Mapping[str, Sequence[Document]]) -> None:
    """The fields of settings that the cluster's engine does nothing with."""
    rows = [
        [session.client.kind(kind).noun, effect["field"], effect["effect"]]
        for kind, effects in ignored.items()
        for effect in effects
    ]
    printer.table(["ITS ENGINE IGNORES", "FIELD", "WHAT BECOMES OF IT"], rows)


def _tells_outlook(cluster: Document) -> bool:
    """Whether what runs at a cluster may end otherwise than by itself or its limit."""
    return bool(cluster.get("draining") or cluster.get("unreachable_since"))


def _phase(execution: Document) -> str:
    """The phase of an execution, and how long it is still in back-off, or why it has no cluster."""
    why = back_off_of(execution) or execution.get("why_unplaced")
    return f"{execution['phase']} ({why})" if why else str(execution["phase"])


def _silence(printer: Printer, since: str | None) -> str:
    """`for 54 s`; in wide output since when."""
    if not since:
        return ""
    return f"since {printer.when(since)}" if printer.is_wide else f"for {printer.when(since).removesuffix(' ago')}"


def _lines(
    printer: Printer, cluster: Document, state: str, switched_by: str, defined_by: str
) -> Iterator[tuple[str, str]]:
    when = printer.when
    yield "state", state
    yield "silent", _silence(printer, cluster.get("unreachable_since"))
    yield "", str(cluster.get("unreachable_reason") or "")
    yield "", str(cluster.get("when_lost") or "")
    yield "heard from", when(cluster.get("last_sync_at")) or "never"
    if cluster.get("agent"):
        host = f"on {cluster['agent_host']}, " if cluster.get("agent_host") else ""
        began = f", since {when(cluster['agent_since'])}" if cluster.get("agent_since") else ""
        yield "agent", f"{host}version {cluster.get('agent_version') or 'unknown'}{began}"
        yield "", f"process {cluster['agent']}"
    engine = " ".join(str(cluster[key]) for key in ("engine", "engine_version") if cluster.get(key))
    plugins = f" (plugins {', '.join(cluster['plugins'])})" if cluster.get("plugins") else ""
    yield "engine", f"{engine}{plugins}"
    yield "problem", str(cluster.get("problem") or "")
    yield "ignores", _ignored(cluster, is_wide=printer.is_wide)
    unplaced = len(cluster.get("waiting_for_it") or [])
    if any(cluster.get(key) for key in ("running", "leases", "waiting")) or unplaced:
        yield "runs", f"{cluster.get('running')}, leases {cluster.get('leases')}"
        yield "waits", f"{cluster.get('waiting')}{_unplaced(unplaced)}"
    else:
        yield "runs", "nothing, and nothing waits"
    yield "held back", f"{cluster['waits_for']}: its agent takes nothing more" if cluster.get("waits_for") else ""
    yield "waited", _recent_wait(cluster.get("recent_wait"))
    yield "bids", _bids(cluster.get("bids"))
    yield "reported", when(cluster.get("reported_at"))
    for warning in cluster.get("report_warnings") or []:  # an older admin does not say
        yield "", f"warning: {warning}"
    yield "eta", str(cluster.get("eta") or "")
    yield "switched by", switched_by
    yield "drains until", when(cluster.get("drain_deadline"), is_ahead=True)
    yield "labels", ", ".join(cluster.get("labels") or [])
    yield "cost", str(cluster.get("cost") if cluster.get("cost") is not None else "not set")
    yield "namespaces", "made by its agent (clusterResources)" if cluster.get("cluster_resources") else ""
    yield "endpoint", str(cluster.get("endpoint") or "")
    yield "description", str(cluster.get("description") or "")
    yield "graph", _described(printer, cluster.get("described"))
    version = f", version {cluster['version']}" if cluster.get("version") else ""
    source = "nothing: only a pool or label names it" if cluster.get("source") == "expected" else cluster.get("source")
    yield "defined by", defined_by or f"{source}{version}"


def _unplaced(number: int) -> str:
    """How many wait without a cluster and name this one, as far as they are listed."""
    if not number:
        return ""
    return f", and {number}{' or more' if number >= _MOST_LISTED else ''} without a cluster, whose requests name it"


def _ignored(cluster: Document, *, is_wide: bool) -> str:
    """How many fields of settings its engine ignores, which wide output lists; an older admin does not say."""
    number = sum(len(effects) for effects in (cluster.get("ignored_settings") or {}).values())
    where = "listed below" if is_wide else "`-o wide` lists them"
    return f"{count(number, 'field')} of settings; {where}" if number else ""


def _recent_wait(wait: Document | None) -> str:
    """How long the newest executions waited until they started; an older admin does not say."""
    if not wait:
        return ""
    seconds, number, examined = wait["seconds"], wait["executions"], wait["examined"]
    return (
        f"{format_duration(seconds)} on average: {number} that started here first, of the newest {examined} placed here"
    )


def _described(printer: Printer, described: Document | None) -> str:
    """By whom it was described last, and what differs from before; an older admin does not say."""
    if not described:
        return ""
    by = "its agent" if described.get("by_agent") else described["author"]
    differs = ", ".join(described["differences"])
    where = "" if described.get("removed") else "; `--graph` draws it"
    return f"revision {described['revision']} by {by}, {printer.when(described['at'])}: {differs or 'as before'}{where}"


def _bids(record: Document | None) -> str:
    """How good its bids were; an older admin does not say."""
    if not record:
        return ""
    late = format_duration(record["late_seconds"])
    return f"{record['kept']} of {record['promised']} starts as promised, {late} late on average"


_POOL_COLUMNS: Columns = {
    "POOL": lambda pool: pool[0],
    "ABLE": lambda pool: show_able(pool[1]),
    "TOTAL": lambda pool: show_amounts(pool[1].get("capacity")),
    "FREE": lambda pool: show_amounts(pool[1].get("free")),
}
