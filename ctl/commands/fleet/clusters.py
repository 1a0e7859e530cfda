"""Clusters: places that run work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click

from ctl.cli.groups import Command
from ctl.cli.options import Argument, Option, definition_completer
from ctl.cli.output import text_cells
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, InvalidRequest
from ctl.client.facts import SCHEMAS
from ctl.client.times import format_duration, parse_timestamp
from ctl.client.words import flags as flag_names
from ctl.commands.fleet.definitions import Part, create_definition, get_definition, locate_error, show
from ctl.commands.fleet.delete import delete_definition
from ctl.commands.fleet.members import with_text
from ctl.commands.fleet.update import update_definition

_STATE_HELP = """Report the state of a cluster in place of its agent; for tests, and for clusters without an agent.

The file is YAML or JSON with any of capacity, free (both of cpu, memory, gpu, ephemeral_storage, nodes, executions),
eta (30s), plugins, engine, engine_version and properties. It replaces the state that was reported before.
"""


def get_cluster() -> click.Command:
    return get_definition(_part())


def create_cluster() -> click.Command:
    return create_definition(_part())


def update_cluster() -> click.Command:
    return update_definition(_part())


def delete_cluster() -> click.Command:
    return delete_definition(_part())


def get_cluster_event() -> click.Command:
    def run(session: Session, name: str, limit: int) -> None:
        events = list(islice(session.client.cluster_events(name, page_size=min(limit, 500)), limit))
        printer = session.printer
        if printer.machine_output((f"cluster-event/{name}/{event.get('number')}" for event in events), events):
            return
        if events:
            printer.table(["AT", "EVENT", "REASON", "BY"], [text_cells(event, *_EVENT_KEYS) for event in events])
        else:
            printer.note(f"Cluster {name} has no events yet.")

    return Command(
        "cluster-event",
        run,
        help="Show what happened to a cluster, newest first: registered, ready, lost, cordoned, draining, reported.",
        params=[
            _cluster_argument(),
            Option(
                ["--limit"],
                metavar="N",
                type=click.IntRange(min=1),
                default=20,
                show_default=True,
                help="How many at most.",
            ),
        ],
        examples=["rainbowctl get cluster-event a", "rainbowctl get cluster-events a --limit 100 -o json"],
    )


_EVENT_KEYS = ("at", "type", "reason", "claimed_by")


def update_cluster_state() -> click.Command:
    def run(session: Session, name: str, file: str) -> None:
        from ctl.client.scopes import Scope
        from ctl.files.attributes import AttributeFile, read_document

        schema = SCHEMAS["cluster_state"]
        source, state, positions = read_document(file, schema)
        if not state:
            names = ", ".join(schema["properties"])
            raise InvalidInput(f"{source.name} sets nothing: give at least one of {names}.")
        try:
            answer = session.client.report_cluster_state(name, state)
        except InvalidRequest as error:
            whole = AttributeFile(name=source.name, scope=Scope(), payload=state, positions=positions)
            raise locate_error(error, whole) from None
        cluster = answer.get("cluster") or {}
        if session.printer.is_table:
            session.printer.note(f"Reported the state of cluster {name}.")
        else:
            show(session, _part(), [{"name": name, **cluster}], answer)

    return Command(
        "cluster-state",
        run,
        help=_STATE_HELP,
        params=[
            _cluster_argument(),
            Option(["-f", "--file"], metavar="FILE", required=True, help="File with the state; - is stdin."),
        ],
        examples=[
            "rainbowctl update cluster-state a --file state.yaml",
            "printf 'free: {cpu: 12, gpu: 0}\\n' | rainbowctl update cluster-state a --file -",
        ],
    )


def _cluster_argument() -> Argument:
    return Argument("name", explanation="Name of the cluster.", shell_complete=definition_completer("cluster"))


def _part() -> Part:
    return Part(
        noun="cluster",
        about=(
            "A cluster is a place that runs work. Its state is expected until its agent has synced once, pending while "
            "it waits to be admitted, then ready; unreachable when its agent stops syncing, and lost when that lasts. "
            "`enabled` in its definition applies until `rainbowctl enable` or `disable` is used."
        ),
        columns=_COLUMNS,
        wide_columns=_WIDE_COLUMNS,
        cells=_cells,
        wide_cells=_wide_cells,
        parameters=_parameters,
        filters=_filters,
        set=_set,
        examples={
            "get": [
                "rainbowctl get cluster",
                "rainbowctl get clusters --pool gpu -o wide",
                "rainbowctl get cluster a -o yaml",
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


def _filters() -> list[click.Parameter]:
    return [
        Option(["--pool"], metavar="NAME", help="Clusters in this pool.", shell_complete=definition_completer("pool")),
        Option(
            ["--label"], metavar="NAME", help="Clusters in this label.", shell_complete=definition_completer("label")
        ),
    ]


def _parameters() -> list[click.Parameter]:
    return [
        Option(
            [*flag_names("clusterEndpoint"), "cluster_endpoint"],
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
        Option(["--description"], metavar="TEXT", help="For people."),
        Option([*flag_names("authType"), "auth_type"], metavar="TYPE", help="How engines and consoles authenticate."),
        Option([*flag_names("tokenPath"), "auth_token_path"], metavar="PATH", help="Path of their token."),
        Option([*flag_names("certPath"), "auth_cert_path"], metavar="PATH", help="Path of their certificate."),
    ]


def _set(definition: Document, flags: Mapping[str, Any]) -> Document:
    from ctl.files.fleet import parse_amounts, parse_cost

    changed = with_text(definition, "endpoint", flags["cluster_endpoint"])
    auth = changed.get("auth") or {}
    for key in ("type", "token_path", "cert_path"):
        auth = with_text(auth, key, flags[f"auth_{key}"])
    changed = with_text(changed, "auth", auth if auth or "auth" in changed else None)
    changed = with_text(changed, "enabled", flags["enabled"])
    if flags["cost"] is not None:
        changed = with_text(changed, "cost", flags["cost"] and parse_cost(flags["cost"], "--cost"))
    if flags["capacity"] is not None:
        changed = with_text(changed, "capacity", parse_amounts(flags["capacity"], "--capacity"))
    return with_text(changed, "description", flags["description"])


_COLUMNS = ("NAME", "STATE", "LAST SYNC", "POOLS", "CAPACITY", "FREE", "LEASES", "WAITING", "ENGINE", "SOURCE")


def _cells(cluster: Document) -> list[str]:
    return [
        *text_cells(cluster, "name"),
        state_words(cluster),
        age(cluster.get("last_sync_at")),
        ", ".join(cluster.get("pools") or []),
        *_amounts(cluster, "capacity", "free"),
        *text_cells(cluster, "leases", "waiting", "engine", "source"),
    ]


def state_words(cluster: Document) -> str:
    """Its state, and what an operator has decided about it: `ready,draining`."""
    words = ["disabled"] if cluster.get("enabled") is False else []
    if cluster.get("draining"):
        words.append("draining")
    elif cluster.get("cordoned"):
        words.append("cordoned")
    return ",".join([*text_cells(cluster, "state"), *words])


def age(moment: Any) -> str:
    """How long ago something was: `3m5s ago`."""
    time = parse_timestamp(moment)
    return f"{format_duration((datetime.now(UTC) - time).total_seconds())} ago" if time else ""


_WIDE_COLUMNS = (
    "ENGINE VERSION",
    "RUNNING",
    "LABELS",
    "CORDON REASON",
    "DRAIN DEADLINE",
    "COST",
    "ETA",
    "ENDPOINT",
    "REPORTED AT",
    "VERSION",
    "DESCRIPTION",
)


def _wide_cells(cluster: Document) -> list[str]:
    return [
        *text_cells(cluster, "engine_version", "running"),
        ", ".join(cluster.get("labels") or []),
        *text_cells(cluster, "cordon_reason", "drain_deadline", "cost", "eta"),
        *text_cells(cluster, "endpoint", "reported_at", "version", "description"),
    ]


def _amounts(cluster: Document, *keys: str) -> list[str]:
    from ctl.files.fleet import show_amounts

    return [show_amounts(cluster.get(key)) for key in keys]
