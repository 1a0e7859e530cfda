"""`get output`: the files that an execution left."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose, choose_rows, refuse_choice, typed_choice
from ctl.cli.options import Argument, domain_option, force_option, project_option, text_option
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidInput, NotFound, OutputCut
from ctl.client.executions import ExecutionId
from ctl.client.words import count, did_you_mean
from ctl.commands.executions.options import execution_id, name_argument

_HELP = """Show the output files of an execution: the files that its job declares as outputs.

Without PATH, lists them; with PATH, writes the content of that file to stdout. --directory writes the file, or all
files that --filter.* chooses, below a directory instead. The admin keeps agents.outputLimitBytes of each file: the exit
status is 1 if the content of a longer one is asked for, with -o json and -o yaml also in the list. Its start is written
to stdout, but not below a directory.
"""


def _kept_bytes(output: Document) -> int:
    """How much of a file there is; an admin of an earlier version keeps what it sends."""
    return int(output["kept"]) if "kept" in output else len(_content(output))


_LISTING = Listing(fields={"path": "path", "size": "size", "kept": _kept_bytes, "attempt": "attempt"}, order="path")


@command(
    help=_HELP,
    params=[
        name_argument(),
        Argument("path", required=False, metavar="[PATH]", explanation="Path of one file, as listed."),
        project_option(),
        domain_option(),
        text_option("directory", metavar="DIR", help="Write below this directory; it is created if necessary."),
        force_option("Overwrite existing files."),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get output nightly -p flytesnacks -d development",
        "rainbowctl get output nightly metrics.json -p flytesnacks -d development | jq .loss",
        "rainbowctl get outputs flytesnacks/development/nightly --directory results",
    ],
)
def get_output(session: Session, name: str, path: str | None, directory: str | None, force: bool, **flags: Any) -> None:
    if path is not None:
        refuse_choice(flags, path)
    id = execution_id(session, name)
    outputs = session.client.execution_outputs(id)
    if path is None and directory is None:
        chosen = choose_rows(session, outputs, flags, _LISTING, "output", where=f"of execution {id}")
    else:
        chosen = list(choose(session, outputs, flags, _LISTING)) if path is None else [_named(id, path, outputs)]
    if directory is not None:
        _write(session, id, Path(directory), chosen, is_forced=force)
    elif force:
        raise InvalidInput("--force needs --directory DIR: give both, or none.")
    elif path is not None and session.printer.is_table:
        _print(session, id, chosen[0])
    else:
        session.printer.show(
            (f"output/{id}/{output['path']}" for output in chosen),
            chosen,
            chosen if path is None else chosen[0],
            {"PATH": "path", "SIZE": "size", "KEPT": _kept_bytes, "ATTEMPT": "attempt"},
            empty="No outputs match." if typed_choice(flags) else f"Execution {id} left no outputs.",
        )
    if path is not None or directory is not None or session.printer.format in {"json", "yaml"}:
        _check_whole(chosen)


def _named(id: ExecutionId, path: str, outputs: list[Document]) -> Document:
    for output in outputs:
        if output["path"] == path:
            return output
    paths = [str(output["path"]) for output in outputs]
    hint = did_you_mean(path, paths) or (f" There is {', '.join(paths)}." if paths else " It left none.")
    raise NotFound(f"Execution {id} left no output {path!r}.{hint}", name="output_not_found")


def _is_cut(output: Document) -> bool:
    return _kept_bytes(output) < int(output["size"])


def _check_whole(outputs: list[Document]) -> None:
    """Fail if the end of an output is missing."""
    cut = [_cut_text(output) for output in outputs if _is_cut(output)]
    if cut:
        raise OutputCut(" ".join(cut))


def _cut_text(output: Document) -> str:
    size, kept, limit = int(output["size"]), _kept_bytes(output), output.get("limit")
    text = f"The output {output['path']} was cut: it has {size} bytes, and the first {kept} are kept."
    if limit is None or kept < min(size, int(limit)):
        text += " Its agent has sent no more."
    if limit is not None:
        text += f" The limit is {limit} bytes: agents.outputLimitBytes in the admin's configuration."
    return text


def _pieces(session: Session, id: ExecutionId, output: Document) -> Iterator[bytes]:
    """What is kept of an output; the list of outputs has only the beginning of a large one."""
    content = _content(output)
    if len(content) >= _kept_bytes(output):
        yield content
    else:
        yield from session.client.execution_output(id, str(output["path"]))


def _print(session: Session, id: ExecutionId, output: Document) -> None:
    sys.stdout.flush()
    for piece in _pieces(session, id, output):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _write(session: Session, id: ExecutionId, directory: Path, outputs: list[Document], *, is_forced: bool) -> None:
    """Write the outputs that are whole below a directory, unless one of them is there."""
    targets = [(directory / path_below(str(output["path"])), output) for output in outputs if not _is_cut(output)]
    for target, _output in targets:
        if target.exists() and not is_forced:
            raise InvalidInput(f"{target} exists: use --force to overwrite it. Nothing was written.")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for target, output in targets:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, _pieces(session, id, output))
    except OSError as error:
        raise InvalidInput(f"{error.filename or directory} cannot be written: {error.strerror}.") from None
    session.printer.note(f"Wrote {count(len(targets), 'file')} below {directory}.")


def _replace(target: Path, pieces: Iterator[bytes]) -> None:
    """Write a file, which has its name only once it is whole."""
    draft = target.with_name(f".{target.name}.part")
    try:
        with draft.open("wb") as file:
            file.writelines(pieces)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


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
