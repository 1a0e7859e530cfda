"""`update project`: some fields change, the others stay."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ctl.cli.diffs import show_difference
from ctl.cli.files import check_expected_version
from ctl.cli.groups import command
from ctl.cli.prompts import asks, confirm_write
from ctl.cli.session import Session, reasons
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.commands.previews import show_namespaces
from ctl.commands.projects.fields import (
    file_fields,
    flag_fields,
    ids,
    one_id,
    project_parameters,
    read_project,
)
from ctl.files.projects import EDITABLE, READ_ONLY

_DEPRECATED = {"activateProject": "activate", "archiveProject": "archive"}

_HELP = """Change a project's name, description, labels or state.

Changes only the fields that are given; an empty text clears a field, and --labels replaces all labels. Shows the
difference and asks for confirmation on a terminal. An archived project keeps its settings, but they cannot be changed,
and nothing new can be created there; what waits there still starts, and --dryRun lists it.
"""


@command(
    help=_HELP,
    params=project_parameters(
        "the project", "Show what would change, namespaces on clusters too, and what waits there; change nothing."
    ),
    examples=[
        "rainbowctl update project flyteexamples --description 'Examples to learn from'",
        "rainbowctl update project --id flyteexamples --labels team=ml,tier=gold",
        "rainbowctl update project flyteexamples --archive --force",
    ],
)
def update_project(session: Session, **flags: Any) -> None:
    _note_deprecated(session, flags)
    fields = file_fields(flags) if flags["file"] else flag_fields(flags)
    id = one_id(ids(session, flags) | {str(flags["file"]): fields.pop("id", None)})
    if id is None:
        raise InvalidInput("Which project? Give its id as an argument or with --id.")
    expected = fields.pop("version", None)
    if not fields:
        raise InvalidInput("Nothing to update: give --name, --description, --labels, --activate or --archive.")
    current = read_project(session, id)
    _drop_read_only(fields, current)
    changes = {key: value for key, value in fields.items() if not _says(current, key, value)}
    if not changes:
        _answer(session, id, current)
        session.printer.note(f"No changes: project {id} is already as requested.")
        return
    if not flags["force"]:
        write = partial(session.client.update_project, id, **changes)
        check_expected_version(session, str(flags["file"]), expected, current.get("version"), write)
    asks_first = asks(flags)
    before = {key: current[key] for key in EDITABLE if current.get(key)}
    after = {key: value for key in EDITABLE if (value := {**before, **changes}.get(key))}
    if flags["dry_run"]:
        session.printer.note("Dry run: nothing was written.")
    show_difference(session, f"project {id}", before, after, asks_first=asks_first)
    version = None if flags["force"] else current.get("version")
    if flags["dry_run"] or "state" in changes:
        trial = session.client.update_project(id, if_match=version, dry_run=True, **changes)
        if session.printer.is_table:
            if trial.get("archiving"):
                session.printer.note(str(trial["archiving"]["message"]))
            show_namespaces(session, trial)
    if asks_first:
        confirm_write()
    if flags["dry_run"]:
        _answer(session, id, trial)
        return
    updated = session.client.update_project(id, **reasons(flags), if_match=version, **changes)
    _answer(session, id, updated)
    session.printer.note(f"Updated project {id}.")


def _note_deprecated(session: Session, flags: Mapping[str, Any]) -> None:
    for old, new in _DEPRECATED.items():
        if flags[old]:
            session.printer.note(f"--{old} is the old spelling of --{new}.")


def _says(project: Mapping[str, Any], key: str, value: Any) -> bool:
    if key == "labels":
        stored = (project.get(key) or {}).get("values") or {}
        return bool(stored == (value.get("values") or {}))
    return bool((project.get(key) or "") == value)


def _drop_read_only(fields: dict[str, Any], current: Document) -> None:
    # The time of the last change is not a field to compare.
    fields.pop("updated_at", None)
    for key in READ_ONLY:
        if key in fields and fields.pop(key) != current.get(key):
            raise InvalidInput(f"{key} is set by the admin and cannot be changed: remove it from the file.")


def _answer(session: Session, id: str, document: Document) -> None:
    session.printer.machine_output([f"project/{id}"], document)
