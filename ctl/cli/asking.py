"""Options of the strategy `ask`, which pools and requests have."""

from __future__ import annotations

from ctl.cli.options import Option, option
from ctl.client.facts import SCHEMAS

_CHOICES = SCHEMAS["pool"]["properties"]["choose_by"]["enum"]


def asking_options() -> list[Option]:
    """How long clusters have for a bid, and which bid is the best."""
    return [
        option("askDeadline", metavar="DURATION", help="With ask: how long clusters have for a bid; as configured."),
        option("chooseBy", metavar="|".join(_CHOICES), help="With ask: which bid is the best; soonest by default."),
        option("secondsWeight", metavar="NUMBER", help="In a mix: what a second of waiting counts; 1 by default."),
        option("costWeight", metavar="NUMBER", help="In a mix: what a unit of cost counts; 1 by default."),
    ]
