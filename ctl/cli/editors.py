"""The user's editor, and the text that is edited."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ctl.cli.prompts import is_terminal
from ctl.client.answers import Attribute, Effective
from ctl.client.errors import InvalidInput, RainbowError
from ctl.client.formats import printable, to_yaml
from ctl.client.kinds import Kind
from ctl.client.schemas import leaf_values, show
from ctl.client.scopes import Scope, describe_origin

_NOTE = "#!"  #: begins the lines that say what is wrong, so that they can be taken out again


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The command of the editor: $VISUAL, else $EDITOR, else vi."""
    named = environ.get("VISUAL") or environ.get("EDITOR")
    if not named and not is_terminal():
        raise InvalidInput("There is no terminal to edit at: set EDITOR, or use `rainbowctl update --attrFile`.")
    try:
        command = shlex.split(named or "vi")
    except ValueError as error:
        raise InvalidInput(f"The editor {named!r} cannot be understood: {error}. Set EDITOR.") from None
    if not command:
        raise InvalidInput("The editor is empty: set EDITOR.")
    return command


def new_file(text: str) -> Path:
    """A file to edit, for its owner's eyes only."""
    descriptor, name = tempfile.mkstemp(prefix="rainbowctl-", suffix=".yaml")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)


def edit(path: Path, command: list[str]) -> str:
    """Let the user edit a file, and answer what is in it afterwards."""
    try:
        status = subprocess.run([*command, str(path)], check=False).returncode
    except OSError as error:
        raise InvalidInput(f"The editor {command[0]!r} cannot be started: {error.strerror}. Set EDITOR.") from None
    if status != 0:
        raise RainbowError(f"The editor {command[0]!r} ended with status {status}: nothing was written.")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInput(f"{path} cannot be read: {reason}.") from None


def is_kept(path: Path, text: str) -> bool:
    """Remove the file if it holds no more than the text it began with; whether it is still there."""
    if path.exists() and path.read_bytes() == text.encode():
        path.unlink()
    return path.exists()


def text_to_edit(kind: Kind, scope: Scope, row: Attribute | None, effective: Effective | None) -> str:
    """The row's own leaves as YAML; what is inherited as comments; without a row a sample, as a comment too."""
    version = f", version {row.version}" if row else ""
    lines = [f"{kind.noun} at {scope.describe()} (level {scope.level}{version})"]
    if row is not None:
        lines += ["What is below replaces the row. A leaf set to null has no value here and inherits none; one left"]
        lines += ["out is inherited. An empty or unchanged file changes nothing."]
    else:
        lines += ["Nothing is set here yet. Write below, or take the # from lines of the sample at the end. An empty"]
        lines += ["or unchanged file changes nothing."]
    inherited = list(_inherited(kind, scope, effective))
    if inherited:
        lines += ["", "Inherited:", *(f"  {line}" for line in inherited)]
    text = _comment(lines)
    if row is not None:
        return f"{text}\n{to_yaml(row.payload)}"
    return f"{text}\n\n{_comment(['Sample:', *to_yaml(dict(kind.example)).splitlines()])}"


def _inherited(kind: Kind, scope: Scope, effective: Effective | None) -> Iterable[str]:
    if effective is None:
        return
    leaves: dict[str, Any] = {**dict(leaf_values(kind.schema, effective.value)), **dict.fromkeys(effective.unset)}
    for path, value in leaves.items():
        origin = effective.origins.get(path) or effective.unset.get(path) or {}
        if origin.get("level") == "platform" or Scope.from_document(origin) != scope:
            yield f"{path}: {show(value)}    {describe_origin(origin, scope)}"


def _comment(lines: Iterable[str]) -> str:
    return "".join(f"# {printable(line)}".rstrip() + "\n" for line in lines)


def is_empty(text: str) -> bool:
    """Whether nothing but comments is left."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())


def without_problems(text: str) -> str:
    """The text without the problems that `with_problems` put on top."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_NOTE))


def with_problems(text: str, error: RainbowError, path: Path) -> str:
    """
    The text with what is wrong with it on top, as comments.

    The positions of the error, which are those in the bare text, become those in the text with the comments.
    """
    number = 1 + max(1, len(error.details))
    for detail in error.details:
        name, _, rest = str(detail.get("position", "")).rpartition(f"{path}:")
        if rest and not name:
            line, _, column = rest.partition(":")
            detail["position"] = f"{path}:{int(line) + number}:{column}"
    problems = [line.strip().replace(f"{path}:", "line ") for line in error.lines()[1:]] or [error.message]
    problems += [""] * (number - 1 - len(problems))
    lines = ["This was not accepted. Correct it and save, or save it unchanged to cancel:", *problems[: number - 1]]
    return "".join(f"{_NOTE} {printable(line)}".rstrip() + "\n" for line in lines) + text
