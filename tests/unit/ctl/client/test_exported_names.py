"""What a program may import from `ctl.client`, and the older names that still work."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import ctl.client

EXPORTED = [
    "Attribute",
    "Change",
    "ChangeSet",
    "Client",
    "ClientError",
    "Conflict",
    "Effective",
    "Endpoint",
    "Execution",
    "ExecutionId",
    "Forbidden",
    "HeldTokens",
    "Identifier",
    "InvalidInput",
    "InvalidRequest",
    "Kind",
    "NotFound",
    "RainbowError",
    "Remedies",
    "RowChange",
    "Scope",
    "ServerError",
    "Settings",
    "TokensExhausted",
    "TokensLost",
    "Transport",
    "Unanswered",
    "Unauthenticated",
    "Unreachable",
    "built_in",
    "load_settings",
    "parse_endpoint",
]


def test_the_exported_names_are_these() -> None:
    assert ctl.client.__all__ == EXPORTED
    assert dir(ctl.client) == EXPORTED


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_name_is_the_one_that_type_checkers_see(name: str) -> None:
    """The module of each name is written twice: once for type checkers, once for the import at run time."""
    tree = ast.parse(Path(str(ctl.client.__file__)).read_text())
    checked = {
        alias.name: str(node.module)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert getattr(ctl.client, name) is getattr(importlib.import_module(checked.pop(name)), name)
    assert {name, *checked} == set(EXPORTED)


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = ctl.client.Nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("ctl.errors", ["ClientError", "Conflict", "NotFound", "InvalidInput", "EXIT_CODES"]),
        ("ctl.executions", ["Execution", "ExecutionId"]),
        ("ctl.scopes", ["Scope"]),
    ],
)
def test_the_modules_of_earlier_versions_give_the_same_objects(module: str, names: list[str]) -> None:
    older = importlib.import_module(module)
    newer = importlib.import_module(module.replace("ctl.", "ctl.client."))
    assert [getattr(older, name) for name in names] == [getattr(newer, name) for name in names]


def test_the_page_of_the_client_names_every_method() -> None:
    page = (Path(__file__).parents[4] / "docs/client.md").read_text()
    members = inspect.getmembers(ctl.client.Client, callable)
    methods = [name for name, _ in members if not name.startswith("_")]
    assert [name for name in methods if f"`{name}`" not in page] == []
