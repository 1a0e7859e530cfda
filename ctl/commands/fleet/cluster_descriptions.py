"""Descriptions of clusters: what each has, as a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose_rows, typed_choice
from ctl.cli.options import MESSAGE, Argument, Option, WholeNumber, definition_completer, dry_run_option, option
from ctl.cli.output import Sentence, Time
from ctl.cli.provenance import show_author
from ctl.cli.session import Session, reasons
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput

_UPDATE_HELP = """Set or change the description of a cluster: what it has, as a graph.

The file is JSON Graph Format: nodes by id, or a list of them as Flux's scheduler writes it, each with a type (cluster,
rack, node, socket, core, gpu, memory …) and a size, and edges that say what contains what. --subsystem adds the graph
of a subsystem, such as io or network, whose edges lead to vertices of the main graph. With --file the whole description
is replaced; without it, only the subsystems that are named. It is checked whole, and nothing is stored if anything is
wrong with it. A description that is set so is kept when the cluster's agent sends another one, until it is deleted.
"""
_GET_HELP = """Show the revisions of a cluster's description, newest first.

Each has who made it, and in what it differs from the one before. `rainbowctl get cluster NAME --graph` draws the
current one, --description prints it as it was sent.
"""
_DELETE_HELP = "Remove the description of a cluster. Its agent may then send one; until it does, its capacity counts."

_NAME = Argument("name", explanation="Name of the cluster.", shell_complete=definition_completer("cluster"))

#: Flags of `get cluster` for the views below.
VIEWS = [
    Option(["--graph"], is_flag=True, help="Draw the description of one cluster as a tree; equal parts are counted."),
    Option(
        ["--description", "document"],
        is_flag=True,
        help="Print the description of one cluster as it was sent, in JSON.",
    ),
    Option(
        ["--revision"],
        type=WholeNumber(min=1),
        metavar="NUMBER",
        help="With these two: an earlier revision of the description.",
    ),
]


def show_view(session: Session, name: str | None, flags: Mapping[str, Any]) -> bool:
    """Show the description of a cluster, if the flags of `get cluster` ask for it."""
    if not (flags["graph"] or flags["document"]):
        if flags["revision"] is not None:
            raise InvalidInput("--revision is for --graph and --description: add one of them, or leave it out.")
        return False
    if flags["graph"] and flags["document"]:
        raise InvalidInput("--graph draws the description, --description prints it: keep one.")
    if name is None:
        flag = "--graph" if flags["graph"] else "--description"
        raise InvalidInput(f"Which cluster? Write `rainbowctl get cluster NAME {flag}`.")
    if flags["graph"]:
        _draw(session, name, flags["revision"])
    else:
        _print(session, name, flags["revision"])
    return True


def _draw(session: Session, name: str, revision: int | None) -> None:
    from ctl.files.descriptions import tree_lines

    answer, printer = session.client.description_tree(name, revision), session.printer
    if printer.machine_output([f"cluster-description/{name}"], answer):
        return
    _show_counts(session, answer)
    if answer.get("tree"):
        printer.line()
        for line in tree_lines(answer["tree"]):
            printer.line(line)


_DESCRIBE_HELP = """Show what a cluster has by its description, and what differs from the description before.

