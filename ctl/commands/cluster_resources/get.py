"""`get cluster-resources`: what became of namespaces on the clusters that make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose
from ctl.cli.options import Option, definition_completer, domain_option, project_option
from ctl.cli.scopes import resolve_scope
from ctl.cli.session import Session
from ctl.client.answers import Document

_HELP = """Show the namespaces of projects and domains, and what became of their objects on each cluster.

Each object is applied, repaired (others had changed it), drifted (changed by others, and not applied again), failed,
not ours (it exists without the admin's label, and is not touched), orphaned (no template makes it any more) or pruned,
with the API server's words. A namespace is pending until what is rendered now was applied. With a project and a domain,
all objects and what happened to them are shown. Namespaces that cannot be rendered say why.
"""

_LISTING = Listing(fields={name: name for name in ("namespace", "project", "domain")}, order="namespace")


@command(
    help=_HELP,
    params=[
        project_option("Namespaces of this project."),
        domain_option("Namespaces of this domain."),
        Option(
            ["--cluster"],
            metavar="NAME",
            shell_complete=definition_completer("cluster"),
            help="On this cluster, whose agent must make namespaces.",
        ),
        Option(["--failing"], is_flag=True, help="Only namespaces in which something is wrong or missing."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get cluster-resources -p flyteexamples -d development",
        "rainbowctl get cluster-resources --failing",
    ],
)
def get_cluster_resources(session: Session, cluster: str | None, failing: bool, **flags: Any) -> None:
    scope, printer = resolve_scope(session, {}), session.printer
    answer = session.client.cluster_resources(scope.project or None, scope.domain or None, cluster, failing=failing)
    unshown = answer["count"] - len(answer["namespaces"])
    namespaces = list(choose(session, answer["namespaces"], flags, _LISTING))
    answer = {**answer, "namespaces": namespaces}
    if printer.machine_output([f"cluster-resources/{entry['namespace']}" for entry in namespaces], answer):
        return
    is_one = bool(scope.project and scope.domain)
    rows = [row for entry in namespaces for row in (_object_rows(entry) if is_one else _rows(entry))]
    if rows:
        printer.table(["NAMESPACE", "CLUSTER", *(["OBJECT"] if is_one else []), "STATE", "MESSAGE"], rows)
    else:
        printer.note_absence("No namespace is made by these settings.")
    if unshown:
        printer.note(f"{unshown} more: name a project, or use --failing.")
    if answer["events"]:
        printer.line()
        events = [
            [printer.when(event["at"]), event["cluster"], event["object"], event["state"], event["message"]]
            for event in answer["events"]
        ]
        printer.table(["WHEN", "CLUSTER", "OBJECT", "STATE", "MESSAGE"], events)


def _rows(entry: Document) -> Iterator[list[str]]:
    """A row for each cluster of a namespace."""
    if entry["problems"]:
        yield [entry["namespace"], "", "not rendered", " ".join(entry["problems"])]
    for on_cluster in entry["clusters"]:
        wrong = [f"{item['object']}: {item['message']}" for item in on_cluster["objects"] if item.get("message")]
        yield [entry["namespace"], on_cluster["cluster"], on_cluster["state"], "; ".join(wrong)]
    if not entry["problems"] and not entry["clusters"]:
        yield [entry["namespace"], "", "", "no cluster says clusterResources: true"]


def _object_rows(entry: Document) -> Iterator[list[str]]:
    """A row for each object of a namespace on each cluster."""
    if entry["problems"]:
        yield [entry["namespace"], "", "", "not rendered", " ".join(entry["problems"])]
    for on_cluster in entry["clusters"]:
        cluster = on_cluster["cluster"]
        if on_cluster["state"] == "pending":
            waits = "it cannot be rendered" if entry["problems"] else "its agent has not applied this yet"
            yield [entry["namespace"], cluster, "", "pending", waits]
        for item in on_cluster["objects"]:
            yield [entry["namespace"], cluster, item["object"], item["state"], item.get("message") or ""]
    if not entry["problems"] and not entry["clusters"]:
        yield [entry["namespace"], "", "", "", "no cluster says clusterResources: true"]
