"""Groups of clusters, whose use can be granted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.cli.options import Option
from ctl.client.answers import Document
from ctl.commands.access.groups import listed_names, member_options, set_names
from ctl.commands.fleet.definitions import FleetNoun
from ctl.commands.fleet.members import DESCRIPTION, commands

#: The field that lists members, with the word of its flags.
_MEMBERS = {"clusters": "cluster"}
_CLUSTERS = Option(
    ["--cluster", "clusters"], metavar="CLUSTER", multiple=True, help="A member. Repeatable; replaces all clusters."
)


def _set(definition: Document, flags: Mapping[str, Any]) -> Document:
    return set_names(definition, flags, _MEMBERS)


get_cluster_group, create_cluster_group, update_cluster_group, delete_cluster_group = commands(
    FleetNoun(
        name="cluster-group",
        is_fleet=False,
        about="A cluster group is a list of clusters. Their use is granted together by `create use-grant`.",
        columns={"NAME": "name", "CLUSTERS": listed_names("clusters")},
        wide_columns={"DESCRIPTION": "description", "VERSION": "version"},
        fields={name: name for name in ("name", "clusters", "description", "version")},
        parameters=(_CLUSTERS, DESCRIPTION),
        changing=member_options("clusters", "cluster"),
        set=_set,
        examples={
            "get": ["rainbowctl get cluster-group", "rainbowctl get cluster-group racks -o yaml"],
            "create": ["rainbowctl create cluster-group racks --cluster east --cluster west --description 'New racks'"],
            "update": ["rainbowctl update cluster-group racks --addCluster north --removeCluster west -m 'moved'"],
            "delete": ["rainbowctl delete cluster-group racks", "rainbowctl delete cluster-group racks --force"],
        },
    )
)
