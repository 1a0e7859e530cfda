"""`get` of a kind: one scope's value with the origin of every leaf, or every row there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import click

from ctl.cli.groups import Command
from ctl.cli.lists import Listing, typed_choice
from ctl.cli.options import SCOPE_PARAMETERS, Option, all_option, at_option, force_option, option
from ctl.cli.output import Columns, Printer
from ctl.cli.provenance import describe_field_origin, describe_provenance, show_author
from ctl.cli.scopes import place, scope_for
from ctl.cli.session import Session
from ctl.client.answers import Attribute, Document, Effective
from ctl.client.errors import InvalidInput, NotFound, NothingSet
from ctl.client.kinds import Kind
from ctl.client.scopes import KEYS, Scope, describe_origin
from ctl.client.words import count
from ctl.files.attribute_documents import attribute_yaml, flat, sample_yaml

_HELP = """{description}

Shows what applies at a scope and where each field comes from: the row stored here, a broader level, or the
platform. A scope is a domain, a project, both, a workflow, or a launch plan.

With --attrFile the value is written to a file that `rainbowctl update {noun} --attrFile` accepts. If nothing
is set, the file holds a sample.
"""

#: What the rows of all scopes can be selected and sorted by.
_LISTING = Listing(
    fields={
        **{key: attrgetter(f"scope.{key}") for key in ("level", *KEYS)},
        **{key: attrgetter(key) for key in ("version", "updated_at", "updated_by", "claimed_by")},
    },
    order="updated_at",
)


#: The kind whose rows bound what is counted, and the flag that shows how much that is.
_WITH_USAGE = "EXECUTION_QUOTA"
_USAGE = Option(
    ["--usage"], is_flag=True, help="Of execution-quota: how much of every row is used that applies, and by whom."
)
_BY = Option(
    ["--by"], type=click.Choice(["user", "project"]), help="With --usage: what uses it, by user or by project."
)
#: Users or projects that a line names.
_MOST_USERS = 3


def _describe_users(use: Document) -> str:
    """`ana 12, otto 3, 4 more`; an older admin does not tell who uses a quota."""
    users = use.get("used_by", [])
    named = [f"{user.get('user') or user.get('project') or 'others'} {user['used']}" for user in users[:_MOST_USERS]]
    rest = use.get("users", 0) - len(named)
    return ", ".join([*named, f"{rest} more"] if rest > 0 else named)


_USAGE_COLUMNS: Columns = {
    "LEVEL": lambda use: use["level"],
    "SCOPE": lambda use: "/".join(use[key] for key in KEYS if use.get(key)) or "-",
    "FIELD": lambda use: use["field"],
    "USED": lambda use: use["used"],
    "LIMIT": lambda use: use["limit"],
    "FULL": lambda use: "yes" if use["is_full"] else "no",
    "REVISION": lambda use: use.get("version") or use.get("key"),
    "USED BY": _describe_users,
}


def get_attribute(kind: Kind) -> Command:
    def run(session: Session, **flags: Any) -> None:
        if not flags["all_scopes"] and (flag := typed_choice(flags)):
            raise InvalidInput(f"{flag} chooses among the rows of all scopes: give -A with it.")
        if flags["by"] and not flags["usage"]:
            raise InvalidInput("--by is for --usage, which shows who uses a quota: give --usage too.")
        if flags["usage"]:
            _show_usage(session, kind, flags)
            return
        if flags["watch"] and (flags["attr_file"] or flags["at"] is not None):
            raise InvalidInput("--watch shows what changes from now on; leave out --attrFile and --at.")
        if flags["all_scopes"]:
            from ctl.commands.attributes.list import list_rows

            list_rows(session, kind, flags, _LISTING)
        elif flags["attr_file"]:
            _write_file(session, kind, scope_for(session, kind, flags), flags)
        elif flags["watch"]:
            watch_value(session, kind, scope_for(session, kind, flags), exact=flags["exact"])
        else:
            scope = scope_for(session, kind, flags)
            value = read_value(session, kind, scope, exact=flags["exact"], at=flags["at"])
            show_value(session, kind, scope, value)

    return Command(
        run,
        help=_HELP.format(description=kind.description or kind.name, noun=kind.noun),
        params=[
            *SCOPE_PARAMETERS,
            all_option("all_scopes", "The rows of all scopes; -p, -d … filter them."),
            Option(["--exact"], is_flag=True, help="Only the row stored at this scope, nothing inherited."),
            option("attrFile", metavar="FILE", help="Write the value to a file."),
            force_option("Overwrite the file without asking."),
            at_option("As it was at this revision."),
            Option(["--watch"], is_flag=True, help="Show it again whenever it changes, until Ctrl-C."),
            _USAGE,
            _BY,
            *_LISTING.options(),
        ],
        examples=_examples(kind),
    )


def _show_usage(session: Session, kind: Kind, flags: Mapping[str, Any]) -> None:
    """Every quota that applies at a scope, and how much of it is used; all of them hold together."""
    if kind.name != _WITH_USAGE:
        raise InvalidInput(
            "--usage is for execution-quota only: `rainbowctl explain token-pool NAME` shows the use of tokens."
        )
    given = [f"--{name}" for name in ("exact", "watch") if flags[name]]
    given += ["-A"] if flags["all_scopes"] else []
    given += [f"--{word}" for word, name in (("attrFile", "attr_file"), ("at", "at")) if flags[name] is not None]
    if given:
        raise InvalidInput(f"--usage shows what is used at a scope now: leave out {given[0]}.")
    scope = scope_for(session, kind, flags)
    document = session.client.quota_usage(scope, by=flags["by"])
    quotas = document["quotas"]
    names = (f"{kind.noun}/{use['field']}" for use in quotas)
    if not quotas and session.printer.is_table:
        raise _nothing(session, kind, scope, False, None)
    session.printer.show(names, quotas, document, _USAGE_COLUMNS)


def _examples(kind: Kind) -> list[str]:
    lines = [
        f"rainbowctl get {kind.noun} -p flyteexamples -d development",
        f"rainbowctl get {kind.noun} -d development --exact -o yaml",
        f"rainbowctl get {kind.noun} -p flyteexamples -d development --attrFile out.yaml",
        f"rainbowctl get {kind.noun} -A -p flyteexamples -o name",
    ]
    if "workflow" in kind.levels:
        lines.insert(1, f"rainbowctl get {kind.noun} -p flyteexamples -d development my.workflow")
    if kind.name == _WITH_USAGE:
        lines.append(f"rainbowctl get {kind.noun} -p flyteexamples -d development --usage")
        lines.append(f"rainbowctl get {kind.noun} -d development --usage --by project")
    return lines


def read_value(
    session: Session, kind: Kind, scope: Scope, *, exact: bool, at: int | None = None
) -> Attribute | Effective:
    """The value to show: the effective one for a table, which includes inherited leaves, else the row."""
    if not session.printer.is_table or exact:
        with_provenance = session.printer.format in ("table", "wide", "json")
        return _read(session, kind, scope, exact, at, with_provenance=with_provenance)
    effective = session.client.effective(scope, kind, at=at, provenance=True)
    if not effective or effective[0].is_empty:
        raise _nothing(session, kind, scope, False, effective[0].deleted_by if effective else None)
    return effective[0]


def show_value(session: Session, kind: Kind, scope: Scope, value: Attribute | Effective) -> None:
    """Print what `read_value` returned."""
    printer = session.printer
    if isinstance(value, Effective):
        _show_effective(session, kind, scope, value)
    elif printer.format == "json":
        printer.document(flat(value, with_provenance=True))
    elif printer.format == "yaml":
        printer.text(attribute_yaml(value))
    elif printer.format == "name":
        printer.line(scope.name(kind.noun))
    else:
        from ctl.client.schemas import leaf_values

        here: Document = {"level": scope.level, **scope.document(), "version": value.version}
        leaves = dict(leaf_values(kind.schema, value.payload))
        origins = {path: value.origins.get(path, here) for path in leaves}
        printer.note(_opening(kind, scope, origins))
        leaf_table(session, scope, leaves, origins, value.revisions or _stamps(value))
        _show_consequence(session, value.consequence)


def _read(
    session: Session, kind: Kind, scope: Scope, exact: bool, at: int | None = None, *, with_provenance: bool = False
) -> Attribute:
    try:
        return session.client.get_attribute(kind, scope, exact=exact, at=at, provenance=with_provenance)
    except NotFound as error:
        if error.name != "attribute_not_found":
            raise
        raise _nothing(session, kind, scope, exact, _deleted_by(error.details)) from error


def _deleted_by(details: Sequence[Document]) -> Document | None:
    """The revision that deleted the row that stood at a scope, of the details of the error that nothing is set."""
    return next((detail["provenance"] for detail in details if detail.get("provenance")), None)


def _nothing(session: Session, kind: Kind, scope: Scope, exact: bool, deleted_by: Document | None) -> NothingSet:
    """That nothing is set at a scope, and which revision deleted the row that stood there, if one did."""
    place = f"No {kind.noun} is set at {scope.describe()}"
    above = " itself; leave out --exact to see inherited values." if exact else ", nor at any level above it."
    details = [{"resource_type": kind.name, **scope.document(), "provenance": deleted_by}] if deleted_by else []
    return NothingSet(f"{place}{above}{_deleted(session.printer, deleted_by)}", details=details)


def _deleted(printer: Printer, deleted_by: Document | None) -> str:
    return f" The row that stood there was deleted by {describe_provenance(printer, deleted_by)}." if deleted_by else ""


def _show_effective(session: Session, kind: Kind, scope: Scope, effective: Effective) -> None:
    leaves, origins = effective_leaves(kind, effective)
    versions = [origin.get("version") for origin in origins.values() if Scope.from_document(origin) == scope]
    revisions = effective.revisions
    if versions and not revisions:
        revisions = _row_stamps(session, kind, scope, versions[0])
    session.printer.note(f"{_opening(kind, scope, origins)}{_deleted(session.printer, effective.deleted_by)}")
    leaf_table(session, scope, leaves, origins, revisions)
    _show_consequence(session, effective.consequence)


def _show_consequence(session: Session, consequence: Document | None) -> None:
    """What happens with a value that executions do not follow; an older admin does not say."""
    if consequence:
        session.printer.note(session.printer.in_words(consequence["message"]))


def _opening(kind: Kind, scope: Scope, origins: Mapping[str, Document]) -> str:
    """How many fields of a value are set at a scope itself."""
    number = sum(Scope.from_document(origin) == scope for origin in origins.values())
    if not number:
        return f"Nothing is set at {scope.describe()} itself: all of it is inherited."
    others = len(origins) - number
    inherited = f"; {others} more {'is' if others == 1 else 'are'} inherited" if others else ""
    fields = f"{count(number, 'field')} of {kind.noun} {'is' if number == 1 else 'are'}"
    return f"{fields} set at {scope.describe()}{inherited}."


def effective_leaves(kind: Kind, effective: Effective) -> tuple[dict[str, Any], dict[str, Document]]:
    """The fields of an effective value, those that are unset among them as None, and their origins."""
    from ctl.client.schemas import leaf_values

    leaves = {**dict(leaf_values(kind.schema, effective.value)), **dict.fromkeys(effective.unset)}
    return leaves, {**effective.origins, **effective.unset}


def _row_stamps(session: Session, kind: Kind, scope: Scope, version: int | None) -> Mapping[str, Document]:
    """The same of the stored row, if it is still the one that is shown: an older admin has no revisions to tell."""
    try:
        row = session.client.get_attribute(kind, scope, exact=True)
    except NotFound:
        return {}
    return _stamps(row) if row.version == version else {}


def _stamps(row: Attribute) -> Mapping[str, Document]:
    """The revision that made a row, as far as the row knows it."""
    return {str(row.version): row.last_change}


def watch_value(session: Session, kind: Kind, scope: Scope, *, exact: bool) -> None:
    """Print the value, and again whenever it changes."""
    from ctl.cli.watching import watch

    def read() -> Attribute | Effective | list[Document]:
        try:
            return read_value(session, kind, scope, exact=exact)
        except NothingSet as nothing:
            return nothing.details  # whose times do not change, as those in the message do

    def show(
        value: Attribute | Effective | list[Document],
        before: Attribute | Effective | list[Document] | None,
        is_first: bool,
    ) -> None:
        if session.printer.format == "yaml":
            session.printer.text("---\n")
        elif session.printer.is_table and not is_first:
            session.printer.line()
        if isinstance(value, list):
            session.printer.note(_nothing(session, kind, scope, exact, _deleted_by(value)).message)
        else:
            show_value(session, kind, scope, value)

    watch(session, read, show)


def leaf_table(
    session: Session,
    scope: Scope,
    leaves: Mapping[str, Any],
    origins: Mapping[str, Document],
    revisions: Mapping[str, Document],
) -> None:
    """The fields of a value at a scope, each with where it comes from and who set it."""
    from ctl.client.schemas import show

    printer = session.printer
    columns = ["FIELD", "VALUE", "ORIGIN"] + (
        ["VERSION", "REVISION", "UPDATED", "BY", "WHY"] if printer.is_wide else []
    )
    rows = []
    for path, value in leaves.items():
        origin = origins.get(path, {})
        cells = [path, show(value)]
        if not printer.is_wide:
            cells.append(describe_field_origin(printer, origin, scope, revisions) if origin else "")
        else:
            revision = origin.get("revision") or origin.get("version")
            provenance = revisions.get(str(revision), {})
            cells += [
                describe_origin(origin, scope) if origin else "",
                str(origin.get("version") or ""),
                f"before {origin['set_before']}" if origin.get("set_before") else str(revision or ""),
                printer.when(provenance.get("at")),
                show_author(provenance),
                provenance.get("message") or "",
            ]
        rows.append(cells)
    printer.table(columns, rows)


def _write_file(session: Session, kind: Kind, scope: Scope, flags: Mapping[str, Any]) -> None:
    file = str(flags["attr_file"])
    if session.typed.get("output"):
        raise InvalidInput("--attrFile writes YAML to a file; leave out -o.")
    try:
        attribute = _read(session, kind, scope, flags["exact"], flags["at"])
        text, remark = attribute_yaml(attribute), f"Wrote {place(kind, scope)} to {file}."
        if attribute.version is None:
            remark += " The value is inherited; updating with the file pins it here."
    except NothingSet as nothing:
        text, remark = sample_yaml(kind, scope, file), f"{nothing.message} Wrote a sample to {file}."
    from ctl.cli.files import write_output

    write_output(session, file, text, remark, is_forced=flags["force"])
