from __future__ import annotations

import click
import pytest

from admin.core.settings.declared_kinds import TAKEN_NOUNS
from ctl.commands.verbs import KindGroup
from ctl.main import root
from scripts.client_facts import FOLDER, files


@pytest.mark.parametrize("name", ["kinds.json", "facts.json"])
def test_the_client_ships_what_the_admin_knows(name: str) -> None:
    """After a change of a built-in kind, a phase, a selector or a document's fields: make facts."""
    assert (FOLDER / name).read_text(encoding="utf-8") == files()[name]


def test_there_are_no_other_files_to_write() -> None:
    assert sorted(files()) == sorted(path.name for path in FOLDER.glob("*.json"))


def test_no_declared_kind_may_take_a_noun_of_the_command_line() -> None:
    group = root()
    verbs = (group.get_command(click.Context(group), name) for name in group.entries)
    nouns = {noun for verb in verbs if isinstance(verb, KindGroup) for noun in verb.entries}
    assert "cluster-state" in nouns
    assert nouns <= TAKEN_NOUNS
