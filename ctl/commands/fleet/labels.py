"""Labels: named, weighted lists of clusters that settings route by."""

from __future__ import annotations

from ctl.commands.fleet.members import commands, member_noun

get_label, create_label, update_label, delete_label = commands(
    member_noun(
        "label",
        about=(
            "A label is a weighted list of clusters that settings route by (execution-cluster-label). A cluster's own "
            "name is a label too, unless one of that name is defined."
        ),
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
)
