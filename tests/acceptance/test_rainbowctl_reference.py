"""The pages of rainbowctl: every command, flag, variable and exit status is documented, as the parser has it now."""

from __future__ import annotations

import re

import click
import pytest

from ctl import main
from ctl.client.contexts import CONTEXT_KEYS
from ctl.client.errors import EXIT_BROKEN_PIPE, EXIT_CODES
from ctl.client.kinds import built_in
from ctl.client.scopes import LEVEL_FLAGS
from scripts.ctl_reference import FOLDER, commands, pages

GUIDE = FOLDER.with_suffix(".md").read_text(encoding="utf-8")
WRITTEN = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
REFERENCE = "\n".join(WRITTEN.values())
NOUNS = {kind.noun for kind in built_in()}


def test_the_reference_is_what_the_parser_says() -> None:
    assert pages() == WRITTEN, "run `make docs`"


@pytest.mark.parametrize(("path", "command"), [pytest.param(*entry, id=entry[0]) for entry in commands()])
def test_a_command_is_documented_with_all_its_flags(path: str, command: click.Command) -> None:
    verb, _, noun = path.rpartition(" ")
    assert f"\n## {verb} {'KIND' if noun in NOUNS else noun}\n" in REFERENCE
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            for name in param.opts:
                assert f"`{name}`" in REFERENCE, f"{name} of {path} is not documented"


def test_every_level_variable_context_key_and_exit_status_is_documented() -> None:
    for flags in filter(None, LEVEL_FLAGS.values()):
        assert f"`{flags}`" in GUIDE
    for name in [*re.findall(r"RAINBOW_[A-Z_]+", main.root().epilog or ""), *CONTEXT_KEYS]:
        assert f"`{name}`" in GUIDE, f"{name} is not documented"
    for status, meaning in EXIT_CODES.items():
        assert f"| {status} | {meaning} |" in GUIDE.replace("`", "")
    assert f"| {EXIT_BROKEN_PIPE} | " in GUIDE
