"""Clusters: places that run work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, request_size, selected_fields, typed_choice
from ctl.cli.options import Argument, Option, definition_completer, option
from ctl.cli.output import Columns, Field, Sentence, Time, text_cells
from ctl.cli.provenance import describe_provenance, show_author
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, InvalidRequest
from ctl.client.facts import CLUSTER_STATES, SCHEMAS
from ctl.client.times import parse_timestamp
from ctl.client.words import count, listed
from ctl.commands.fleet.cluster_descriptions import VIEWS, show_view
from ctl.commands.fleet.definitions import FleetNoun, locate_error, show
from ctl.commands.fleet.members import commands, with_text

_STATE_HELP = """Report the state of a cluster in place of its agent; for tests, and for clusters without an agent.

The file is YAML or JSON with any of capacity, free (both of cpu, memory, gpu, ephemeral_storage, nodes, executions),
eta (30s), plugins, engine, engine_version and properties. It replaces the state that was reported before.
A flat file is taken too: nodes_free is nodes of what is free, and any other plain value a property of that name.
"""

#: Characters of an agent's id that a table shows; `-o json` has all of them.
_SHOWN_ID = 12

_NAME = Argument("name", explanation="Name of the cluster.", shell_complete=definition_completer("cluster"))

_PARAMETERS = [
    option(
        "clusterEndpoint",
        metavar="URL",
        help="Endpoint of the cluster for engines and consoles; --endpoint is that of the admin.",
    ),
    Option(["--cost"], metavar="NUMBER", help="Price of its work, in any unit."),
    Option(
        ["--capacity"],
        metavar="cpu=64,memory=256Gi,…",
        help="Capacity: cpu, memory, gpu, ephemeral_storage, nodes, executions; replaces all that was set.",
    ),
    Option(
        ["--enabled/--disabled", "enabled"],
        default=None,
        help="Whether it takes part in placement; true by default.",
    ),
    Option(
        ["--clusterResources/--noClusterResources", "--cluster-resources/--no-cluster-resources", "cluster_resources"],
        default=None,
        help="Whether its agent makes the namespaces of projects from templates; false by default.",
    ),
    Option(["--description"], metavar="TEXT", help="For people."),
    option("authType", metavar="TYPE", help="How engines and consoles authenticate."),
    option("tokenPath", parameter="auth_token_path", metavar="PATH", help="Path of their token."),
    option("certPath", parameter="auth_cert_path", metavar="PATH", help="Path of their certificate."),
]


def _set(definition: Document, flags: Mapping[str, Any]) -> Document:
    from ctl.files.fleet import parse_amounts, parse_cost

    changed = with_text(definition, "endpoint", flags["cluster_endpoint"])
    auth = changed.get("auth") or {}
    for key in ("type", "token_path", "cert_path"):
        auth = with_text(auth, key, flags[f"auth_{key}"])
    changed = with_text(changed, "auth", auth if auth or "auth" in changed else None)
    changed = with_text(changed, "enabled", flags["enabled"])
    changed = with_text(changed, "cluster_resources", flags["cluster_resources"])
    if flags["cost"] is not None:
        changed = with_text(changed, "cost", flags["cost"] and parse_cost(flags["cost"], "--cost"))
    if flags["capacity"] is not None:
        changed = with_text(changed, "capacity", parse_amounts(flags["capacity"], "--capacity"))
    return with_text(changed, "description", flags["description"])


#: What operators decide about a cluster; of two by one event the first is shown.
_SWITCHED = ("disabled", "draining", "cordoned")


def _state_words(cluster: Document) -> list[str]:
    """Its state, and what an operator has decided about it."""
    words = ["disabled"] if cluster.get("enabled") is False else []
    provenance = cluster.get("provenance") or {}
    is_apart = provenance.get("cordoned", provenance.get("draining")) != provenance.get("draining")
    if cluster.get("cordoned") and (is_apart or not cluster.get("draining")):
        words.append("cordoned")  # a drain cordons too
    if cluster.get("draining"):
        words.append("draining")
    return [*text_cells(cluster, "state"), *words]


def state_words(cluster: Document) -> str:
    """The same as tables show it: `ready,draining`."""
    return ",".join(_state_words(cluster))


def state_until(cluster: Document) -> str:
    """Its state as `state_words`, and until when it drains, which is its last word."""
    deadline = cluster.get("drain_deadline") if cluster.get("draining") else None
    time = parse_timestamp(deadline)
    if time is None:
        return state_words(cluster)
    return f"{state_words(cluster)}{' until' if time > datetime.now(UTC) else ', its deadline was at'} {deadline}"


def _amounts(amounts: Document | None) -> str:
    from ctl.files.fleet import show_amounts

    return show_amounts(amounts)


_COLUMNS: Columns = {
    "NAME": "name",
    "STATE": Sentence(state_until),
    "LAST SYNC": Time("last_sync_at"),
    "POOLS": lambda cluster: ", ".join(cluster.get("pools") or []),
    "CAPACITY": lambda cluster: _amounts(cluster.get("capacity")),
    "FREE": lambda cluster: _amounts(cluster.get("free")),
    "LEASES": "leases",
    "WAITING": "waiting",
    "ENGINE": "engine",
    "SOURCE": "source",
}


def _bids_kept(cluster: Document) -> str:
    """`41 of 44`: how many of the starts that its bids promised came about in time."""
    record = cluster.get("bids")
    return f"{record['kept']} of {record['promised']}" if record else ""


_WIDE_COLUMNS: Columns = {
    "ENGINE VERSION": "engine_version",
    "AGENT": lambda cluster: (cluster.get("agent") or "")[:_SHOWN_ID],
    "AGENT HOST": "agent_host",
    "AGENT SINCE": Time("agent_since"),
    "AGENT VERSION": lambda cluster: cluster.get("agent_version") or (cluster.get("agent") and "unknown"),
    "UNREACHABLE": Sentence("unreachable_reason"),
    "RUNNING": "running",
    "REPORTED FREE": lambda cluster: _amounts(cluster.get("reported_free")),
    "ASSIGNED": lambda cluster: _amounts(cluster.get("assigned")),
    "LABELS": lambda cluster: ", ".join(cluster.get("labels") or []),
    "CORDON REASON": Sentence("cordon_reason"),
    "DRAIN DEADLINE": Time("drain_deadline", is_ahead=True),
    "COST": "cost",
    "ETA": "eta",
    "BIDS KEPT": _bids_kept,
    "ENDPOINT": "endpoint",
    "REPORTED AT": Time("reported_at"),
    "VERSION": "version",
    "DESCRIPTION": "description",
}


def _show_details(session: Session, cluster: Document, switched_by: str, defined_by: str) -> None:
    from ctl.commands.fleet.cluster_details import show_details

    show_details(session, cluster, state_words(cluster), switched_by, defined_by)


#: Clusters that the sentence about a list names; the others are counted.
_MOST_NAMED = 5


def summary(clusters: Sequence[Document]) -> str:
    """How many clusters of a list take work, and why the others do not."""
    if any("takes_work" not in cluster for cluster in clusters):
        return ""  # an older admin does not say
    off = [cluster for cluster in clusters if not cluster["takes_work"]]
    # These get what no cluster that was seen could run.
    expected = [cluster["name"] for cluster in off if cluster["takes_none_because"] == ["expected"]]
    named = [
        f"{cluster['name']} ({', '.join(cluster['takes_none_because'])})"
        for cluster in off
        if cluster["name"] not in expected
    ]
    able = len(clusters) - len(off)
    free = _free_together([cluster for cluster in clusters if cluster["takes_work"]])
    parts = [f"{able} of {count(len(clusters), 'cluster')} {'takes' if 1 in (able, len(clusters)) else 'take'} work"]
    full = [
        f"{cluster['name']}{f' ({waiting} waiting)' if (waiting := cluster.get('waiting')) else ''}"
        for cluster in clusters
        if cluster.get("full")
    ]
    parts += [f"free there are {', '.join(free)}"] if free else []
    parts += [f"{_first(full)} {'is' if len(full) == 1 else 'are'} full"] if full else []
    parts += [f"{_first(named)} {'does' if len(named) == 1 else 'do'} not"] if named else []
    parts += [f"{_first(expected)} (expected: no agent has been seen)"] if expected else []
    return f"{'; '.join(parts)}."


#: What is added up over clusters; their nodes and executions are not alike.
_ADDED = ("cpu", "memory", "gpu")


def _free_together(clusters: Sequence[Document]) -> list[str]:
    """What is free on some clusters together, of what these have: `12.5 of 72 cpu`."""
    from ctl.client.quantities import parse_quantity, show_bytes

    parts = []
    for resource in _ADDED:
        told = [(cluster.get("free") or {}, cluster.get("capacity") or {}) for cluster in clusters]
        amounts = [(free[resource], total[resource]) for free, total in told if resource in free and resource in total]
        if amounts:
            free, total = (sum(map(parse_quantity, column)) for column in zip(*amounts, strict=True))
            shown = [show_bytes(int(n)) if resource == "memory" else f"{float(n):.15g}" for n in (free, total)]
            parts.append(f"{shown[0]} of {shown[1]} {resource}")
    return parts


def _first(names: Sequence[str]) -> str:
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return listed([*names[:_MOST_NAMED], *more])


_FIELDS = (
    *("name", "state", "enabled", "cordoned", "draining", "source", "engine", "engine_version", "agent_host"),
    *("leases", "waiting", "running", "cost", "last_sync_at", "agent_version", "pools", "labels", "version"),
    "description",
)
#: What is free for new work, by the field that it can be selected and sorted by.
_FREE = {f"free_{resource}": resource for resource in ("cpu", "memory", "gpu", "executions")}


def _free(resource: str) -> Field:
    def amount(cluster: Document) -> float | None:
        from ctl.client.quantities import parse_quantity

        free = (cluster.get("free") or {}).get(resource)
        return None if free is None else float(parse_quantity(free))

    return amount


_CLUSTER = FleetNoun(
    name="cluster",
    about=(
        "A cluster is a place that runs work. Its state is expected until its agent has synced once, pending while "
        "it waits to be admitted, then ready; unreachable when its agent stops syncing, and lost when that lasts. "
        "`enabled` in its definition applies until `rainbowctl enable` or `disable` is used. FREE is what its agent "
        "last reported, less what was assigned since; on one that takes no work nothing is free."
    ),
    columns=_COLUMNS,
    wide_columns=_WIDE_COLUMNS,
    states=_SWITCHED,
    fields={
        **{field: field for field in _FIELDS},
        "state": _state_words,
        **{field: _free(resource) for field, resource in _FREE.items()},
    },
    amounts=tuple(_FREE),
    words={"state": (*CLUSTER_STATES, *_SWITCHED)},
    parameters=_PARAMETERS,
    filters=[
        Option(
            [f"--{noun}"], metavar="NAME", help=f"Clusters in this {noun}.", shell_complete=definition_completer(noun)
        )
        for noun in ("pool", "label")
    ],
    set=_set,
    summary=summary,
    details=_show_details,
    view_parameters=VIEWS,
    view=show_view,
    examples={
        "get": [
            "rainbowctl get cluster",
            "rainbowctl get cluster a",
            "rainbowctl get clusters --pool gpu -o wide",
            "rainbowctl get cluster --selector 'free_gpu>0,free_memory>=32Gi' --filter.sortBy free_gpu",
            "rainbowctl get cluster a -o yaml",
            "rainbowctl get cluster a --graph",
            "rainbowctl get cluster a --description -o json",
        ],
        "create": [
            "rainbowctl create cluster a --capacity cpu=64,memory=256Gi,gpu=8 --cost 1.5",
            "rainbowctl create cluster a --clusterEndpoint https://a.example.com --authType file_path "
            "--tokenPath /var/run/a/token --certPath /var/run/a/ca.crt",
            "rainbowctl create cluster --file a.yaml --dryRun",
        ],
        "update": [
            "rainbowctl update cluster a --capacity cpu=128,memory=512Gi,gpu=8 -m 'new racks'",
            "rainbowctl update cluster a --cost 2 --description 'until March' --dryRun",
        ],
        "delete": ["rainbowctl delete cluster a", "rainbowctl delete cluster a b --force -m 'sold'"],
    },
)
get_cluster, create_cluster, update_cluster, delete_cluster = commands(_CLUSTER)

_EVENT_LISTING = Listing(
    fields={name: name for name in ("number", "at", "type", "reason", "claimed_by")}, order="number", limit=20
)
_LARGEST_PAGE = 500


@command(
    help="Show what happened to a cluster, newest first: registered, ready, lost, cordoned, draining. The reports of "
    "its agent, one for each change of its load, are left out and counted, unless --all or a selector by type asks for "
    "them.",
    params=[
        _NAME,
        Option(["--all", "with_reports"], is_flag=True, help="Also show each report of its agent (REPORTED)."),
        *_EVENT_LISTING.options(),
    ],
    examples=[
        "rainbowctl get cluster-event a",
        "rainbowctl get cluster-event a --all",
        "rainbowctl get cluster-event a --filter.fieldSelector 'type in (LOST;READY),at>7d'",
        "rainbowctl get cluster-events a --filter.limit 100 -o json",
    ],
)
def get_cluster_event(session: Session, name: str, with_reports: bool, **flags: Any) -> None:
    page_size = request_size(flags, _EVENT_LISTING, _LARGEST_PAGE)
    left_out = 0

    def read() -> Iterator[Document]:
        nonlocal left_out
        reports = with_reports or "type" in selected_fields(flags, _EVENT_LISTING)
        for page in session.client.cluster_event_pages(name, page_size=page_size, reports=reports):
            left_out += page.get("left_out") or 0
            yield from page["events"]

    def show_end(event: Document) -> str:
        return describe_provenance(session.printer, event["ended_by"]) if event.get("ended_by") else ""

    events = choose_rows(session, read(), flags, _EVENT_LISTING, "event", where=f"of cluster {name}")
    if left_out:
        session.printer.note(f"{count(left_out, 'report')} of its agent left out: --all shows them.")
    session.printer.show(
        (f"cluster-event/{name}/{event.get('number')}" for event in events),
        events,
        events,
        {
            "AT": Time("at"),
            "EVENT": "type",
            "REASON": Sentence("reason", is_past=True),
            "BY": show_author,
            "NUMBER": "number",
            **({"DEADLINE": Time("deadline", is_ahead=True)} if any(event.get("deadline") for event in events) else {}),
            **({"REVISION": "revision"} if any(event.get("revision") for event in events) else {}),
            **({"ENDED BY": show_end} if any(event.get("ended_by") for event in events) else {}),
        },
        empty="No events match."
        if typed_choice(flags)
        else f"Cluster {name} has no events yet{' but reports' if left_out else ''}.",
    )


@command(
    help=_STATE_HELP,
    params=[_NAME, Option(["-f", "--file"], metavar="FILE", required=True, help="File with the state; - is stdin.")],
    examples=[
        "rainbowctl update cluster-state a --file state.yaml",
        "printf 'free: {cpu: 12, gpu: 0}\\n' | rainbowctl update cluster-state a --file -",
    ],
)
def update_cluster_state(session: Session, name: str, file: str) -> None:
    from ctl.client.scopes import Scope
    from ctl.files.attributes import AttributeFile
    from ctl.files.cluster_states import read_state

    schema = SCHEMAS["cluster_state"]
    source, state, positions = read_state(file, schema)
    if not state:
        names = ", ".join(schema["properties"])
        raise InvalidInput(f"{source.name} sets nothing: give at least one of {names}.")
    try:
        answer = session.client.report_cluster_state(name, state)
    except InvalidRequest as error:
        document = AttributeFile(name=source.name, scope=Scope(), payload=state, positions=positions)
        raise locate_error(error, document) from None
    if session.printer.is_table:
        session.printer.note(f"Reported the state of cluster {name}.")
        session.printer.warnings(answer.get("warnings") or [])
    else:
        show(session, _CLUSTER, [{"name": name, **(answer.get("cluster") or {})}], answer)
