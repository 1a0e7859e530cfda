"""`enable`, `cordon`, `drain`, their opposites, and `admit`: whether a cluster takes part, and gets new work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ctl.cli.groups import Command
from ctl.cli.options import Argument, Option, definition_completer, text_option
from ctl.cli.session import Session, local_user
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.times import to_second
from ctl.client.words import count

_ABOUT = {
    "enable": "Enable clusters: they become candidates for work again.",
    "disable": "Disable clusters: they get no work, and requests that name one are refused.",
    "cordon": (
        "Cordon clusters: they get no new work, and executions that wait there are decided again. `uncordon` undoes it."
    ),
    "uncordon": "Uncordon clusters: they get new work again.",
    "drain": (
        "Drain clusters: they get no new work, and executions that wait there are decided again. Running executions "
        "may finish until the deadline; then they are ended, and run again elsewhere if their `retry` allows it. "
        "Without --deadline they are not ended. `undrain` undoes it."
    ),
    "undrain": "Stop draining clusters: they get new work again.",
    "admit": "Admit pending clusters, which registered under a new name while `clusters.registration` is `approve`.",
}
_DONE = {
    "enable": "Enabled",
    "disable": "Disabled",
    "cordon": "Cordoned",
    "uncordon": "Uncordoned",
    "drain": "Draining",
    "undrain": "Undrained",
    "admit": "Admitted",
}
_WAS = {
    "enable": "enabled",
    "disable": "disabled",
    "cordon": "cordoned",
    "uncordon": "not cordoned",
    "drain": "draining",
    "undrain": "not draining",
    "admit": "admitted",
}


def enable() -> click.Command:
    return _switch("enable")


def disable() -> click.Command:
    return _switch("disable")


def cordon() -> click.Command:
    return _switch("cordon")


def uncordon() -> click.Command:
    return _switch("uncordon")


def drain() -> click.Command:
    deadline = text_option(
        ["--deadline"], "deadline", "DURATION", "How long running work may take to finish: 10m, 1h30m."
    )
    return _switch("drain", deadline, example=" --deadline 10m")


def undrain() -> click.Command:
    return _switch("undrain")


def admit() -> click.Command:
    return _switch("admit")


def _switch(verb: str, *more: click.Parameter, example: str = "") -> click.Command:
    def run(session: Session, words: tuple[str, ...], reason: str | None, deadline: str | None = None) -> None:
        names = _names(verb, words)
        client = session.client
        for name in names:
            # All names are checked first, so that a wrong one stops everything.
            client.definition("cluster", name)
        answers = []
        for name in names:
            answer = client.switch_cluster(name, verb, reason=reason, claimed_by=local_user(), deadline=deadline)
            answers.append(answer)
            if answer.get("changed"):
                session.printer.note(f"{_DONE[verb]} cluster {name}{_remaining_work(verb, answer)}.")
            else:
                session.printer.note(f"No changes: cluster {name} is {_WAS[verb]} already.")
        _report(session, names, answers)

    return Command(
        verb,
        run,
        help=f"{_ABOUT[verb]} This is recorded as an event of the cluster (`get cluster-event`), not as a revision.",
        params=[
            Argument(
                "words",
                nargs=-1,
                required=True,
                metavar="[cluster] NAME…",
                explanation="Names of clusters; the noun may be left out.",
                shell_complete=definition_completer("cluster"),
            ),
            *more,
            Option(["--reason"], metavar="WHY", help="Why; kept with the event."),
        ],
        examples=[f"rainbowctl {verb} cluster a{example} --reason 'new disks'", f"rainbowctl {verb} a b"],
    )


def _remaining_work(verb: str, answer: Document) -> str:
    """How many executions a drained cluster still runs, and until when."""
    cluster = answer.get("cluster") or {}
    number = int(cluster.get("leases") or 0) if verb == "drain" else 0
    until = f" until {to_second(str(cluster['drain_deadline']))}" if cluster.get("drain_deadline") else ""
    return f": {count(number, 'execution')} may finish there{until}" if number else ""


def _names(verb: str, words: Sequence[str]) -> list[str]:
    names = list(words[1:]) if words[0] in {"cluster", "clusters"} else list(words)
    if not names:
        raise InvalidInput(f"Which cluster? Give its name: `rainbowctl {verb} cluster NAME`.")
    return list(dict.fromkeys(names))


def _report(session: Session, names: Sequence[str], answers: list[Any]) -> None:
    session.printer.machine_output((f"cluster/{name}" for name in names), answers[0] if len(answers) == 1 else answers)
