"""`edit` of a kind: change the row of one scope in the user's editor; a refused edit is kept in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctl.cli.groups import Command
from ctl.cli.options import MESSAGE, SCOPE_PARAMETERS, STRICT_WRITE, dry_run_option
from ctl.cli.scopes import place, scope_for
from ctl.cli.session import Session
from ctl.client.answers import Attribute
from ctl.client.errors import InvalidFile, InvalidRequest, RainbowError, WarningsFound
from ctl.client.kinds import Kind
from ctl.client.scopes import Scope
from ctl.commands.attributes.fields import Edit
from ctl.commands.attributes.update import Update, own_row

_HELP = """{description}

Opens the row of exactly one scope in your editor ($VISUAL, else $EDITOR, else vi): its own leaves as YAML, inherited
ones as comments. If nothing is set yet, the file holds a sample.

When you save the file, the difference is shown and written, unless someone else changed the row in the meantime (exit
status 5). An empty or unchanged file changes nothing. A file with problems is opened again with the problems listed at
the top; if you save it unchanged, nothing is written, and the path of the file is printed.
"""


def edit_attribute(kind: Kind) -> Command:
    def run(session: Session, **flags: Any) -> None:
        _Editing(session, kind, scope_for(session, kind, flags), flags).run()

    return Command(
        run,
        help=_HELP.format(description=kind.description or kind.name),
        params=[*SCOPE_PARAMETERS, dry_run_option(), MESSAGE, STRICT_WRITE],
        examples=[
            f"rainbowctl edit {kind.noun} -p flyteexamples -d development",
            f"EDITOR='code --wait' rainbowctl edit {kind.noun} -d development -m 'as agreed'",
        ],
    )


class _Editing:
    """One row in the editor, until it is accepted or given up."""

    def __init__(self, session: Session, kind: Kind, scope: Scope, flags: Mapping[str, Any]) -> None:
        self.session = session
        self.kind = kind
        self.scope = scope
        self.flags = flags

    def run(self) -> None:
        from ctl.cli import editors

        command = editors.editor_command()
        row = own_row(self.session, self.kind, self.scope)
        effective = next(iter(self.session.client.effective(self.scope, self.kind)), None)
        first = shown = editors.text_to_edit(self.kind, self.scope, row, effective)
        path = editors.new_file(shown)
        problem: RainbowError | None = None
        try:
            while True:
                text = editors.edit(path, command)
                if text == shown and problem is not None:
                    raise problem
                if text == shown or editors.is_empty(text):
                    path.unlink()
                    self.session.printer.note("Cancelled: nothing was changed.")
                    return
                bare = editors.without_problems(text)
                try:
                    self._write(bare, row, path)
                    path.unlink()
                    return
                except (InvalidFile, InvalidRequest) as error:
                    problem = error
                    shown = editors.with_problems(bare, error, path)
                    path.write_text(shown, encoding="utf-8")
        except WarningsFound:
            path.unlink()
            raise
        except RainbowError as error:
            if editors.is_kept(path, first):
                error.message = f"{error.message} What you wrote is kept in {path}."
            raise
        except BaseException:
            if editors.is_kept(path, first):
                self.session.printer.note(f"What you wrote is kept in {path}.")
            raise

    def _write(self, text: str, row: Attribute | None, path: Path) -> None:
        from ctl.client.yaml_files import Source
        from ctl.files.attributes import parse_attribute_file

        file = parse_attribute_file(Source(name=str(path), text=text), self.kind)
        if file.scope.document() and file.scope != self.scope:
            raise InvalidFile(
                f"The text names {file.scope.describe()}, but this edits {place(self.kind, self.scope)}: remove the "
                "scope from it."
            )
        if not file.payload:
            raise InvalidFile("The text sets nothing: write a field; to remove the row, use `rainbowctl delete`.")
        update = Update(self.session, self.kind, {**self.flags, "force": False}, may_ask=False)
        update.file = replace(file, version=None)
        update.carry_out(self.scope, Edit(payload=file.payload), row)
