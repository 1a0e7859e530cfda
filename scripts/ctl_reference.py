"""
Writes the command reference, docs/rainbowctl/, from the parser: one page a noun, and an index.

    python -m scripts.ctl_reference
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ctl.cli.groups import PROGRAM, Group
from ctl.cli.options import GLOBAL_OPTIONS, Argument, GlobalOption
from ctl.client.kinds import Kind, built_in
from ctl.commands.attributes.fields import leaf_options
from ctl.commands.verbs import KindGroup, attribute_command
from ctl.main import root

FOLDER = Path(__file__).parents[1] / "docs/rainbowctl"
_MARK = "<!-- written by: python -m scripts.ctl_reference -->"

#: The commands of each page, without `rainbowctl`; KIND stands for every kind of setting.
PAGES = {
    "settings": ("get KIND", "update KIND", "delete KIND", "edit KIND", "explain", "get kind", "get warnings"),
    "changes": ("apply", "diff", "plan", "export", "history", "rollback"),
    "projects": ("get project", "create project", "update project", "get domain"),
    "executions": (
        "create execution",
        "get execution",
        "update execution",
        "delete execution",
        "wait execution",
        "logs",
        "get output",
        "get execution-event",
    ),
    "placement": ("place", "simulate", "redecide", "get placement-counts"),
    "workflows": (
        "register files",
        "create workflow",
        "get workflow",
        "get task",
        "create launchplan",
        "get launchplan",
        "update launchplan",
    ),
    "clusters": (
        "create cluster",
        "get cluster",
        "update cluster",
        "delete cluster",
        "update cluster-state",
        "get cluster-event",
        "enable",
        "disable",
        "cordon",
        "uncordon",
        "drain",
        "undrain",
        "admit",
    ),
    "pools": ("create pool", "get pool", "update pool", "delete pool"),
    "labels": ("create label", "get label", "update label", "delete label"),
    "tokens": ("get token", "rotate token", "delete token"),
    "client": (
        "config set-context",
        "config use-context",
        "config get-contexts",
        "config current-context",
        "config delete-context",
        "config view",
        "completion",
        "version",
    ),
}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, and every kind under the verbs that take kinds."""
    yield from _below(PROGRAM, root())


def _below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, Group):
        yield path, command
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        subcommand = command.get_command(ctx, name)
        assert subcommand is not None
        yield from _below(f"{path} {name}", subcommand)
    if isinstance(command, KindGroup):
        for kind in built_in():
            yield f"{path} {kind.noun}", attribute_command(str(command.name), kind)


def own_parameters(command: click.Command) -> list[click.Parameter]:
    """A command's parameters without the global ones and the hidden ones."""
    return [
        param for param in command.params if not isinstance(param, GlobalOption) and not getattr(param, "hidden", False)
    ]


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    sections = _sections()
    texts = {"index.md": _index()}
    for page, names in PAGES.items():
        lines = [f"# rainbowctl: {page}", "", _MARK, "", "Every command also takes the [global flags](index.md).", ""]
        for name in names:
            lines += sections.pop(name)
        lines += _fields() if page == "settings" else []
        texts[f"{page}.md"] = "\n".join(lines).rstrip() + "\n"
    assert not sections, f"commands on no page of PAGES: {', '.join(sections)}"
    return texts


def _sections() -> dict[str, list[str]]:
    """The section of each command by its name, as PAGES has it."""
    kinds = {kind.noun: kind for kind in built_in()}
    sections: dict[str, list[str]] = {}
    for path, command in commands():
        name = path.removeprefix(f"{PROGRAM} ")
        verb, _, noun = name.rpartition(" ")
        if noun not in kinds:
            sections[name] = _section(path, command, own_parameters(command))
        elif f"{verb} KIND" not in sections:
            common = _common(verb, command, kinds[noun])
            sections[f"{verb} KIND"] = _section(f"{PROGRAM} {verb} KIND", command, common)
    return sections


def _index() -> str:
    lines = ["# rainbowctl: every command", "", _MARK, ""]
    lines += ["The [guide](../rainbowctl.md) shows how they go together.", "", "| page | commands |", "|---|---|"]
    lines += [f"| [{page}]({page}.md) | {', '.join(f'`{name}`' for name in names)} |" for page, names in PAGES.items()]
    lines += ["", "## Global flags", "", "Every command takes these, before the verb or after the noun.", ""]
    return "\n".join([*lines, *_table(GLOBAL_OPTIONS)]) + "\n"


def _common(verb: str, command: click.Command, kind: Kind) -> list[click.Parameter]:
    """What the commands of a verb have in common for every kind."""
    fields = {param.name for param in leaf_options(kind, set())} if verb == "update" else set()
    return [param for param in own_parameters(command) if param.name not in fields]


def _section(path: str, command: click.Command, params: Sequence[click.Parameter]) -> list[str]:
    text = (command.help or "").strip()
    if path.endswith(" KIND"):
        # The first paragraph describes one kind.
        text = text.partition("\n\n")[2].replace(str(command.name), "KIND")
    return [f"## {path}", "", text, "", *(_table(params) if params else []), *([""] if params else [])]


def _fields() -> list[str]:
    lines = ["## Flags for fields", "", "`rainbowctl update` has a flag for every field of the kind.", ""]
    for kind in built_in():
        command = attribute_command("update", kind)
        named = {param.name for param in leaf_options(kind, set())}
        own = [param for param in own_parameters(command) if param.name in named]
        lines += [f"### {kind.noun}", "", kind.description, "", *_table(own), ""]
    return lines


def _table(params: Sequence[click.Parameter]) -> list[str]:
    rows = [_row(param) for param in params]
    return ["| flag | what it does |", "|---|---|", *(f"| {names} | {text} |" for names, text in rows)]


def _row(param: click.Parameter) -> tuple[str, str]:
    ctx = click.Context(click.Command("reference"))
    if isinstance(param, Argument):
        return f"`{_cell(param.make_metavar(ctx))}`", _cell(param.explanation)
    assert isinstance(param, click.Option)
    names = ", ".join(f"`{name}`" for name in param.opts)
    value = "" if param.is_flag else f" `{_cell(param.make_metavar(ctx))}`"
    return names + value, _cell(param.help or "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
