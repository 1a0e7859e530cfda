"""The programs from an installed package, without the checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.programs import BIN, clean_environment


def test_the_programs_work_when_installed_outside_the_checkout(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    source, site = tmp_path / "source", tmp_path / "site"
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if (root / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, source / name)
    install = [str(BIN / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(site), str(source)], check=True, cwd=tmp_path, timeout=120)
    env = clean_environment(PYTHONPATH=str(site), XDG_DATA_HOME=str(tmp_path / "data"))

    def python(code: str) -> str:
        command = [str(BIN / "python"), "-c", code]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout

    for module in ("admin", "ctl", "agent"):
        assert python(f"import {module}; print({module}.__file__)").startswith(str(site))
    migrated = python("import sys; sys.argv[1:] = ['migrate']; from admin.main import main; main()")
    assert migrated.startswith("schema empty -> ")
    assert (tmp_path / "data/rainbow/rainbow.db").exists()
    assert (tmp_path / "data/rainbow").stat().st_mode & 0o077 == 0
    for program in ("ctl.main", "agent.main"):
        assert "Usage" in python(
            f"import sys; sys.argv[1:] = ['--help']; from {program} import main\ntry: main()\nexcept SystemExit: pass"
        )