The line has who set the description, when and why, and counts its vertices by type. `rainbowctl get cluster NAME` shows
the state of the cluster, with --graph its description as a tree, and `rainbowctl get cluster-description NAME` all
revisions of it.
"""


@command(
    help=_DESCRIBE_HELP,
    params=[
        _NAME,
        Option(
            ["--revision"], type=WholeNumber(min=1), metavar="NUMBER", help="An earlier revision of the description."
        ),
    ],
    examples=["rainbowctl describe cluster a", "rainbowctl describe cluster a --revision 3 -o json"],
)
def describe_cluster(session: Session, name: str, revision: int | None) -> None:
    answer = {key: value for key, value in session.client.description_tree(name, revision).items() if key != "tree"}
    if not session.printer.machine_output([f"cluster-description/{name}"], answer):
        _show_counts(session, answer)


def _show_counts(session: Session, answer: Document) -> None:
    printer = session.printer
    printer.sentence(_heading(session, answer))
    if answer.get("differences"):
        printer.sentence(f"differs from the revision before: {', '.join(answer['differences'])}", indent="  ")
    for warning in answer.get("warnings") or []:
        printer.sentence(f"warning: {warning}", indent="  ")


def _heading(session: Session, answer: Document) -> str:
    when = session.printer.when(answer["at"])
    by = "its agent" if answer.get("by_agent") else show_author(answer)
    why = f": {answer['message']}" if answer.get("message") else ""
    types = _types(answer)
    return f"cluster {answer['cluster']}, description {answer['revision']} by {by}, {when}{why}: {types or 'removed'}"


def _types(revision: Document) -> str:
    from ctl.files.descriptions import show_types

    return show_types(revision.get("types"))


def _print(session: Session, name: str, revision: int | None) -> None:
    import json

    answer, printer = session.client.description(name, revision), session.printer
    document = answer.get("document") or {}
    if not printer.machine_output([f"cluster-description/{name}"], document):
        printer.line(json.dumps(document, indent=2, ensure_ascii=False))


_LISTING = Listing(
    fields={name: name for name in ("revision", "at", "author", "claimed_by", "by_agent", "digest", "message")},
    order="revision",
    limit=20,
)


@command(
    help=_GET_HELP,
    params=[_NAME, *_LISTING.options()],
    examples=["rainbowctl get cluster-description a", "rainbowctl get cluster-descriptions a -o json"],
)
def get_cluster_description(session: Session, name: str, **flags: Any) -> None:
    where = f"of the description of cluster {name}"
    revisions = choose_rows(session, session.client.descriptions(name), flags, _LISTING, "revision", where=where)
    session.printer.show(
        (f"cluster-description/{name}/{revision['revision']}" for revision in revisions),
        revisions,
        revisions,
        {
            "REVISION": "revision",
            "AT": Time("at"),
            "BY": lambda revision: "its agent" if revision.get("by_agent") else show_author(revision),
            "HAS": lambda revision: _types(revision) or "removed",
            "DIFFERENCES": Sentence(lambda revision: ", ".join(revision.get("differences") or [])),
            "MESSAGE": Sentence("message"),
        },
        {"DIGEST": "digest"},
        empty="No revisions match."
        if typed_choice(flags)
        else f"Cluster {name} has no description yet: `rainbowctl update cluster-description {name} --file FILE`.",
    )


@command(
    help=_UPDATE_HELP,
    params=[
        _NAME,
        Option(["-f", "--file"], metavar="FILE", help="File with the graph; - is stdin."),
        Option(
            ["--subsystem", "subsystems"],
            metavar="NAME=FILE",
            multiple=True,
            help="A subsystem and the file with its graph. Repeatable.",
        ),
        option(
            "removeSubsystem",
            parameter="removed",
            metavar="NAME",
            multiple=True,
            help="Remove a subsystem; not with --file. Repeatable.",
        ),
        dry_run_option(),
        MESSAGE,
    ],
    examples=[
        "rainbowctl update cluster-description a --file graph.json --subsystem io=io.json -m 'new racks'",
        "rainbowctl update cluster-description a --subsystem network=net.json --removeSubsystem io",
        "rainbowctl update cluster-description a --file graph.json --dryRun",
    ],
)
def update_cluster_description(
    session: Session, name: str, file: str | None, subsystems: tuple[str, ...], removed: tuple[str, ...], **flags: Any
) -> None:
    if file is None and not subsystems and not removed:
        raise InvalidInput("Nothing to change: give the graph with --file, or a subsystem with --subsystem NAME=FILE.")
    if file is not None and removed:
        raise InvalidInput("--file replaces the whole description: leave out --removeSubsystem.")
    from ctl.files.descriptions import read_graph, read_subsystems

    graphs, why, is_dry_run = read_subsystems(subsystems, removed), reasons(flags), flags["dry_run"]
    if file is None:
        answer = session.client.patch_description(name, {"subsystems": graphs}, **why, dry_run=is_dry_run)
    else:
        document = read_graph(file)
        if graphs:
            document = {**document, "subsystems": {**(document.get("subsystems") or {}), **graphs}}
        answer = session.client.put_description(name, document, **why, dry_run=is_dry_run)
    _report(session, name, answer)


@command(
    help=_DELETE_HELP,
    params=[_NAME, dry_run_option(), MESSAGE],
    examples=["rainbowctl delete cluster-description a -m 'its agent knows better'"],
)
def delete_cluster_description(session: Session, name: str, **flags: Any) -> None:
    _report(session, name, session.client.delete_description(name, **reasons(flags), dry_run=flags["dry_run"]))


def _report(session: Session, name: str, answer: Document) -> None:
    printer, description = session.printer, answer.get("description") or {}
    if answer.get("dry_run"):
        printer.note("Dry run: nothing was written.")
    printer.machine_output([f"cluster-description/{name}"], answer)
    if not answer.get("changed"):
        printer.note(str(answer.get("note") or f"No changes: the description of cluster {name} is already so."))
        return
    differences = ", ".join(description.get("differences") or [])
    has = "would be" if answer.get("dry_run") else "is"
    printer.note(f"The description of cluster {name} {has} at revision {description.get('revision')}: {differences}.")
    if answer.get("note"):
        printer.note(str(answer["note"]))
    for warning in description.get("warnings") or []:
        printer.warning(warning)
