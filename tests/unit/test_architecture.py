"""Imports point inwards; of each other, the three programs share nothing but the client that ctl and agent use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: What each room may import of ours.
ALLOWED = {
    "admin.core": {"admin.core"},
    "admin.store": {"admin.core", "admin.store"},
    "admin.services": {
        *("admin.core", "admin.store", "admin.services", "admin.configuration"),
        *("admin.errors", "admin.metrics"),
    },
    "admin.messages": {
        *("admin.core", "admin.store", "admin.services", "admin.messages", "admin.configuration"),
        *("admin.errors",),
    },
    "admin.api": {
        *("admin.core", "admin.store", "admin.services", "admin.api", "admin.gate", "admin.messages"),
        *("admin.errors", "admin.metrics"),
    },
}
IMPURE = {"flask", "sqlalchemy", "marshmallow", "yaml", "random", "secrets", "time", "os", "requests"}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports; `from admin import errors` counts as admin.errors."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "admin":
            yield from (f"admin.{alias.name}" for alias in node.names if alias.name != "__version__")
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_imports_point_inwards(name: str) -> None:
    folder = ROOT / name.replace(".", "/")
    wrong = {
        (str(path.relative_to(ROOT)), module)
        for path in folder.rglob("*.py")
        for module in imports(path)
        if module.split(".")[0] in ("admin", "agent", "ctl") and ".".join(module.split(".")[:2]) not in ALLOWED[name]
    }
    assert wrong == set()


def test_the_core_is_pure() -> None:
    wrong = {
        (path.name, module)
        for path in (ROOT / "admin/core").rglob("*.py")
        for module in imports(path)
        if module.split(".")[0] in IMPURE
    }
    assert wrong == set()
    assert not [path.name for path in (ROOT / "admin/core").rglob("*.py") if ".now(" in path.read_text()]


@pytest.mark.parametrize(("program", "others"), [("ctl", {"admin", "agent"}), ("agent", {"admin", "ctl"})])
def test_programs_talk_http_only(program: str, others: set[str]) -> None:
    wrong = {
        (str(path.relative_to(ROOT)), module)
        for path in (ROOT / program).rglob("*.py")
        for module in imports(path)
        if module.split(".")[0] in others and not (program == "agent" and module.startswith("ctl.client."))
    }
    assert wrong == set()
