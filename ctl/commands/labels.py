"""Labels: named, weighted lists of clusters that settings route by."""

from __future__ import annotations

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
)


def get_label() -> click.Command:
    return get_definition(_part())


def create_label() -> click.Command:
    return create_definition(_part())


def update_label() -> click.Command:
    return update_definition(_part())


def delete_label() -> click.Command:
    return delete_definition(_part())


def _part() -> Part:
    return Part(
        noun="label",
        about=(
            "A label is a weighted list of clusters that settings route by (execution-cluster-label). A cluster's own "
            "name is a label too, unless one of that name is defined."
        ),
        columns=("NAME", "MEMBERS", "SOURCE"),
        wide_columns=WIDE_COLUMNS,
        cells=_cells,
        wide_cells=wide_cells,
        parameters=member_parameters,
        changing=changing_parameters,
        set=set_members,
        examples={
            "get": ["rainbowctl get label", "rainbowctl get label cheap -o yaml", "rainbowctl get labels -o wide"],
            "create": [
                "rainbowctl create label cheap --member a=1 --member b=99",
                "rainbowctl create label cheap --file cheap.yaml",
            ],
            "update": [
                "rainbowctl update label cheap --addMember c=50",
                "rainbowctl update label cheap --member b --description 'only b for now' --dryRun",
            ],
            "delete": ["rainbowctl delete label cheap", "rainbowctl delete label cheap --dryRun"],
        },
    )


def _cells(label: Document) -> list[str]:
    return [*text(label, "name"), members_cell(label), *text(label, "source")]
