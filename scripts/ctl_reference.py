"""
Writes the reference of docs/rainbowctl.md from the parser, between its two markers.

    python -m scripts.ctl_reference
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ctl.cli.groups import PROGRAM, Group
from ctl.cli.options import Argument, GlobalOption, global_options
from ctl.client.kinds import Kind, built_in
from ctl.commands.attributes.command import attribute_command
from ctl.commands.attributes.fields import leaf_options
from ctl.commands.verbs import KindGroup
from ctl.main import root

PAGE = Path(__file__).parents[1] / "docs/rainbowctl.md"
START = "<!-- reference: python -m scripts.ctl_reference -->"
END = "<!-- end of the reference -->"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, and every kind under the verbs that take kinds."""
    yield from _below(PROGRAM, root())


def _below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, Group):
        yield path, command
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None
        yield from _below(f"{path} {name}", found)
    if isinstance(command, KindGroup):
        for kind in built_in():
            yield f"{path} {kind.noun}", attribute_command(str(command.name), kind)


def own_parameters(command: click.Command) -> list[click.Parameter]:
    """A command's parameters without the global ones and the hidden ones."""
    return [
        param for param in command.params if not isinstance(param, GlobalOption) and not getattr(param, "hidden", False)
    ]


def reference() -> str:
    """The section between the markers."""
    kinds = {kind.noun: kind for kind in built_in()}
    lines = ["### Global flags", "", "Every command takes these, before the verb or after the noun.", ""]
    lines += [*_table(global_options()), ""]
    shared: set[str] = set()
    for path, command in commands():
        verb, _, noun = path.rpartition(" ")
        if noun not in kinds:
            lines += _section(path, command, own_parameters(command))
        elif verb not in shared:
            shared.add(verb)
            lines += _section(f"{verb} KIND", command, _common(verb.rpartition(" ")[2], command, kinds[noun]))
    return "\n".join([*lines, *_fields()]).rstrip() + "\n"


def _common(verb: str, command: click.Command, kind: Kind) -> list[click.Parameter]:
    """What the commands of a verb have in common for every kind."""
    fields = {param.name for param in leaf_options(kind, set())} if verb == "update" else set()
    return [param for param in own_parameters(command) if param.name not in fields]


def _section(path: str, command: click.Command, params: Sequence[click.Parameter]) -> list[str]:
    text = (command.help or "").strip()
    if path.endswith(" KIND"):
        # The first paragraph describes one kind.
        text = text.partition("\n\n")[2].replace(str(command.name), "KIND")
    return [f"### {path}", "", text, "", *(_table(params) if params else []), *([""] if params else [])]


def _fields() -> list[str]:
    lines = ["### Flags for fields", "", "`rainbowctl update` has a flag for every field of the kind.", ""]
    for kind in built_in():
        command = attribute_command("update", kind)
        named = {param.name for param in leaf_options(kind, set())}
        own = [param for param in own_parameters(command) if param.name in named]
        lines += [f"#### {kind.noun}", "", kind.description, "", *_table(own), ""]
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


def page_with_reference(text: str) -> str:
    """A page whose section between the markers is what the parser says now."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{reference()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_reference(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
