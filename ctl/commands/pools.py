"""Pools: named, weighted lists of clusters with a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ctl.answers import Document
from ctl.commands.definition_deletes import delete_definition
from ctl.commands.definition_updates import update_definition
from ctl.commands.definitions import Part, create_definition, get_definition, text
from ctl.commands.members import (
    WIDE_COLUMNS,
    changing_parameters,
    member_parameters,
    members_cell,
    set_members,
    wide_cells,
    with_text,
)
from ctl.options import Option


def get_pool() -> click.Command:
    return get_definition(_part())


def create_pool() -> click.Command:
    return create_definition(_part())


def update_pool() -> click.Command:
    return update_definition(_part())


def delete_pool() -> click.Command:
    return delete_definition(_part())


def _part() -> Part:
    return Part(
        noun="pool",
        about=(
            "A pool is a weighted list of clusters that a run may ask for, and a strategy that chooses among them: "
            "weighted (the default), spill (in the listed order, the next one when one is full), least-loaded, "
            "cheapest or soonest."
        ),
        columns=("NAME", "STRATEGY", "MEMBERS", "SOURCE"),
        wide_columns=WIDE_COLUMNS,
        cells=_cells,
        wide_cells=wide_cells,
        parameters=_parameters,
        changing=changing_parameters,
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


def _parameters() -> list[click.Parameter]:
    from ctl.fleet_files import STRATEGIES

    strategy = Option(
        ["--strategy"],
        type=click.Choice(STRATEGIES, case_sensitive=False),
        metavar="|".join(STRATEGIES),
        help="How one of the clusters is chosen.",
    )
    members, *rest = member_parameters()
    return [members, strategy, *rest]


def _set(definition: Document, flags: Mapping[str, Any]) -> Document:
    return with_text(set_members(definition, flags), "strategy", flags["strategy"])


def _cells(pool: Document) -> list[str]:
    return [*text(pool, "name", "strategy"), members_cell(pool), *text(pool, "source")]
