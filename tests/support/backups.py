"""Backups as docs/operations.md tells operators to make them, and their restoration."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.support.postgresql import binaries


def back_up(url: str, directory: Path) -> Path:
    """A backup of a database that is in use."""
    backup = directory / "backup"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(_file(url))) as database, closing(sqlite3.connect(backup)) as copy:
            database.backup(copy)  # what the shell's .backup does
    else:
        _run("pg_dump", "--format=custom", f"--file={backup}", f"--dbname={_libpq(url)}")
    return backup


def restore(url: str, backup: Path) -> None:
    """Put a backup in the place of a database that nobody uses."""
    if url.startswith("sqlite"):
        for suffix in ("", "-wal", "-shm"):
            Path(f"{_file(url)}{suffix}").unlink(missing_ok=True)
        _file(url).write_bytes(backup.read_bytes())
    else:
        _run("pg_restore", "--clean", "--if-exists", "--exit-on-error", f"--dbname={_libpq(url)}", str(backup))


def _file(url: str) -> Path:
    return Path(make_url(url).database or "")


def _libpq(url: str) -> str:
    return url.replace("postgresql+psycopg", "postgresql")


def _run(program: str, *arguments: str) -> None:
    path = shutil.which(program) or f"{binaries()}/{program}"
    subprocess.run([path, *arguments], check=True, timeout=60)
