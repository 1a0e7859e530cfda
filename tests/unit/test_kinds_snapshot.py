from __future__ import annotations

from pathlib import Path

from scripts.kinds_snapshot import snapshot


def test_the_command_line_knows_the_built_in_kinds_as_the_admin_does() -> None:
    """After a change of a built-in kind: make kinds."""
    shipped = (Path(__file__).parents[2] / "ctl/client/kinds.json").read_text()
    assert shipped == snapshot()
