from __future__ import annotations

import pytest

from scripts.client_facts import FOLDER, files


@pytest.mark.parametrize("name", ["kinds.json", "facts.json"])
def test_the_client_ships_what_the_admin_knows(name: str) -> None:
    """After a change of a built-in kind, a phase, a selector or a document's fields: make kinds."""
    assert (FOLDER / name).read_text(encoding="utf-8") == files()[name]


def test_there_are_no_other_files_to_write() -> None:
    assert sorted(files()) == sorted(path.name for path in FOLDER.glob("*.json"))
