"""`get health`: how the admin itself fares."""

from __future__ import annotations

import click

from ctl.cli.groups import command
from ctl.cli.session import Session
from ctl.client.answers import Document

_HELP = """Show how the admin itself fares: version, database, background work and clock, and what is wrong with them.

One process of all replicas does the background work: what waits is decided again, silent clusters are judged, and what
is old is pruned. The last failure of that work is kept, and is a problem while it is young. The admin's log has more of
it. The exit status is 1 if there is a problem.
"""


@command(help=_HELP, examples=["rainbowctl get health", "rainbowctl get health -o json"])
def get_health(session: Session) -> None:
    health = session.client.health()
    if not session.printer.machine_output(["health"], health):
        _show(session, health)
    if not health["healthy"]:
        raise click.exceptions.Exit(1)


def _show(session: Session, health: Document) -> None:
    printer = session.printer.folded()
    for problem in health["problems"] or [health["summary"]]:
        printer.sentence(str(problem))
    clock, leader, failure = health["clock"], health.get("leader"), health.get("last_failure")
    away = "" if leader is None or leader["present"] else " (its lease is over)"
    work = "no process has ever done it" if leader is None else f"{leader['process']}{away}"
    since = f", since {printer.when(leader['since'])}" if leader is not None and leader.get("since") else ""
    lines = {
        "version": health["version"],
        "database": f"{health['database']}, {health['database_state']}; schema {health['schema']}",
        "revision": str(health["revision"]),
        "background": f"{work}{since}",
        "failed last": f"{printer.when(failure['at'])}: {failure['message']}" if failure else "",
        "clock": "trusted" if not clock["suspended"] else "jumped",
    }
    for name, text in lines.items():
        if text:
            printer.sentence(f"{name:<12}{text}", indent=" " * 12)
