"""Files that commands read and write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ctl.cli.prompts import confirm, is_terminal
from ctl.cli.provenance import LATER_KEYS, describe_later
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.contexts import write_private
from ctl.client.errors import Conflict, InvalidInput


def write_new(path: Path, text: str, *, is_forced: bool) -> None:
    """Write a file; one that exists is replaced only when that is confirmed or forced."""
    check_new(path, is_forced=is_forced)
    write_private(path, text)


def check_new(path: Path, *, is_forced: bool) -> None:
    """Refuse to replace a file unless that is confirmed or forced."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a directory.")
    if path.exists() and not is_forced:
        if not is_terminal():
            raise InvalidInput(f"{path} exists: use --force to overwrite it.")
        confirm(f"{path} exists. Overwrite it?", f"{path} was left as it is.")


def write_output(session: Session, file: str, text: str, note: str, *, is_forced: bool) -> None:
    """Write a file and note that, or print the text where the file is `-`."""
    if file == "-":
        session.printer.text(text)
    else:
        write_new(Path(file), text, is_forced=is_forced)
        session.printer.note(note)


def check_expected_version(
    session: Session, file: str, expected: int | None, stored: int | None, write: Callable[..., object]
) -> None:
    """
    Refuse a file that was made from another version than the one stored; None is that there is none.

    A dry run of the `write` on the version of the file is refused, and that refusal says who changed the row since.
    """
    if expected is None or expected == stored:
        return
    detail: Document = {} if stored is None else {"current_version": stored}
    try:
        write(if_match=expected, dry_run=True)
    except Conflict as error:
        conflict = error.details[0] if error.details else {}
        detail |= {key: conflict[key] for key in LATER_KEYS if key in conflict}
    reason = "the row no longer exists" if stored is None else f"version {stored} is stored"
    by = describe_later(session.printer, detail)
    changed = f" ({'deleted' if stored is None else 'changed since'} by {by})" if by else ""
    raise Conflict(
        f"{file} was made from version {expected}, but {reason}{changed}. Check it with `rainbowctl get`, then remove "
        "the version from the file, or use --force.",
        name="version_conflict",
        details=[detail],
    )
