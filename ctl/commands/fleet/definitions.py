"""What the commands of clusters, pools and labels share: reading them, and defining new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ctl.cli.groups import Command
from ctl.cli.options import Argument, Option, definition_completer, dry_run_option, message_option
from ctl.cli.session import Session, local_user
from ctl.client.answers import Document, warning_text
from ctl.client.errors import InvalidInput, InvalidRequest

if TYPE_CHECKING:
    from ctl.files.attributes import AttributeFile

Flags = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One sort of thing a fleet is made of, as the commands handle it."""

    noun: str
    about: str  #: what it is, in a sentence
    columns: Sequence[str]
    wide_columns: Sequence[str]
    cells: Callable[[Document], list[str]]
    wide_cells: Callable[[Document], list[str]]
    parameters: Callable[[], list[click.Parameter]]  #: flags for its fields
    #: flags that change single entries of a field
    changing: Callable[[], list[click.Parameter]] = list
    filters: Callable[[], list[click.Parameter]] = list
    set: Callable[[Document, Flags], Document]  #: a definition with what the flags say
    examples: Mapping[str, Sequence[str]]  #: by verb

    def is_given(self, flags: Flags) -> bool:
        """Whether a flag says anything about a field."""
        names = [param.name for param in [*self.parameters(), *self.changing()]]
        return any(flags.get(str(name)) not in (None, ()) for name in names)


def get_definition(part: Part) -> click.Command:
    def run(session: Session, name: str | None, **filters: Any) -> None:
        if name is not None:
            _refuse_filters(name, filters)
            found = session.client.definition(part.noun, name)
            show(session, part, [found], found)
            return
        listed = list(session.client.definitions(part.noun, **filters))
        show(session, part, listed, listed)
        if not listed and session.printer.is_table:
            make = f"`rainbowctl create {part.noun} NAME` makes one."
            session.printer.note(f"No {part.noun}s match." if any(filters.values()) else f"No {part.noun}s yet: {make}")

    return Command(
        part.noun,
        run,
        help=f"Show {part.noun}s: all of them, or one by its name. {part.about}",
        params=[name_argument(part), *part.filters()],
        examples=part.examples["get"],
    )


def _refuse_filters(name: str, filters: Flags) -> None:
    if any(filters.values()):
        raise InvalidInput(f"{name} is one, and --{next(iter(filters))} chooses among all: leave out one of the two.")


def create_definition(part: Part) -> click.Command:
    def run(session: Session, name: str | None, **flags: Any) -> None:
        name, file = asked(part, name, flags)
        payload = defined(part, {}, file, flags)
        answer = sent(
            file,
            lambda: session.client.create_definition(
                part.noun,
                name,
                payload,
                message=flags["message"],
                claimed_by=local_user(),
                dry_run=flags["dry_run"],
            ),
        )
        told(session, answer)
        report(session, part, name, answer)
        session.printer.note(
            f"Dry run: {part.noun} {name} was not created."
            if flags["dry_run"]
            else f"Created {part.noun} {name}: version {answer.get('version')}."
        )

    return Command(
        part.noun,
        run,
        help=f"{part.about}\n\nCreate one from flags, or from a file; an existing one is left alone.",
        params=[name_argument(part), *part.parameters(), file_option(), dry_run_option(), message_option()],
        examples=part.examples["create"],
    )


def file_option() -> click.Parameter:
    return Option(["-f", "--file"], metavar="FILE", help="File with its name and fields; - is stdin.")


def name_argument(part: Part) -> Argument:
    """The name, which a file may say instead."""
    return Argument(
        "name",
        required=False,
        metavar="[NAME]",
        explanation=f"Name of the {part.noun}.",
        shell_complete=definition_completer(part.noun),
    )


def asked(part: Part, name: str | None, flags: Flags) -> tuple[str, AttributeFile | None]:
    """The name that the command line or its file says, and that file."""
    file = None
    if flags["file"] is not None:
        from ctl.files.fleet import read_definition

        if part.is_given(flags):
            raise InvalidInput("--file says what to define: leave out the flags for fields, or the file.")
        named, file = read_definition(str(flags["file"]), part.noun)
        if name is not None and named is not None and named != name:
            raise InvalidInput(f"{file.name} is for {part.noun} {named}, the command line says {name}: keep one.")
        name = name or named
    if name is None:
        raise InvalidInput(f"Which {part.noun}? Give its name.")
    return name, file


def defined(part: Part, current: Document, file: AttributeFile | None, flags: Flags) -> Document:
    """The definition there is, with what the file or the flags say; what they leave empty goes."""
    if file is None:
        return part.set(current, flags)
    return {key: value for key, value in {**current, **file.payload}.items() if value not in ("", {})}


def sent(file: AttributeFile | None, send: Callable[[], Document]) -> Document:
    """The answer to a write; a refusal points into the file the write came from."""
    try:
        return send()
    except InvalidRequest as error:
        if file is None:
            raise
        raise located(error, file) from None


def located(error: InvalidRequest, file: AttributeFile) -> InvalidRequest:
    """A refusal with the line of each field it names."""
    for detail in error.details:
        path = str(detail.get("field") or "")
        position = file.position(path, "") or file.position(path.partition(".")[2], "")
        if position:
            detail["position"] = f"{file.name}:{position[0]}:{position[1]}"
    return error


def told(session: Session, answer: Document, before: Sequence[str] = ()) -> list[str]:
    """The warnings of an answer, those printed before left out."""
    texts = [warning_text(warning) for warning in answer.get("warnings") or []]
    for text in texts:
        if text not in before:
            session.printer.warning(text)
    return texts


def report(session: Session, part: Part, name: str, answer: Document) -> None:
    """The answer to a write, for programs."""
    session.printer.machine_output([f"{part.noun}/{name}"], answer)


def show(session: Session, part: Part, found: list[Document], document: Any) -> None:
    """Parts of the fleet as a table, or as they came."""
    printer = session.printer
    if printer.machine_output((f"{part.noun}/{each['name']}" for each in found), document):
        return
    if found:
        columns = [*part.columns, *(part.wide_columns if printer.is_wide else [])]
        printer.table(
            columns, [part.cells(each) + (part.wide_cells(each) if printer.is_wide else []) for each in found]
        )
