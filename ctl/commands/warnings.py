"""`get warnings`: the warnings about stored settings that still apply."""

from __future__ import annotations

from ctl.cli.groups import command
from ctl.cli.options import strict_option
from ctl.cli.output import Printer
from ctl.cli.session import Session
from ctl.client.answers import Document, RowChange, warning_text
from ctl.client.errors import WarningsFound
from ctl.client.kinds import built_in
from ctl.client.nouns import noun_of
from ctl.client.words import count


@command(
    "warnings",
    help="Show the current warnings: stored settings that name something unknown or contradict others.",
    params=[strict_option()],
    examples=["rainbowctl get warnings", "rainbowctl get warnings --strict -o json"],
)
def get_warnings(session: Session, strict: bool) -> None:
    warnings = session.client.warnings()
    printer = session.printer
    names = (RowChange.from_document(warning).short(_noun(warning)) for warning in warnings)
    if not printer.machine_output(names, warnings):
        _show(printer, warnings)
    if strict and warnings:
        raise WarningsFound(f"{count(len(warnings), 'warning')} under --strict.")


def _show(printer: Printer, warnings: list[Document]) -> None:
    if warnings:
        columns = ["KIND", "LEVEL", "SCOPE", "FIELD", "WARNING"] + (["CODE"] if printer.is_wide else [])
        printer.table(columns, [_cells(warning, printer.is_wide) for warning in warnings])
    else:
        printer.note("No warnings.")


def _noun(warning: Document) -> str:
    name = str(warning.get("resource_type", ""))
    built = {kind.name: kind.noun for kind in built_in()}
    return built.get(name, noun_of(name))


def _cells(warning: Document, is_wide: bool) -> list[str]:
    row = RowChange.from_document(warning)
    cells = [_noun(warning), str(warning.get("level", row.scope.level)), row.name or row.scope.describe()]
    cells.append(str(warning.get("field", "")))
    cells.append(warning_text(warning))
    return [*cells, str(warning.get("code", ""))] if is_wide else cells
