"""Machines of described clusters, each loaded once into a process."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from admin.core.fleet.clusters import ClusterState
from admin.core.graph.compiled import read_folded
from admin.core.graph.machines import Machine
from admin.services.context import Context
from admin.store import descriptions

#: Machines that are kept beside those in use: of transactions that were rolled back, and of older fleets.
_MOST_UNUSED = 64


def machines_of(context: Context, connection: Connection, states: Mapping[str, ClusterState]) -> dict[str, Machine]:
    """The machines that the descriptions of clusters tell of, by cluster."""
    digests = {name: state.description for name, state in states.items() if state.description is not None}
    used = set(digests.values())
    missing = [digest for digest in used if context.machines.get(digest) is None]
    loaded = {
        digest: context.machines.add(digest, read_folded(folded, context.machines.shapes))
        for digest, folded in descriptions.folded(connection, missing).items()
    }
    if len(context.machines) > len(used) + _MOST_UNUSED:
        context.machines.keep(used)
    machines = {name: loaded.get(digest) or context.machines.get(digest) for name, digest in digests.items()}
    return {name: machine for name, machine in machines.items() if machine is not None}
