"""`enable`, `cordon`, `drain`, their opposites, and `admit`: whether a cluster takes part, and gets new work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from ctl.cli.groups import Command
from ctl.cli.options import Argument, Option, definition_completer, dry_run_option, text_option
from ctl.cli.provenance import describe_provenance
from ctl.cli.session import Session, local_user
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.words import count, listed
from ctl.commands.previews import show_effects, show_new_executions, show_notes, summary


@dataclass(frozen=True, kw_only=True)
class _Switch:
    about: str
    done: str  #: of a cluster that was changed
    state: str  #: of a cluster that was so already


_SWITCHES = {
    "enable": _Switch(about="Enable clusters: they become candidates for work again.", done="Enabled", state="enabled"),
    "disable": _Switch(
        about="Disable clusters: they get no work, and requests that name one are refused.",
        done="Disabled",
        state="disabled",
    ),
    "cordon": _Switch(
        about="Cordon clusters: they get no new work, and executions that wait there are decided again. `uncordon` "
        "undoes it.",
        done="Cordoned",
        state="cordoned",
    ),
    "uncordon": _Switch(
        about="Uncordon clusters: they get new work again. A drain is over too, and the answer says so.",
        done="Uncordoned",
        state="not cordoned",
    ),
    "drain": _Switch(
        about="Drain clusters: they get no new work, and executions that have not started there go elsewhere. Running "
        "executions may finish until the deadline; then they are ended, and run again elsewhere if their `retry` "
        "allows it. Without --deadline they are not ended. `undrain` undoes it.",
        done="Draining",
        state="draining",
    ),
    "undrain": _Switch(
        about="Stop draining clusters: they get new work again. A cordon that was set apart from the drain is over "
        "too, and the answer says so.",
        done="Undrained",
        state="not draining",
    ),
    "admit": _Switch(
        about="Admit pending clusters, which registered under a new name while `clusters.registration` is `approve`.",
        done="Admitted",
        state="admitted",
    ),
}


def _command(verb: str, *more: click.Parameter, example: str = "") -> Command:
    switch = _SWITCHES[verb]

    def run(
        session: Session, words: tuple[str, ...], reason: str | None, dry_run: bool, deadline: str | None = None
    ) -> None:
        names = _names(verb, words)
        options: dict[str, Any] = {
            "reason": reason,
            "claimed_by": local_user(),
            "deadline": deadline,
            "dry_run": dry_run,
        }
        if len(names) == 1:
            answer = session.client.switch_cluster(names[0], verb, **options)
            clusters = [answer]
        else:
            answer = session.client.switch_clusters(names, verb, **options)
            clusters = answer["clusters"]
        for cluster in clusters:
            _note_cluster(session, verb, cluster, is_dry_run=dry_run)
        if not dry_run:
            show_notes(session, answer)
        if not session.printer.machine_output((f"cluster/{name}" for name in names), answer) and dry_run:
            changed = [cluster["cluster"]["name"] for cluster in clusters if cluster["changed"]]
            _show_preview(session, verb, changed, answer)

    return Command(
        run,
        help=f"{switch.about} This is recorded as an event of the cluster (`get cluster-event`), not as a revision.",
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
            dry_run_option("Show what would become of executions, and change nothing."),
        ],
        examples=[
            f"rainbowctl {verb} cluster a{example} --reason 'new disks'",
            f"rainbowctl {verb} a b",
            f"rainbowctl {verb} a{example} --dryRun",
        ],
    )


def _note_cluster(session: Session, verb: str, answer: Document, *, is_dry_run: bool) -> None:
    """What was done to one cluster, or that there is nothing to do."""
    name, switch = answer["cluster"]["name"], _SWITCHES[verb]
    if not answer["changed"]:
        session.printer.note(f"No changes: cluster {name} is {_present_state(session, switch, answer['cluster'])}.")
    elif not is_dry_run:
        session.printer.note(f"{switch.done} cluster {name}{_remaining_work(session, verb, answer)}.")


def _present_state(session: Session, switch: _Switch, cluster: Document) -> str:
    """`cordoned already`, or `draining already` of one that is cordoned by a drain; with who did it, and when."""
    made_by = cluster.get("provenance") or {}
    state = "draining" if switch.state == "cordoned" and cluster.get("draining") else switch.state
    by = f" ({describe_provenance(session.printer, made_by[state])})" if state in made_by else ""
    return f"{state} already{by}"


def _show_preview(session: Session, verb: str, names: Sequence[str], answer: Document) -> None:
    """Each execution that would be affected, with what would become of it, and how many there are of each."""
    if not names:
        if answer.get("effects"):  # what a drain that goes on still waits for
            session.printer.note(f"It goes on: {summary(session, answer)}")
            show_effects(session, answer)
        return
    noun = "cluster" if len(names) == 1 else "clusters"
    effects = summary(session, answer)
    session.printer.note(f"Would {verb} {noun} {listed(names)}: {effects} Dry run: nothing was changed.")
    show_notes(session, answer)
    show_new_executions(session, answer)
    show_effects(session, answer)


def _remaining_work(session: Session, verb: str, answer: Document) -> str:
    """How many executions a drained cluster still runs, and until when."""
    cluster = answer.get("cluster") or {}
    number = int(cluster.get("leases") or 0) if verb == "drain" else 0
    deadline = session.printer.when(cluster.get("drain_deadline"), is_ahead=True)
    heard = f"when its agent is heard again, {deadline} at the earliest"
    end = heard if cluster.get("unreachable_since") else deadline
    rest = f", and what is left is ended {end}" if deadline else ""
    return f": {count(number, 'execution')} may finish there{rest}" if number else ""


def _names(verb: str, words: Sequence[str]) -> list[str]:
    names = list(words[1:]) if words[0] in {"cluster", "clusters"} else list(words)
    if not names:
        raise InvalidInput(f"Which cluster? Give its name: `rainbowctl {verb} cluster NAME`.")
    return list(dict.fromkeys(names))


enable = _command("enable")
disable = _command("disable")
cordon = _command("cordon")
uncordon = _command("uncordon")
drain = _command(
    "drain",
    text_option("deadline", metavar="DURATION", help="How long running work may take to finish: 10m, 1h30m."),
    example=" --deadline 10m",
)
undrain = _command("undrain")
admit = _command("admit")
