"""`get output`: the small files that an execution left."""

from __future__ import annotations

import base64
import sys
from pathlib import Path, PurePosixPath

from ctl.cli.groups import command
from ctl.cli.options import Argument, domain_option, force_option, project_option, text_option
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, NotFound
from ctl.client.executions import ExecutionId
from ctl.client.words import count, did_you_mean
from ctl.commands.executions.options import execution_id, name_argument

_HELP = """Show the output files of an execution: the small files that its job declares as outputs.

Without PATH, lists them; with PATH, writes the content of that file to stdout. --directory writes the file, or all
files, below a directory instead.
"""


@command(
    help=_HELP,
    params=[
        name_argument(),
        Argument("path", required=False, metavar="[PATH]", explanation="Path of one file, as listed."),
        project_option(),
        domain_option(),
        text_option("directory", metavar="DIR", help="Write below this directory; it is created if necessary."),
        force_option("Overwrite existing files."),
    ],
    examples=[
        "rainbowctl get output nightly -p flytesnacks -d development",
        "rainbowctl get output nightly metrics.json -p flytesnacks -d development | jq .loss",
        "rainbowctl get outputs flytesnacks/development/nightly --directory results",
    ],
)
def get_output(session: Session, name: str, path: str | None, directory: str | None, force: bool) -> None:
    id = execution_id(session, name)
    outputs = session.client.execution_outputs(id)
    chosen = outputs if path is None else [_named(id, path, outputs)]
    if directory is not None:
        _write(session, Path(directory), chosen, is_forced=force)
    elif force:
        raise InvalidInput("--force needs --directory DIR: give both, or none.")
    elif path is not None and session.printer.is_table:
        _print(session, chosen[0])
    else:
        session.printer.show(
            (f"output/{id}/{output['path']}" for output in chosen),
            chosen,
            chosen if path is None else chosen[0],
            {"PATH": "path", "SIZE": "size", "KEPT": _kept, "ATTEMPT": "attempt"},
            empty=f"Execution {id} left no outputs.",
        )


def _named(id: ExecutionId, path: str, outputs: list[Document]) -> Document:
    for output in outputs:
        if output["path"] == path:
            return output
    paths = [str(output["path"]) for output in outputs]
    hint = did_you_mean(path, paths) or (f" There is {', '.join(paths)}." if paths else " It left none.")
    raise NotFound(f"Execution {id} left no output {path!r}.{hint}", name="output_not_found")


def _kept(output: Document) -> str:
    return "the start" if output.get("truncated") else "all"


def _print(session: Session, output: Document) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(_content(output))
    sys.stdout.buffer.flush()
    _tell_truncated(session, output)


def _write(session: Session, directory: Path, outputs: list[Document], *, is_forced: bool) -> None:
    """Write outputs below a directory, all of them or none."""
    targets = [(directory / path_below(str(output["path"])), output) for output in outputs]
    for target, _output in targets:
        if target.exists() and not is_forced:
            raise InvalidInput(f"{target} exists: use --force to overwrite it. Nothing was written.")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for target, output in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_content(output))
    except OSError as error:
        raise InvalidInput(f"{error.filename or directory} cannot be written: {error.strerror}.") from None
    for _target, output in targets:
        _tell_truncated(session, output)
    session.printer.note(f"Wrote {count(len(targets), 'file')} below {directory}.")


def path_below(path: str) -> PurePosixPath:
    """A path that stays in the directory it is written to, whatever the execution called its file."""
    inner = PurePosixPath(path)
    if inner.is_absolute():
        inner = inner.relative_to("/")
    if ".." in inner.parts or not inner.parts or not path.isprintable():
        raise InvalidInput(f"The output {path!r} cannot be written below a directory: write it with PATH to a file.")
    return inner


def _content(output: Document) -> bytes:
    return base64.b64decode(str(output.get("content_base64") or ""))


def _tell_truncated(session: Session, output: Document) -> None:
    if output.get("truncated"):
        kept, size = len(_content(output)), output.get("size")
        session.printer.warning(f"{output['path']} is incomplete: the first {kept} of its {size} bytes are kept.")
