"""What `get workflow`, `get task` and `get launchplan` share: versions that were registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click

from ctl.cli.lists import Listing, choose_rows, refuse_choice, typed_choice
from ctl.cli.options import Argument, Option, domain_option, force_option, option, project_option
from ctl.cli.output import Columns, Field, Printer, Sentence, Time, id_part
from ctl.cli.provenance import show_author
from ctl.cli.scopes import project_domain
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.calls.registrations import LATEST, Identifier
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.words import did_you_mean
from ctl.files.execution_samples import Sample, execution_sample

Flags = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the versions of one noun are read and shown."""

    noun: str  #: in the API
    word: str  #: on the command line
    title: str  #: in sentences
    columns: Columns  #: of the list of names
    version_columns: Columns  #: of the versions of one name
    single_columns: Columns  #: of one version
    read: Callable[[Session, Identifier, bool], Document]  #: one version; the flag tells whether it was chosen
    sample: Callable[[Session, Document], Sample]
    listing: Listing
    wide_columns: Columns | None = None  #: of the list of names, with `-o wide`
    counted_by: Field | None = None  #: by what the sentence before a list counts
    summary: Callable[[Printer, Sequence[Document]], str] | None = None  #: a sentence about all versions of one name

    def run(self, session: Session, name: str | None, flags: Flags, **filters: str | None) -> None:
        """Show the names, the versions of one name, or one version; or write a file to run it."""
        self._check_flags(session, name, flags)
        project, domain = project_domain(session)
        if name is None:
            registered = session.client.registered(self.noun, project, domain, **filters)
            where, by = f"in project {project}, domain {domain}", self.counted_by
            documents = choose_rows(session, registered, flags, self.listing, self.title, where=where, by=by)
            empty = (
                f"No {self.title} is registered in project {project}, domain {domain}: `rainbowctl register files` "
                "does that."
            )
            if typed_choice(flags) or any(filters.values()):
                empty = f"No {self.title} in project {project}, domain {domain} matches."
            self._show(session, documents, documents, self.columns, self.wide_columns, empty=empty)
            return
        version = _chosen_version(flags)
        if version is None and not flags["exec_file"]:
            versions = self._versions(session, project, domain, name)
            where = f"of {self.title} {name}"
            if self.summary is not None and session.printer.is_table:
                session.printer.note(self.summary(session.printer, versions))
            documents = choose_rows(session, versions, flags, self.listing, "version", where=where, by=self.counted_by)
            self._show(session, documents, documents, self.version_columns, empty="No version matches.")
            return
        refuse_choice(flags, f"{name} version {version or LATEST}")
        id = Identifier(project=project, domain=domain, name=name, version=version or LATEST)
        document = self.read(session, id, version is not None)
        if flags["exec_file"]:
            _write_sample(session, flags, Identifier.from_document(document["id"]), self.sample(session, document))
        else:
            self._show(session, [document], document, self.single_columns)

    def _check_flags(self, session: Session, name: str | None, flags: Flags) -> None:
        """Refuse flags that need a name where there is none, and -o with a file that has its own format."""
        if flags["exec_file"] and session.typed.get("output"):
            raise InvalidInput("--execFile writes YAML to a file; leave out -o.")
        for key, flag in (("version", "--version"), ("latest", "--latest"), ("exec_file", "--execFile")):
            if name is None and flags[key]:
                raise InvalidInput(f"{flag} is about one {self.title}: give its name.")

    def _versions(self, session: Session, project: str, domain: str, name: str) -> list[Document]:
        """All versions of one name, newest first; an error that names the closest where there are none."""
        try:
            documents = list(session.client.registered(self.noun, project, domain, name))
        except NotFound as error:
            if not error.name.endswith("_not_found") or error.details:
                raise
            documents = []
        if not documents:
            names = [str(document["id"]["name"]) for document in session.client.registered(self.noun, project, domain)]
            raise NotFound(
                f"No {self.title} is called {name!r} in project {project}, domain {domain}.{did_you_mean(name, names)}",
                name=f"{self.noun}_not_found",
            )
        return documents

    def _show(
        self,
        session: Session,
        rows: Sequence[Document],
        document: Any,
        columns: Columns,
        wide: Columns | None = None,
        *,
        empty: str = "",
    ) -> None:
        names = ("/".join([self.word, *Identifier.from_document(row["id"]).document().values()]) for row in rows)
        session.printer.show(names, rows, document, columns, wide, empty=empty)


#: When a version was registered, by whom and why.
REGISTERED: Columns = {"CREATED AT": Time("created_at"), "CREATED BY": show_author, "WHY": Sentence("message")}


def version_listing(*nouns: str, **fields: Field) -> Listing:
    """What versions can be selected by, and what `fields` adds; the nouns may stand before a field."""
    own: dict[str, Field] = {name: id_part(name) for name in ("project", "domain", "name", "version")}
    own |= {"description": lambda row: row["spec"].get("description"), "created_at": "created_at", **fields}
    own |= {name: name for name in ("author", "claimed_by", "message")}
    return Listing(fields=own, prefixes=nouns, states=("INACTIVE", "ACTIVE"))


def read_parameters(title: str, listing: Listing) -> list[click.Parameter]:
    """The flags that all of them take."""
    return [
        Argument("name", required=False, metavar="[NAME]", explanation=f"Name of the {title}: its versions."),
        project_option(),
        domain_option(),
        Option(["--version"], metavar="V", help="Only this version."),
        Option(["--latest"], is_flag=True, help="Only the version registered last."),
        option("execFile", metavar="FILE", help="Write a file for `rainbowctl create execution --execFile`."),
        force_option("Overwrite the file without asking."),
        *listing.options(),
    ]


def _chosen_version(flags: Flags) -> str | None:
    if flags["version"] and flags["latest"] and flags["version"] != LATEST:
        raise InvalidInput("--version and --latest contradict each other: keep one.")
    return LATEST if flags["latest"] else flags["version"]


def _write_sample(session: Session, flags: Flags, id: Identifier, sample: Sample) -> None:
    """Write a file that an execution can be created from."""
    from ctl.cli.files import write_output

    text = execution_sample(sample, id, datetime.now(UTC))
    file = str(flags["exec_file"])
    note = (
        f"Wrote {file} for {id.name} version {id.version}: change its inputs, then run `rainbowctl create execution "
        f"-p {id.project} -d {id.domain} --execFile {file}`."
    )
    write_output(session, file, text, note, is_forced=flags["force"])
