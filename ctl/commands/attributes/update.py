"""`update` of a kind: show what would change, ask, and write exactly that."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ctl.cli.diffs import show_difference
from ctl.cli.files import check_expected_version
from ctl.cli.groups import Command
from ctl.cli.options import GLOBAL_OPTIONS, SCOPE_PARAMETERS, STRICT_WRITE, Option, option, write_options
from ctl.cli.prompts import asks, check_strict, confirm_write
from ctl.cli.scopes import default_scope, place, scope_for, typed_scope
from ctl.cli.session import Session, reasons
from ctl.client.answers import Attribute, Change
from ctl.client.errors import InvalidInput, InvalidRequest, NotFound
from ctl.client.kinds import Kind
from ctl.client.schemas import fields, leaf_values
from ctl.client.scopes import Scope, check_level
from ctl.commands.attributes.fields import Edit, edit_from_flags, leaf_options
from ctl.commands.previews import show_preview

if TYPE_CHECKING:
    from ctl.files.attributes import AttributeFile

_HELP = """{description}

With --attrFile, the file is the whole payload: a field that it leaves out is no longer set at this scope. With flags
for single fields, --unset and --inherit, only those leaves change.

--unset PATH unsets a leaf: it has no value here and inherits none. --inherit PATH removes the leaf from the row, so
that it inherits again.

