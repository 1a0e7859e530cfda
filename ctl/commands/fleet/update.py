"""`update` of a cluster, pool, label or group: some fields change, the others stay."""

from __future__ import annotations

from functools import partial
from typing import Any

from ctl.cli.diffs import show_difference
from ctl.cli.files import check_expected_version
from ctl.cli.groups import Command
from ctl.cli.options import write_options
from ctl.cli.prompts import asks, confirm_write
from ctl.cli.session import Session, reasons
from ctl.client.answers import RowChange
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.nouns import json_key
from ctl.commands.fleet.definitions import (
    FILE,
    FleetNoun,
    apply_fields,
    name_and_file,
    name_argument,
    report,
    send_write,
)
from ctl.commands.previews import show_preview
from ctl.files.fleet import in_order

_HELP = """{about}

Changes only the fields that flags or the file give; an empty text clears a field. Shows the difference and the
executions that would move, and asks for confirmation on a terminal. The write carries the version that was shown: if
someone else changed the definition in the meantime, it is refused with exit status 5. --force does not ask, and
overwrites such a change.
"""


def update_definition(noun: FleetNoun) -> Command:
    def run(session: Session, **flags: Any) -> None:
        if flags["file"] is None and not noun.is_given(flags):
            names = [param.opts[0] for param in noun.parameters]
            raise InvalidInput(f"Nothing to update: give {', '.join(names[:-1])} or {names[-1]}, or --file FILE.")
        name, file = name_and_file(noun, flags["name"], flags)
        row = stored(session, noun, name)
        payload = apply_fields(noun, row.before or {}, file, flags)
        write = partial(session.client.put_definition, noun.of_admin, name, payload)
        if file is not None and not flags["force"]:
            check_expected_version(session, file.name, file.version, row.version, write)
        send = write if flags["force"] else partial(write, if_match=row.version)
        trial = send_write(file, lambda: send(dry_run=True))
        if not trial.get("changed"):
            session.printer.note(f"No changes: {noun.name} {name} is already as requested.")
        elif flags["dry_run"]:
            session.printer.note("Dry run: nothing was written.")
        session.printer.warnings(trial.get("warnings") or [])
        if not trial.get("changed"):
            report(session, noun, name, trial)
            return
        asks_first = asks(flags)
        before, after = (in_order(noun.of_admin, definition) for definition in (row.before or {}, payload))
        labels = (f"version {row.version}", "after this update")
        show_difference(session, f"{noun.name} {name}", before, after, labels, asks_first=asks_first)
        show_preview(session, trial, is_dry_run=flags["dry_run"])
        if asks_first:
            confirm_write()
        if flags["dry_run"]:
            report(session, noun, name, trial)
            return
        answer = send(**reasons(flags))
        session.printer.warnings(answer.get("warnings") or [], trial.get("warnings") or [])
        report(session, noun, name, answer)
        session.printer.note(f"Updated {noun.name} {name}: version {answer.get('version')}.")

    return Command(
        run,
        help=_HELP.format(about=noun.about),
        params=[
            name_argument(noun),
            *noun.parameters,
            *noun.changing,
            FILE,
            *write_options("Do not ask, and overwrite changes made in the meantime."),
        ],
        examples=noun.examples["update"],
    )


def stored(session: Session, noun: FleetNoun, name: str) -> RowChange:
    """The stored definition of a name, with its version; NotFound where there is none."""
    definition = noun.read(session, name)
    if definition.get("source") == "expected":
        raise NotFound(
            f"Cluster {name} is named by pools or labels, but not defined: `rainbowctl create cluster {name}` does.",
            name="cluster_not_found",
        )
    for row in session.client.stored_definitions(noun.of_admin, [definition]):
        return row
    raise NotFound(f"{noun.name.capitalize()} {name!r} no longer exists.", name=f"{json_key(noun.name)}_not_found")
