"""The table of docs/engines/conformance.md: which checks of the suite each engine passes."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/engines/conformance.md"


def conformance() -> dict[str, dict[str, str]]:
    """What the first table says: by engine and check."""
    lines = PAGE.read_text().splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| check |"))
    end = next(number for number in range(head, len(lines)) if not lines[number].startswith("|"))
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[head:end]]
    return {engine: {row[0]: row[column] for row in rows[2:]} for column, engine in enumerate(rows[0][1:], start=1)}


def checks_of(engine: str) -> dict[str, bool]:
    """Whether each check is made of an engine."""
    return {check: cell == "passes" for check, cell in conformance()[engine].items()}
