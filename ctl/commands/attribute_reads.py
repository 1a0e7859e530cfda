"""`get` of a kind: one scope's value with the origin of every leaf, or every row there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from ctl.answers import Attribute, Document
from ctl.commands.attributes import place, scope_for, typed_scope
from ctl.documents import attribute_yaml, flat, sample_yaml
from ctl.errors import InvalidInput, NotFound, NothingSet
from ctl.groups import Command
from ctl.kinds import Kind
from ctl.options import Option, force_option, scope_parameters
from ctl.schemas import leaf_values, show, summary
from ctl.scopes import Scope, check_name, describe_origin
from ctl.session import Session
from ctl.words import flags as flag_names

_HELP = """{description}

Shows what applies at a scope and where each field comes from: the row stored here, a broader level, or the
platform. A scope is a domain, a project, both, a workflow, or a launch plan.

With --attrFile the value is written to a file that `rainbowctl update {noun} --attrFile` takes as it is. Where
nothing is set, the file holds a sample.
"""


def get_attribute(kind: Kind) -> click.Command:
    def run(session: Session, **flags: Any) -> None:
        if flags["all_scopes"]:
            _list(session, kind, flags)
        elif flags["attr_file"]:
            _write_file(session, kind, scope_for(session, kind, flags), flags)
        else:
            _show(session, kind, scope_for(session, kind, flags), flags["exact"])

    return Command(
        kind.noun,
        run,
        help=_HELP.format(description=kind.description or kind.name, noun=kind.noun),
        short_help=kind.title,
        takes=("project", "domain"),
        params=[
            *scope_parameters(),
            Option(["-A", "--all", "all_scopes"], is_flag=True, help="Every scope's row; -p, -d … filter them."),
            Option(["--exact"], is_flag=True, help="Only the row of this very scope, nothing inherited."),
            Option([*flag_names("attrFile"), "attr_file"], metavar="FILE", help="Write the value to a file."),
            force_option("Overwrite the file without asking."),
        ],
        examples=_examples(kind),
    )


def _examples(kind: Kind) -> list[str]:
    lines = [
        f"rainbowctl get {kind.noun} -p flyteexamples -d development",
        f"rainbowctl get {kind.noun} -d development --exact -o yaml",
        f"rainbowctl get {kind.noun} -p flyteexamples -d development --attrFile out.yaml",
        f"rainbowctl get {kind.noun} -A -p flyteexamples -o name",
    ]
    if "workflow" in kind.levels:
        lines.insert(1, f"rainbowctl get {kind.noun} -p flyteexamples -d development my.workflow")
    return lines


def _show(session: Session, kind: Kind, scope: Scope, exact: bool) -> None:
    printer = session.printer
    if printer.is_table and not exact:
        _show_effective(session, kind, scope)
        return
    attribute = _read(session, kind, scope, exact)
    if printer.format == "json":
        printer.document(flat(attribute))
    elif printer.format == "yaml":
        printer.text(attribute_yaml(attribute))
    elif printer.format == "name":
        printer.line(scope.name(kind.noun))
    else:
        here = {"level": scope.level, **scope.document(), "version": attribute.version}
        leaves = dict(leaf_values(kind.schema, attribute.payload))
        _leaf_table(session, scope, leaves, dict.fromkeys(leaves, here), attribute)


def _read(session: Session, kind: Kind, scope: Scope, exact: bool) -> Attribute:
    try:
        return session.client.get_attribute(kind, scope, exact=exact)
    except NotFound as error:
        if error.name != "attribute_not_found":
            raise
        raise _nothing(kind, scope, exact) from error


def _nothing(kind: Kind, scope: Scope, exact: bool) -> NothingSet:
    if exact:
        return NothingSet(
            f"No {kind.noun} is set at {scope.describe()} itself; without --exact inherited values count."
        )
    return NothingSet(f"No {kind.noun} is set at {scope.describe()}, nor at any level above it.")


def _show_effective(session: Session, kind: Kind, scope: Scope) -> None:
    """The table: what counts in the end, so that a row and what it inherits beside it are seen together."""
    effective = session.client.effective(scope, kind)
    found = effective[0] if effective else None
    if found is None or found.is_empty:
        raise _nothing(kind, scope, exact=False)
    leaves = {**dict(leaf_values(kind.schema, found.value)), **dict.fromkeys(found.unset)}
    origins = {**found.origins, **found.unset}
    is_here = any(Scope.from_document(origin) == scope for origin in origins.values())
    row = _read(session, kind, scope, exact=True) if session.printer.is_wide and is_here else None
    _leaf_table(session, scope, leaves, origins, row)
    if not is_here:
        session.printer.note(f"Nothing is set at {scope.describe()} itself: all of it is inherited.")


def _leaf_table(
    session: Session,
    scope: Scope,
    leaves: Mapping[str, Any],
    origins: Mapping[str, Document],
    row: Attribute | None,
) -> None:
    printer = session.printer
    columns = ["FIELD", "VALUE", "ORIGIN"] + (["VERSION", "UPDATED", "BY"] if printer.is_wide else [])
    rows = []
    for path, value in leaves.items():
        origin = origins.get(path, {})
        cells = [path, show(value), describe_origin(origin, scope) if origin else ""]
        if printer.is_wide:
            own = row if row is not None and Scope.from_document(origin) == scope else None
            cells += [str(origin.get("version") or ""), *_updated(own)]
        rows.append(cells)
    printer.table(columns, rows)


def _updated(row: Attribute | None) -> list[str]:
    if row is None:
        return ["", ""]
    claim = f" (says {row.claimed_by})" if row.claimed_by else ""
    return [row.updated_at or "", f"{row.updated_by or ''}{claim}"]


def _list(session: Session, kind: Kind, flags: Mapping[str, Any]) -> None:
    if flags["attr_file"] or flags["exact"]:
        raise InvalidInput("-A lists the rows of every scope; --attrFile and --exact are for one.")
    filters = typed_scope(session, flags)
    for key, name in filters.items():
        if name is not None:
            check_name(key, name)
    rows = session.client.list_attributes(
        kind,
        project=filters["project"],
        domain=filters["domain"],
        workflow=filters["workflow"],
        launch_plan=filters["launch_plan"],
    )
    printer = session.printer
    if printer.format == "name":
        for row in rows:
            printer.line(row.scope.name(kind.noun))
    elif printer.format == "json":
        printer.document([flat(row, kind.noun) for row in rows])
    elif printer.format == "yaml":
        for row in rows:
            printer.text("---\n")
            printer.document(flat(row, kind.noun))
    else:
        _row_table(session, kind, rows)


def _row_table(session: Session, kind: Kind, rows: Iterator[Attribute]) -> None:
    printer = session.printer
    columns = ["LEVEL", "PROJECT", "DOMAIN", "WORKFLOW", "LAUNCH PLAN", "VALUE", "VERSION"]
    cells = []
    for row in rows:
        scope = row.scope
        line = [scope.level, scope.project or "", scope.domain or "", scope.workflow or "", scope.launch_plan or ""]
        line += [summary(kind.schema, row.payload), str(row.version or "")]
        cells.append(line + (_updated(row) if printer.is_wide else []))
    if not cells:
        printer.note(f"No {kind.noun} is set at any scope asked for.")
        return
    printer.table(columns + (["UPDATED", "BY"] if printer.is_wide else []), cells)


def _write_file(session: Session, kind: Kind, scope: Scope, flags: Mapping[str, Any]) -> None:
    file = str(flags["attr_file"])
    if session.typed.get("output"):
        raise InvalidInput("--attrFile writes YAML to a file; leave out -o.")
    try:
        attribute = _read(session, kind, scope, flags["exact"])
        text, remark = attribute_yaml(attribute), f"Wrote {place(kind, scope)} to {file}."
        if attribute.version is None:
            remark += " The value is inherited; updating with the file pins it here."
    except NothingSet as nothing:
        text, remark = sample_yaml(kind, scope, file), f"{nothing.message} Wrote a sample to {file}."
    if file == "-":
        session.printer.text(text)
        return
    write_new(Path(file), text, is_forced=flags["force"])
    session.printer.note(remark)


def write_new(path: Path, text: str, *, is_forced: bool) -> None:
    """Write a file; one that exists is replaced only when that is confirmed or forced."""
    from ctl.contexts import write_private
    from ctl.prompts import confirm, is_terminal

    if path.is_dir():
        raise InvalidInput(f"{path} is a directory.")
    if path.exists() and not is_forced:
        if not is_terminal():
            raise InvalidInput(f"{path} exists: use --force to overwrite it.")
        confirm(f"{path} exists. Overwrite it?", f"{path} was left as it is.")
    write_private(path, text)
