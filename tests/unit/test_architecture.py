"""The packages of the code and the imports between them are those that docs/architecture.md draws."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
PACKAGES = ("admin", "agent", "ctl", "bench", "scripts", "tests")
#: What the rules must not need: input and output, time and randomness.
IMPURE = {"flask", "sqlalchemy", "marshmallow", "yaml", "random", "secrets", "time", "os", "requests", "threading"}


def drawn_packages() -> dict[str, str]:
    """The packages of the diagram: the module prefix by the node's name."""
    nodes = re.findall(r'^ +(\w+)\["`?([\w/.]+)', diagram(), re.MULTILINE)
    return {node: path.removesuffix(".py").replace("/", ".") for node, path in nodes}


def drawn_arrows() -> set[tuple[str, str]]:
    """The allowed imports between packages, `a --> b & c` in the diagram."""
    drawn = drawn_packages()
    return {
        (drawn[source], drawn[target.strip()])
        for source, targets in re.findall(r"^ +(\w+) --> (.+)$", diagram(), re.MULTILINE)
        for target in targets.split("&")
    }


def diagram() -> str:
    match = re.search(r"```mermaid\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert match is not None, f"{PAGE.name} has no mermaid diagram"
    return match.group(1)


def modules(package: str) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    # The OpenID provider of the tests brings a Python file of its own.
    paths = [path for path in (ROOT / package).rglob("*.py") if "node_modules" not in path.parts]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules of ours that a file imports; `from admin.store import fleet` counts as admin.store.fleet."""
    for module, name in import_statements(path):
        if name is not None and f"{module}.{name}" in modules:
            yield f"{module}.{name}"
        elif module in modules and module not in PACKAGES:  # a package itself has a version and nothing else
            yield module


@cache
def import_statements(path: Path) -> tuple[tuple[str, str | None], ...]:
    """Every import of a file, wherever it stands: the module, and the name that is taken from it."""
    statements: list[tuple[str, str | None]] = []
    for node in _statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            statements += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            statements += [(node.module, alias.name) for alias in node.names]
    return tuple(statements)


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Statements and those within them; to walk through their expressions too takes ten times as long."""
    for node in nodes:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(block := getattr(node, field, ()), list):
                yield from _statements(block)


def package_of(module: str, drawn: list[str]) -> str | None:
    """The longest drawn package that a module lies in."""
    matches = [package for package in drawn if module == package or module.startswith(f"{package}.")]
    return max(matches, key=len, default=None)


def product_modules() -> dict[str, Path]:
    return {name: path for package in ("admin", "agent", "ctl", "scripts") for name, path in modules(package).items()}


def test_every_module_lies_in_a_package_of_the_diagram() -> None:
    drawn = list(drawn_packages().values())
    packages = {"admin", "agent", "ctl", "scripts"}
    undrawn = [name for name in product_modules() if package_of(name, drawn) is None and name not in packages]
    assert undrawn == [], "draw these packages in docs/architecture.md"


def test_packages_import_each_other_only_as_drawn() -> None:
    all_modules = product_modules()
    drawn = list(drawn_packages().values())
    allowed = drawn_arrows()
    wrong = set()
    for name, path in all_modules.items():
        source = package_of(name, drawn)
        for imported in imports(path, all_modules):
            target = package_of(imported, drawn)
            if source is not None and target is not None and source != target and (source, target) not in allowed:
                wrong.add(f"{name} imports {imported}: {source} --> {target} is not drawn")
    assert sorted(wrong) == []


def test_every_drawn_arrow_is_used() -> None:
    all_modules = product_modules()
    drawn = list(drawn_packages().values())
    used = {
        (package_of(name, drawn), package_of(imported, drawn))
        for name, path in all_modules.items()
        for imported in imports(path, all_modules)
    }
    assert sorted(drawn_arrows() - used) == [], "no import needs these arrows any more; take them out of the diagram"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    all_modules = modules(package)
    graph = {
        name: {imported for imported in imports(path, all_modules) if imported != name}
        for name, path in all_modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' -> '.join(error.args[1])}")


def outside_imports(*folders: str) -> set[tuple[str, str]]:
    """The top-level packages that the files of some folders import."""
    paths = [path for folder in folders for path in sorted(ROOT.glob(folder))]
    assert paths
    return {(path.name, module.split(".")[0]) for path in paths for module, _ in import_statements(path)}


def test_the_core_is_pure() -> None:
    impure = {(name, package) for name, package in outside_imports("admin/core/**/*.py") if package in IMPURE}
    assert impure == set()
    assert not [path.name for path in (ROOT / "admin/core").rglob("*.py") if ".now(" in path.read_text()]


def test_no_migration_follows_a_rule_of_the_core() -> None:
    """A migration that was released does what it did then, whatever the rules are now."""
    migrations = sorted((ROOT / "admin/store/migrations/versions").glob("*.py"))
    assert [path.name for path in migrations if any("admin.core" in name for name, _ in import_statements(path))] == []


def test_migrations_follow_each_other() -> None:
    """No two follow the same one, as they may where each was made beside the other."""
    scripts = [path.read_text() for path in (ROOT / "admin/store/migrations/versions").glob("0*.py")]
    before = [
        match[1] for script in scripts if (match := re.search(r'^down_revision = "(\d+)"$', script, re.MULTILINE))
    ]
    assert sorted(before) == sorted(set(before))
    assert len(before) == len(scripts) - 1, "each but the first one follows another"


def test_messages_and_gate_need_no_web_framework() -> None:
    imported = outside_imports("admin/messages/*.py", "admin/gate.py")
    assert {package for _, package in imported} & {"flask", "werkzeug", "sqlalchemy"} == set()
