"""Pools: named, weighted lists of clusters with a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ctl.cli.options import Option
from ctl.client.answers import Document
from ctl.client.facts import SCHEMAS
from ctl.commands.fleet.members import DESCRIPTION, MEMBERS, commands, member_noun, set_members, with_text

_STRATEGIES = SCHEMAS["pool"]["properties"]["strategy"]["enum"]
_STRATEGY = Option(
    ["--strategy"],
    type=click.Choice(_STRATEGIES, case_sensitive=False),
    metavar="|".join(_STRATEGIES),
    help="How a cluster is chosen.",
)


def _set(definition: Document, flags: Mapping[str, Any]) -> Document:
    return with_text(set_members(definition, flags), "strategy", flags["strategy"])


get_pool, create_pool, update_pool, delete_pool = commands(
    member_noun(
        "pool",
        about=(
            "A pool is a weighted list of clusters that a run may ask for, and a strategy that chooses among them: "
            "weighted (the default), spill (in the listed order, the next if one is full), least-loaded, "
            "cheapest or soonest."
        ),
        fields=("strategy",),
        parameters=(MEMBERS, _STRATEGY, DESCRIPTION),
        set=_set,
        examples={
            "get": ["rainbowctl get pool", "rainbowctl get pool gpu -o yaml", "rainbowctl get pools -o wide"],
            "create": [
                "rainbowctl create pool gpu --member a=6 --member b=1 --strategy spill",
                "rainbowctl create pool gpu --file gpu.yaml",
                "printf 'name: gpu\\nmembers: {a: 6, b: 1}\\n' | rainbowctl create pool --file - --dryRun",
            ],
            "update": [
                "rainbowctl update pool gpu --strategy least-loaded -m 'b is always full'",
                "rainbowctl update pool gpu --addMember c=2 --removeMember b",
                "rainbowctl update pool gpu --member a=1 --member c=99 --dryRun",
            ],
            "delete": ["rainbowctl delete pool gpu", "rainbowctl delete pool gpu old-gpu --force -m 'sold'"],
        },
    )
)
