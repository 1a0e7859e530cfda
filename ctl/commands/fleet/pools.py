"""Pools: named, weighted lists of clusters with a strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ctl.cli.asking import asking_options
from ctl.cli.lists import refuse_choice
from ctl.cli.options import Option, option
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.commands.fleet.members import DESCRIPTION, MEMBERS, commands, member_noun, set_members, with_text
from ctl.files.rules import STRATEGIES, show_rule, typed_strategy

_STRATEGY = Option(
    ["--strategy"],
    type=click.Choice(STRATEGIES, case_sensitive=False),
    metavar="|".join(STRATEGIES),
    help="How a cluster is chosen.",
)
_RULES = Option(
    ["--rule", "rules"],
    metavar="RULE",
    multiple=True,
    help="A rule of the strategy constraint, as in a file: 'sort: cost'. Repeatable; replaces all rules.",
)


_ASKING = [
    *asking_options(),
    option(
        "rebalance",
        metavar="never|'better-by DURATION'",
        help="With ask: move what no agent has leased to a cluster that starts it so much sooner; never by default.",
    ),
]


def _set(definition: Document, flags: Mapping[str, Any]) -> Document:
    from ctl.files.fleet import parse_weight

    changed = typed_strategy(set_members(definition, flags), flags["strategy"], flags["rules"])
    for name in ("ask_deadline", "choose_by", "rebalance"):
        changed = with_text(changed, name, flags[name])
    for name, flag in (("seconds_weight", "--secondsWeight"), ("cost_weight", "--costWeight")):
        changed = with_text(changed, name, parse_weight(flags[name], flag) if flags[name] else flags[name])
    return changed


def _show_rules(pool: Document) -> str:
    return "; ".join(show_rule(rule) for rule in pool.get("rules") or [])


def _choose_by(pool: Document) -> str:
    """`mix, seconds 1, cost 2`: what bids are chosen by, with the weights that are set."""
    weights = [f"{name} {pool[f'{name}_weight']}" for name in ("seconds", "cost") if f"{name}_weight" in pool]
    return ", ".join([*filter(None, [pool.get("choose_by")]), *weights])


_SHARED_BY = ("user", "project", "cluster")
_SHARES = [
    Option(["--shares"], is_flag=True, help="Show what the pool promises each cluster, what it placed there, and why."),
    Option(["--since"], metavar="TIME", help="With --shares: created since then: 30m, 7d, 2026-03-01; 1h by default."),
    Option(["--until"], metavar="TIME", help="With --shares: created until then; a day is included."),
    Option(
        ["--by"],
        type=click.Choice(_SHARED_BY),
        metavar="|".join(_SHARED_BY),
        help="With --shares: who has how much of what was placed, instead of what each cluster was promised.",
    ),
]


def _show_shares(session: Session, name: str | None, flags: Mapping[str, Any]) -> bool:
    if not flags["shares"]:
        if flags["since"] or flags["until"] or flags["by"]:
            raise InvalidInput("--since, --until and --by are for --shares: add it, or leave them out.")
        return False
    from ctl.commands.fleet.shares import show_shares

    if name is None:
        raise InvalidInput("Which pool? Write `rainbowctl get pool NAME --shares`.")
    refuse_choice(flags, name)
    show_shares(session, name, flags["since"], flags["until"], flags["by"])
    return True


get_pool, create_pool, update_pool, delete_pool = commands(
    member_noun(
        "pool",
        about=(
            "A pool is a weighted list of clusters that a run may ask for, and a strategy that chooses among them: "
            "weighted (the default), spill (in the listed order, the next if one is full), least-loaded, "
            "cheapest, soonest, constraint, which goes by the rules of --rule, or ask, which asks the clusters for "
            "bids. ABLE says how many members may get work, and FREE what is free on those; --shares explains how "
            "work was shared out among them."
        ),
        fields=("strategy",),
        wide_columns={
            "RULES": _show_rules,
            "CHOOSE BY": _choose_by,
            "ASK DEADLINE": "ask_deadline",
            "REBALANCE": "rebalance",
        },
        parameters=(MEMBERS, _STRATEGY, _RULES, *_ASKING, DESCRIPTION),
        set=_set,
        view_parameters=_SHARES,
        view=_show_shares,
        examples={
            "get": [
                "rainbowctl get pool",
                "rainbowctl get pool gpu -o yaml",
                "rainbowctl get pools -o wide",
                "rainbowctl get pool gpu --shares --since 24h",
                "rainbowctl get pool gpu --shares --by user --since 7d",
            ],
            "create": [
                "rainbowctl create pool gpu --member a=6 --member b=1 --strategy spill",
                "rainbowctl create pool any --member a --member b --strategy ask --rebalance 'better-by 5m'",
                "rainbowctl create pool gpu --file gpu.yaml",
                "rainbowctl create pool gpu --member a --member b --rule 'filter: nodes_free > 0' --rule 'sort: cost'",
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
