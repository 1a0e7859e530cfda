"""
Writes the command reference, docs/rainbowctl/, from the parser: one page a noun, and an index.

    python -m scripts.ctl_reference
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

#: The modules below `ctl.commands` whose commands each page has.
PAGES = {
    "settings": ("attributes", "explain", "scopes", "compare", "where_used", "kinds", "warnings", "cluster_resources"),
    "changes": ("changes",),
    "projects": ("projects", "domains"),
    "executions": ("executions",),
    "placement": ("placement",),
    "workflows": ("registrations",),
    "clusters": ("fleet.clusters", "fleet.cluster_descriptions", "fleet.switches"),
    "pools": ("fleet.pools",),
    "labels": ("fleet.labels",),
    "token-pools": ("fleet.token_pools", "fleet.run_with_token"),
    "tokens": ("fleet.tokens",),
    "users": ("users",),
    "access": ("access",),
    "operations": ("health", "reconciliations", "clock", "admin_config", "audit"),
    "client": ("login", "config", "completion", "version"),
}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, and every kind under the verbs that take kinds."""
    for path, command, _place in _below(PROGRAM, root()):
        yield path, command


def _below(path: str, command: click.Command, place: str = "") -> Iterator[tuple[str, click.Command, str]]:
    """The commands of a group, each with its module."""
    if not isinstance(command, Group):
        yield path, command, place
        return
    ctx = click.Context(command)
    for name, entry in command.entries.items():
        subcommand = command.get_command(ctx, name)
        assert subcommand is not None
        yield from _below(f"{path} {name}", subcommand, entry.place)
    if isinstance(command, KindGroup):
        for kind in built_in():
            yield f"{path} {kind.noun}", attribute_command(str(command.name), kind), "attributes"


def own_parameters(command: click.Command) -> list[click.Parameter]:
    """A command's parameters without the global ones and the hidden ones."""
    return [
        param for param in command.params if not isinstance(param, GlobalOption) and not getattr(param, "hidden", False)
    ]


def pages() -> dict[str, str]:
    """The text of each page by its file name."""
    sections = _sections()
    texts = {"index.md": _index(sections)}
    for page, commands in sections.items():
        lines = [f"# rainbowctl: {page}", "", _MARK, "", "Every command also takes the [global flags](index.md).", ""]
        lines += [line for section in commands.values() for line in section]
        lines += _fields() if page == "settings" else []
        texts[f"{page}.md"] = "\n".join(lines).rstrip() + "\n"
    return texts


def _sections() -> dict[str, dict[str, list[str]]]:
    """The section of each command by its name, on each page; KIND stands for every kind of setting."""
    kinds = {kind.noun: kind for kind in built_in()}
    sections: dict[str, dict[str, list[str]]] = {place: {} for places in PAGES.values() for place in places}
    for path, command, place in _below(PROGRAM, root()):
        matched = next((matched for matched in sections if f"{place}.".startswith(f"{matched}.")), None)
        assert matched is not None, f"{path} is on no page of PAGES"
        name = path.removeprefix(f"{PROGRAM} ")
        verb, _, noun = name.rpartition(" ")
        if noun not in kinds:
            sections[matched][name] = _section(path, str(command.help), own_parameters(command))
        elif f"{verb} KIND" not in sections[matched]:
            # The first paragraph describes one kind.
            text = str(command.help).partition("\n\n")[2].replace(noun, "KIND")
            common = _common(verb, command, kinds[noun])
            sections[matched][f"{verb} KIND"] = _section(f"{PROGRAM} {verb} KIND", text, common)
    return {
        page: {name: section for place in places for name, section in sections[place].items()}
        for page, places in PAGES.items()
    }


def _index(sections: Mapping[str, Iterable[str]]) -> str:
    lines = ["# rainbowctl: every command", "", _MARK, ""]
    lines += ["The [guide](../rainbowctl.md) shows how they go together.", "", "| page | commands |", "|---|---|"]
    for page, names in sections.items():
        lines.append(f"| [{page}]({page}.md) | {', '.join(f'`{name}`' for name in names)} |")
    lines += ["", "## Global flags", "", "Every command takes these, before the verb or after the noun.", ""]
    return "\n".join([*lines, *_table(GLOBAL_OPTIONS)]) + "\n"


def _common(verb: str, command: click.Command, kind: Kind) -> list[click.Parameter]:
    """What the commands of a verb have in common for every kind."""
    fields = {param.name for param in leaf_options(kind, set())} if verb == "update" else set()
    return [param for param in own_parameters(command) if param.name not in fields]


def _section(path: str, text: str, params: Sequence[click.Parameter]) -> list[str]:
    return [f"## {path}", "", text.strip(), "", *(_table(params) if params else []), *([""] if params else [])]


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
