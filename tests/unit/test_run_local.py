"""What `make run`'s script makes of a configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.run_local import ROOT, database_options


@pytest.mark.parametrize("text", ["", "database:\n", "database: {poolSize: 3}\n", "database: [\n", "- a list\n"])
def test_it_runs_on_a_database_of_its_own(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    expected = ["--database", f"sqlite:///{tmp_path}/rainbow.db"]
    assert database_options(tmp_path / "config.yaml", tmp_path) == expected
    assert database_options(ROOT / "config/rainbow.yaml", tmp_path) == expected
    assert database_options(tmp_path / "missing.yaml", tmp_path) == expected


def test_it_runs_on_the_database_that_the_configuration_names(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("database: {url: postgresql+psycopg://rainbow@db/rainbow}\n")
    assert database_options(tmp_path / "config.yaml", tmp_path) == []
