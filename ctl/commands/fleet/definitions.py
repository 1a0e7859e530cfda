"""What the commands of clusters, pools, labels, users and groups share: reading them, and defining new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ctl.cli.groups import Command
from ctl.cli.lists import Listing, choose_page, opening, refuse_choice, typed_choice
from ctl.cli.options import MESSAGE, Argument, Option, at_option, definition_completer, dry_run_option
from ctl.cli.output import Columns, Field, Printer
from ctl.cli.provenance import describe_provenance, describe_state, describe_version
from ctl.cli.session import Session, reasons
from ctl.cli.windows import named_by_flags
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, InvalidRequest
from ctl.client.nouns import plural

if TYPE_CHECKING:
    from ctl.files.attributes import AttributeFile

Flags = Mapping[str, Any]

UNUSED = Option(
    ["--unused"],
    is_flag=True,
    flag_value="true",
    default=None,
    help="Only those that no setting, launch plan, pool, label, use grant or unfinished execution has: `delete` needs "
    "no --force.",
)
FILE = Option(["-f", "--file"], metavar="FILE", help="File with its name and fields; - is stdin.")


@dataclass(frozen=True, kw_only=True)
class FleetNoun:
    """A noun whose rows have a name, with what its commands differ in."""

    name: str
    resource: str = ""  #: the noun that the admin knows it by, where that is another one
    is_fleet: bool = True  #: whether it is of the fleet, where executions run; then its past can be shown
    about: str  #: what it is, in a sentence
    columns: Columns
    wide_columns: Columns
    states: Sequence[str] = ()  #: that operators switch it into; of two by one event the first is shown
    fields: Mapping[str, Field]  #: that lists can be selected and sorted by
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)  #: of those that have one of a few words
    amounts: Sequence[str] = ()  #: those that are quantities
    parameters: Sequence[click.Parameter]  #: flags for its fields
    changing: Sequence[click.Parameter] = ()  #: flags that change single entries of a field
    filters: Sequence[click.Parameter] = ()
    set: Callable[[Document, Flags], Document]  #: a definition with the flags applied
    summary: Callable[[Sequence[Document]], str] = lambda definitions: ""  #: a sentence about a list
    details: Callable[[Session, Document, str, str], None] | None = (
        None  #: shows one; by what it was switched, and defined
    )
    examples: Mapping[str, Sequence[str]]  #: by verb
    view_parameters: Sequence[click.Parameter] = ()  #: flags of `get` for another view of one
    view: Callable[[Session, str | None, Flags], bool] | None = None  #: shows it, if the flags ask for it
    chosen: Mapping[str, str] = field(default_factory=dict)  #: filters that all rows of the noun fit
    fixed: Document = field(default_factory=dict)  #: fields that every one of the noun has
    delete_help: str = ""  #: of `delete`, where nothing can be in use
    after_create: Callable[[Session, str], None] = lambda session, name: None  #: says what to do next
    check: Callable[[Document], None] = lambda definition: None  #: refuses one that is of another noun

    @property
    def of_admin(self) -> str:
        """The noun that the admin knows it by."""
        return self.resource or self.name

    def read(self, session: Session, name: str) -> Document:
        """One of a name; refused where it is of another noun."""
        definition = session.client.definition(self.of_admin, name)
        self.check(definition)
        return definition

    @property
    def list_filters(self) -> Sequence[click.Parameter]:
        """Flags that choose from the list."""
        return [*self.filters, *([UNUSED] if self.is_fleet else [])]

    def is_given(self, flags: Flags) -> bool:
        """Whether a flag sets a field."""
        return any(flags.get(str(param.name)) not in (None, ()) for param in [*self.parameters, *self.changing])


def get_definition(noun: FleetNoun) -> Command:
    listing = Listing(fields=noun.fields, words=noun.words, amounts=noun.amounts, prefixes=(noun.name,), order="name")

    def run(session: Session, name: str | None, **flags: Any) -> None:
        if flags.get("at") is not None:
            _show_past(session, noun, name, flags)
            return
        if noun.view is not None and noun.view(session, name, flags):
            return
        filters = {str(param.name): flags[str(param.name)] for param in noun.list_filters}
        if name is not None:
            _refuse_filters(name, filters)
            refuse_choice(flags, name)
            definition = noun.read(session, name)
            if noun.details is not None and session.printer.is_table:
                switched_by = _switched_by(session.printer, noun, definition)
                noun.details(session, definition, switched_by, describe_version(session.printer, definition))
            else:
                printer = session.printer.folded()
                if printer.is_table and definition.get("summary"):
                    printer.sentence(str(definition["summary"]))
                _show(printer, noun, [definition], definition)
            return
        with named_by_flags({str(param.name): param.opts[0] for param in noun.list_filters}):
            rows = session.client.definitions(noun.of_admin, **filters, **noun.chosen)
            page = choose_page(session, rows, flags, listing)
            definitions = list(page.rows)
        nouns, make = plural(noun.name), f"`rainbowctl create {noun.name} NAME` creates one."
        is_chosen = any(filters.values()) or typed_choice(flags)
        empty = f"No {nouns} match." if is_chosen else f"No {nouns} yet: {make}"
        if definitions and session.printer.is_table:
            number = opening(len(definitions), noun.name, skipped=page.skipped, has_more=page.has_more)
            session.printer.note(noun.summary(definitions) or number)
        show(session, noun, definitions, definitions, empty=empty)

    return Command(
        run,
        help=f"Show {plural(noun.name)}: all of them, or one by its name. {noun.about}"
        + (f"\n\n{_AT_HELP}" if noun.is_fleet else ""),
        params=[
            name_argument(noun),
            *noun.view_parameters,
            *noun.list_filters,
            *([at_option("As defined at this revision.")] if noun.is_fleet else []),
            *listing.options(),
        ],
        examples=noun.examples["get"],
    )


_AT_HELP = (
    "--at shows the definitions as they were at a revision or a time, without the states and loads of then. What the "
    "admin's configuration declares is kept by no revision."
)


def _show_past(session: Session, noun: FleetNoun, name: str | None, flags: Flags) -> None:
    """What was defined at a revision."""
    others = [*noun.view_parameters, *noun.list_filters]
    typed = next((param.opts[0] for param in others if flags.get(str(param.name)) not in (None, (), False)), None)
    if typed or (typed := typed_choice(flags)):
        raise InvalidInput(f"--at shows definitions of the past, {typed} is about what there is now: keep one.")
    definitions = list(session.client.definitions_at(noun.name, flags["at"], name=name))
    printer = session.printer
    if definitions and printer.is_table:
        printer.note(opening(len(definitions), noun.name, where=f"as of revision {flags['at']}"))
    printer.show(
        (f"{noun.name}/{definition['name']}" for definition in definitions),
        definitions,
        definitions if name is None else definitions[0],
        {
            "NAME": "name",
            "DEFINITION": _definition_text,
            "DEFINED BY": lambda entry: describe_provenance(
                printer, entry.get("provenance") or {"revision": entry["version"], "kept": False}
            ),
        },
        {"VERSION": "version"},
        empty=f"No {plural(noun.name)} were defined at revision {flags['at']}.",
    )
    if name is None:
        nouns = plural(noun.name)
        printer.note(f"No {nouns} of the configuration are among them: those have no revisions.")


def _definition_text(entry: Document) -> str:
    """A whole definition in one table cell."""
    from ctl.client.schemas import parts_of

    return ", ".join(f"{path}={part}" for path, part in parts_of(entry["definition"]).items() if path) or "(nothing)"


def _refuse_filters(name: str, filters: Flags) -> None:
    typed = next((key for key, value in filters.items() if value), None)
    if typed is not None:
        raise InvalidInput(f"{name} names one, and --{typed} filters the list: leave out one of the two.")


def create_definition(noun: FleetNoun) -> Command:
    def run(session: Session, name: str | None, **flags: Any) -> None:
        name, file = name_and_file(noun, name, flags)
        payload = apply_fields(noun, {}, file, flags)
        answer = send_write(
            file,
            lambda: session.client.create_definition(
                noun.of_admin, name, payload, **reasons(flags), dry_run=flags["dry_run"]
            ),
        )
        session.printer.note(
            f"Dry run: {noun.name} {name} would be created."
            if flags["dry_run"]
            else f"Created {noun.name} {name}: version {answer.get('version')}."
        )
        session.printer.warnings(answer.get("warnings") or [])
        if flags["dry_run"]:
            from ctl.commands.previews import show_preview

            show_preview(session, answer, is_dry_run=True)
        report(session, noun, name, answer)
        if not flags["dry_run"]:
            noun.after_create(session, name)

    return Command(
        run,
        help=f"{noun.about}\n\nCreates one from flags or a file. One that exists already is not changed.",
        params=[name_argument(noun), *noun.parameters, FILE, dry_run_option(), MESSAGE],
        examples=noun.examples["create"],
    )


def name_argument(noun: FleetNoun) -> Argument:
    """The name, which may also stand in the file."""
    return Argument(
        "name",
        required=False,
        metavar="[NAME]",
        explanation=f"Name of the {noun.name}.",
        shell_complete=definition_completer(noun.of_admin),
    )


def name_and_file(noun: FleetNoun, name: str | None, flags: Flags) -> tuple[str, AttributeFile | None]:
    """The name from the command line or its file, and that file."""
    file = None
    if flags["file"] is not None:
        from ctl.files.fleet import read_definition

        if noun.is_given(flags):
            raise InvalidInput("--file holds the whole definition: leave out the flags for fields, or the file.")
        named, file = read_definition(str(flags["file"]), noun.of_admin)
        if name is not None and named is not None and named != name:
            raise InvalidInput(f"{file.name} is for {noun.name} {named}, the command line says {name}: keep one.")
        name = name or named
    if name is None:
        raise InvalidInput(f"Which {noun.name}? Give its name.")
    return name, file


def apply_fields(noun: FleetNoun, current: Document, file: AttributeFile | None, flags: Flags) -> Document:
    """The current definition with the fields of the file or the flags; empty ones are removed."""
    if file is None:
        return {**noun.set(current, flags), **noun.fixed}
    fields = {**current, **file.payload, **noun.fixed}
    return {key: value for key, value in fields.items() if value not in ("", {})}


def send_write(file: AttributeFile | None, send: Callable[[], Document]) -> Document:
    """Send a write; a refusal points into the file it came from."""
    try:
        return send()
    except InvalidRequest as error:
        if file is None:
            raise
        raise locate_error(error, file) from None


def locate_error(error: InvalidRequest, file: AttributeFile) -> InvalidRequest:
    """A refusal with the line of each field it names."""
    for detail in error.details:
        path = str(detail.get("field") or "")
        position = file.position(path, "") or file.position(path.partition(".")[2], "")
        if position:
            detail["position"] = f"{file.name}:{position[0]}:{position[1]}"
    return error


def report(session: Session, noun: FleetNoun, name: str, answer: Document) -> None:
    """The answer to a write, for programs."""
    session.printer.machine_output([f"{noun.name}/{name}"], answer)


def show(session: Session, noun: FleetNoun, definitions: list[Document], document: Any, *, empty: str = "") -> None:
    """Print definitions as a table, or the document unchanged."""
    _show(session.printer, noun, definitions, document, empty=empty)


def _show(printer: Printer, noun: FleetNoun, definitions: list[Document], document: Any, *, empty: str = "") -> None:
    names = (f"{noun.name}/{definition['name']}" for definition in definitions)
    columns: Columns = {**noun.columns}
    if noun.states:
        columns = {**columns, "SWITCHED BY": lambda definition: _switched_by(printer, noun, definition)}
    if printer.is_wide:
        columns = {**columns, **noun.wide_columns}
    if printer.is_wide or noun.details is None:  # one with details has it among them, and a wide list already
        columns = {**columns, "DEFINED BY": lambda definition: describe_version(printer, definition)}
    printer.show(names, definitions, document, columns, empty=empty)


def _switched_by(printer: Printer, noun: FleetNoun, definition: Document) -> str:
    """What set its states: `draining: event 7, anonymous (says otto), 3 d 4 h ago, 'new disks'`."""
    shown = {text: state for state in reversed(noun.states) if (text := describe_state(printer, definition, state))}
    return "; ".join(f"{state}: {text}" for text, state in reversed(shown.items()))