Shows the difference and asks for confirmation on a terminal. The write carries the version that was shown: if someone
else changed the row in the meantime, it is refused with exit status 5. --force does not ask, and overwrites such a
change.
"""


def update_attribute(kind: Kind) -> Command:
    def run(session: Session, **flags: Any) -> None:
        Update(session, kind, flags).run()

    own: list[click.Parameter] = [
        *SCOPE_PARAMETERS,
        option("attrFile", metavar="FILE", help="File with the scope and the payload; - is stdin."),
        Option(["--set", "set_path"], metavar="PATH=VALUE", multiple=True, help="Set one leaf by its path."),
        Option(
            ["--unset"], metavar="PATH", multiple=True, help="Unset a leaf: no value here, none inherited. Repeatable."
        ),
        Option(
            ["--inherit"],
            metavar="PATH",
            multiple=True,
            help="Remove a leaf from the row, so that it inherits. Repeatable.",
        ),
        *write_options("Do not ask, and overwrite changes made in the meantime."),
        STRICT_WRITE,
    ]
    taken = {name for param in [*own, *GLOBAL_OPTIONS] for name in param.opts} | {"--help"}
    return Command(
        run,
        help=_HELP.format(description=kind.description or kind.name),
        params=[*leaf_options(kind, taken), *own],
        examples=_examples(kind),
    )


def _examples(kind: Kind) -> list[str]:
    path, value = next(iter(leaf_values(kind.schema, kind.example)), ("", None))
    lines = [f"rainbowctl update {kind.noun} --attrFile file.yaml"]
    entry = next((entry for entry in fields(kind.schema) if path and path.startswith(entry.path)), None)
    if entry is not None and entry.is_pairs:
        key = path[len(entry.path) + 1 :]
        lines.append(f"rainbowctl update {kind.noun} -p flyteexamples -d development --{entry.path} {key}={value}")
    elif entry is not None and isinstance(value, (str, int)):
        lines.append(f"rainbowctl update {kind.noun} -p flyteexamples -d development --{path} {value}")
        lines.append(f"rainbowctl update {kind.noun} -d development --{path} {value} -m 'new default' --dryRun")
    if path:
        lines.append(f"rainbowctl update {kind.noun} -p flyteexamples -d development --inherit {path}")
    return lines


class Update:
    """One update, step by step: what is asked, what it changes, the question, the write."""

    def __init__(self, session: Session, kind: Kind, flags: Mapping[str, Any], *, may_ask: bool = True) -> None:
        self.session = session
        self.printer = session.printer
        self.kind = kind
        self.flags = flags
        self.asks_first = may_ask and asks(flags)
        self.file: AttributeFile | None = None

    def run(self) -> None:
        scope, edit = self._scope_and_edit()
        self.carry_out(scope, edit, own_row(self.session, self.kind, scope, self.file))

    def carry_out(self, scope: Scope, edit: Edit, row: Attribute | None) -> None:
        """Show what an edit of the row as it was read would change, and write it."""
        expected = {"if_match": row.version} if row else {"if_none_match": True}
        conditions: dict[str, Any] = {} if self.flags["force"] else expected
        trial = self._send(edit, scope, dry_run=True, **conditions)
        if not trial.changed:
            self.printer.note(f"No changes: {place(self.kind, scope)} is already as requested.")
        elif self.flags["dry_run"]:
            self.printer.note("Dry run: nothing was written.")
        self.printer.warnings(trial.warnings)
        if not trial.changed:
            self._answer(scope, {**trial.document, "dry_run": self.flags["dry_run"]})
            check_strict(self.flags, trial.warnings, "nothing needed to be written")
            return
        if self.file is not None and not self.flags["force"]:
            stored, write = row.version if row else None, partial(self._send, edit, scope)
            check_expected_version(self.session, self.file.name, self.file.version, stored, write)
        before = trial.before if trial.before is not None else (row.payload if row else None)
        labels = (f"version {row.version}" if row else "not set", "after this update")
        title = f"{place(self.kind, scope)} (level {scope.level})"
        show_difference(self.session, title, before, trial.payload, labels, asks_first=self.asks_first)
        show_preview(self.session, trial.document, is_dry_run=self.flags["dry_run"])
        if self.flags["dry_run"]:
            self._answer(scope, trial.document)
            check_strict(self.flags, trial.warnings, "nothing was written")
            return
        if self.asks_first:
            confirm_write()
        change = self._send(edit, scope, **conditions)
        self.printer.warnings(change.warnings, trial.warnings)
        self._answer(scope, change.document)
        if change.version is None:
            self.printer.note(f"Updated: nothing is left of {place(self.kind, scope)}; it inherits again.")
        else:
            self.printer.note(f"Updated {place(self.kind, scope)}: version {change.version}.")
        check_strict(self.flags, change.warnings, "the change was written")

    def _scope_and_edit(self) -> tuple[Scope, Edit]:
        edit = edit_from_flags(self.kind, self.flags)
        has_leaves = bool(edit.set or edit.unset or edit.inherit)
        if self.flags["attr_file"] is None:
            if not has_leaves:
                names = ", ".join(f"--{entry.path}" for entry in list(fields(self.kind.schema))[:3])
                raise InvalidInput(f"Nothing to update: give --attrFile FILE, or fields such as {names}.")
            return scope_for(self.session, self.kind, self.flags), edit
        if has_leaves:
            raise InvalidInput(
                "--attrFile sets the whole payload, flags for fields change single leaves: use one or the other."
            )
        scope, self.file = read_file(self.session, self.kind, self.flags, needs_payload=True)
        return scope, Edit(payload=self.file.payload)

    def _send(self, edit: Edit, scope: Scope, **conditions: Any) -> Change:
        try:
            return edit.send(self.session.client, self.kind, scope, **reasons(self.flags), **conditions)
        except InvalidRequest as error:
            raise (self.file.locate(error, self.kind) if self.file else error) from None

    def _answer(self, scope: Scope, document: Mapping[str, Any]) -> None:
        self.printer.machine_output([scope.name(self.kind.noun)], document)


def read_file(
    session: Session, kind: Kind, flags: Mapping[str, Any], *, needs_payload: bool = False
) -> tuple[Scope, AttributeFile]:
    """The file of --attrFile, and the scope that it and the command line name."""
    from ctl.files.attributes import read_attribute_file

    file = read_attribute_file(str(flags["attr_file"]), kind)
    if needs_payload and not file.payload:
        names = ", ".join(kind.schema.get("properties", {}))
        raise InvalidInput(f"{file.name} sets nothing: give at least one of {names}; to remove a row, use delete.")
    scope = file.scope_with(typed_scope(session, flags), default_scope(session))
    check_level(scope, kind.noun, kind.levels)
    return scope, file


def own_row(session: Session, kind: Kind, scope: Scope, file: AttributeFile | None = None) -> Attribute | None:
    """The row stored at exactly this scope, if there is one; `file` is where the scope was read."""
    try:
        return session.client.get_attribute(kind, scope, exact=True)
    except InvalidRequest as error:
        raise (file.locate(error, kind) if file else error) from None
    except NotFound as error:
        if error.name != "attribute_not_found":
            raise
        return None
