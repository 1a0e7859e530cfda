"""`update` of a cluster, pool or label: some fields change, the others stay."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from ctl.cli.diffs import print_diff, unified
from ctl.cli.groups import Command
from ctl.cli.options import dry_run_option, force_option, message_option
from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.session import Session, local_user
from ctl.client.answers import RowChange
from ctl.client.errors import Conflict, InvalidInput, NotFound
from ctl.commands.fleet.definitions import (
    Part,
    apply_fields,
    file_option,
    name_and_file,
    name_argument,
    report,
    send_write,
    show_warnings,
)
from ctl.files.fleet import in_order

_HELP = """{about}

Changes only the fields that flags or the file give; an empty text clears a field. Shows the difference and asks for
confirmation on a terminal. The write carries the version that was shown: if someone else changed the definition in the
meantime, it is refused with exit status 5. --force does not ask, and overwrites such a change.
"""


def update_definition(part: Part) -> click.Command:
    def run(session: Session, **flags: Any) -> None:
        _Update(session, part, flags).run()

    return Command(
        part.noun,
        run,
        help=_HELP.format(about=part.about),
        params=[
            name_argument(part),
            *part.parameters(),
            *part.changing(),
            file_option(),
            dry_run_option(),
            force_option("Do not ask, and overwrite changes made in the meantime."),
            message_option(),
        ],
        examples=part.examples["update"],
    )


class _Update:
    """One update, step by step: what is stored, what it becomes, the question, the write."""

    def __init__(self, session: Session, part: Part, flags: Mapping[str, Any]) -> None:
        self.session = session
        self.part = part
        self.flags = flags

    def run(self) -> None:
        if self.flags["file"] is None and not self.part.is_given(self.flags):
            names = [param.opts[0] for param in self.part.parameters()]
            raise InvalidInput(f"Nothing to update: give {', '.join(names[:-1])} or {names[-1]}, or --file FILE.")
        name, file = name_and_file(self.part, self.flags["name"], self.flags)
        row = stored(self.session, self.part, name)
        payload = apply_fields(self.part, row.before or {}, file, self.flags)
        if file is not None and not self.flags["force"]:
            _check_version(file.name, file.version, row)
        conditions: dict[str, Any] = {} if self.flags["force"] else {"if_match": row.version}

        def send(**more: Any) -> dict[str, Any]:
            return self.session.client.put_definition(self.part.noun, name, payload, **conditions, **more)

        trial = send_write(file, lambda: send(dry_run=True))
        texts = show_warnings(self.session, trial)
        if not trial.get("changed"):
            report(self.session, self.part, name, trial)
            self.session.printer.note(f"No changes: {self.part.noun} {name} is already as requested.")
            return
        self._confirmed(name, row, payload)
        if self.flags["dry_run"]:
            report(self.session, self.part, name, trial)
            self.session.printer.note("Dry run: nothing was written.")
            return
        answer = send(message=self.flags["message"], claimed_by=local_user())
        show_warnings(self.session, answer, texts)
        report(self.session, self.part, name, answer)
        self.session.printer.note(f"Updated {self.part.noun} {name}: version {answer.get('version')}.")

    def _confirmed(self, name: str, row: RowChange, payload: Mapping[str, Any]) -> None:
        asks = is_terminal() and not self.flags["force"] and not self.flags["dry_run"]
        if asks or not self.session.printer.is_quiet:
            stream = sys.stdout if self.session.printer.is_table else sys.stderr
            print(f"{self.part.noun} {name}", file=stream)
            before, after = (in_order(self.part.noun, each) for each in (row.before or {}, payload))
            print_diff(unified(before, after, (f"version {row.version}", "after this update")), stream)
        if asks:
            confirm("Write this?", "Not confirmed: nothing was written.")


def stored(session: Session, part: Part, name: str) -> RowChange:
    """The stored definition of a name, with its version; NotFound where there is none."""
    definition = session.client.definition(part.noun, name)
    if definition.get("source") == "expected":
        raise NotFound(
            f"Cluster {name} is named by pools or labels, but not defined: `rainbowctl create cluster {name}` does.",
            name="cluster_not_found",
        )
    for row in session.client.stored_definitions(part.noun, [definition]):
        return row
    raise NotFound(f"{part.noun.capitalize()} {name!r} no longer exists.", name=f"{part.noun}_not_found")


def _check_version(file: str, expected: int | None, row: RowChange) -> None:
    if expected not in (None, row.version):
        raise Conflict(
            f"{file} was made from version {expected}, but version {row.version} is stored. Look at it with "
            "`rainbowctl get`, then remove the version from the file, or use --force.",
            name="version_conflict",
            details=[{"current_version": row.version}],
        )
