"""`export`: what is set, as documents that `apply` takes as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ctl.cli.groups import command
from ctl.cli.options import Argument, Option, at_option, complete_kind, filter_parameters, force_option
from ctl.cli.progress import step
from ctl.cli.scopes import scope_filters
from ctl.cli.session import Session
from ctl.client.answers import Attribute, Document, RowChange
from ctl.client.calls.base import PATH_NOT_FOUND
from ctl.client.errors import Forbidden, InvalidInput, NotFound
from ctl.client.kinds import Kind
from ctl.client.nouns import FLEET, NAMED, find_noun, plural
from ctl.client.words import count, listed

#: How often everything is read again when someone writes meanwhile, before the state of one revision is asked for.
_TRIES = 3

_HELP = """Write what is set as documents for `rainbowctl apply -f`.

Without filters, exports everything. -p, -d, -w and --launchplan select the rows with these keys, KIND selects kinds,
or clusters, pools, labels, users, groups and grants. Projects come first: all of them, or with filters those of the
exported rows. Clusters, pools and labels that the admin's configuration declares are left out, and so are all tokens.

The same state always gives the same bytes, so that an export can be kept under version control and compared. --dir
writes one file for each scope, cluster, pool, label, user, group and grantee, and leaves hidden files such as .git
alone. --force exports into a directory that is not empty: files of an earlier export that are no longer needed are
removed, others stay.
"""


@command(
    help=_HELP,
    params=[
        Argument(
            "kinds",
            nargs=-1,
            required=False,
            metavar="[KIND…]",
            explanation=(
                "Only these kinds, or cluster, pool, label, user, group, grant, cluster-group, use-grant, token-pool."
            ),
            shell_complete=complete_kind,
        ),
        *filter_parameters(),
        Option(["--dir", "directory"], metavar="DIR", help="Write one file for each scope below a directory."),
        Option(["-f", "--file", "out_file"], metavar="FILE", help="Write one file; stdout by default."),
        Option(
            ["--projects/--no-projects", " /--noProjects", "with_projects"],
            default=None,
            help="Export projects too, or not; on by default, except with --at.",
        ),
        at_option("Attributes as they were at this revision, without projects, the fleet, groups and grants."),
        force_option("Overwrite FILE; export into a DIR that is not empty."),
    ],
    examples=[
        "rainbowctl export > everything.yaml",
        "rainbowctl export -p flyteexamples --dir settings",
        "rainbowctl export execution-cluster-label task-resource-attribute -d production --no-projects",
        "rainbowctl export cluster pool label > fleet.yaml",
        "rainbowctl export --at 12 -f before.yaml",
    ],
)
def export(session: Session, kinds: tuple[str, ...], **flags: Any) -> None:
    if flags["directory"] and flags["out_file"]:
        raise InvalidInput("--dir writes many files, --file one: keep one of the two.")
    with step(session.printer, "Reading what is set"):
        documents = _documents(session, kinds, flags)
    _write(session, documents, flags)


def _documents(session: Session, words: Sequence[str], flags: Mapping[str, Any]) -> list[Any]:
    from ctl.files.exports import exported_definitions, exported_project, exported_rows

    if session.typed.get("output") not in (None, "yaml"):
        raise InvalidInput("export writes YAML; leave out -o.")
    filters: dict[str, Any] = scope_filters(session, flags)
    nouns = {word: find_noun(word, NAMED) for word in words}
    parts = [noun for noun in NAMED if noun in nouns.values()]
    kind_names = {session.client.kind(word).name for word, noun in nouns.items() if noun is None}
    if parts and (filters or flags["at"] is not None):
        raise InvalidInput(
            f"{listed(parts)} cannot be filtered by scope or exported with --at: leave them out, or leave out the "
            "filters and --at."
        )
    if not words and not filters and flags["at"] is None:
        parts = list(NAMED)
    rows, projects, fleet = _consistent(session, filters, flags["at"], parts, is_complete=bool(words))
    rows = [row for row in rows if not words or row.kind in kind_names]
    kinds = {kind.name: kind for kind in session.client.kinds()}
    documents = [exported for noun, defined in fleet.items() for exported in exported_definitions(noun, defined)]
    documents += exported_rows(_of_known_kinds(session, rows, kinds), kinds)
    with_projects = flags["at"] is None if flags["with_projects"] is None else flags["with_projects"]
    if not with_projects:
        return documents
    if filters or words:
        named = {row.scope.project for row in rows} | {filters.get("project")}
        projects = [project for project in projects if project["id"] in named]
    ordered = sorted(projects, key=lambda project: str(project["id"]))
    return [*map(exported_project, ordered), *documents]


def _consistent(
    session: Session, filters: Mapping[str, Any], at: int | None, parts: Sequence[str], *, is_complete: bool
) -> tuple[list[Attribute], list[Document], dict[str, list[RowChange]]]:
    """Rows, projects and the fleet of one state, though they come in pages while others write.

    Unless it must be complete, what one may not export is left out.
    """
    client = session.client
    left_out: set[str] = set()
    for _try in range(_TRIES):
        head = client.head()
        rows = list(client.list_attributes(None, at=at, page_size=1000, **filters))
        projects = list(client.projects("ALL"))
        fleet = {}
        for noun in parts:
            try:
                fleet[noun] = _managed(session, noun)
            except Forbidden as denied:
                if is_complete:
                    raise
                if noun not in left_out:
                    session.printer.warning(f"{plural(noun).capitalize()} left out: {denied}")
                left_out.add(noun)
        if client.head() == head:
            return rows, projects, fleet
    head = client.head()
    rows = list(client.list_attributes(None, at=head if at is None else at, page_size=1000, **filters))
    return rows, projects, fleet


def _managed(session: Session, noun: str) -> list[RowChange]:
    """What revisions define; of an older admin, which has no users, groups and grants, none."""
    try:
        defined = list(session.client.definitions(noun))
    except NotFound as error:
        if noun in FLEET or error.name != PATH_NOT_FOUND:
            raise
        return []
    managed = [definition for definition in defined if definition.get("source", "managed") == "managed"]
    return session.client.stored_definitions(noun, managed)


def _of_known_kinds(session: Session, rows: list[Attribute], kinds: Mapping[str, Kind]) -> list[Attribute]:
    undeclared = [str(row.kind) for row in rows if row.kind not in kinds]
    for name in sorted(set(undeclared)):
        number = count(undeclared.count(name), "row")
        session.printer.warning(f"{number} of {name} left out: that kind is no longer declared.")
    return [row for row in rows if row.kind in kinds]


def _write(session: Session, documents: list[Any], flags: Mapping[str, Any]) -> None:
    from ctl.files.exports import as_files, as_stream, write_directory

    number = count(len(documents), "document")
    if flags["directory"]:
        files = as_files(documents)
        removed = write_directory(Path(flags["directory"]), files, is_forced=flags["force"])
        also = f" Removed {count(removed, 'file')} of an earlier export." if removed else ""
        session.printer.note(f"Wrote {number} to {count(len(files), 'file')} below {flags['directory']}.{also}")
    else:
        from ctl.cli.files import write_output

        file = flags["out_file"] or "-"
        write_output(session, file, as_stream(documents), f"Wrote {number} to {file}.", is_forced=flags["force"])
