"""A virtual environment for each peer, kept from one run to the next."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

_DIRECTORY = Path(__file__).resolve().parents[2] / ".bench"
_MOST_SECONDS = 600


class Unavailable(Exception):
    """A peer that cannot be measured, with the reason."""


def environment(name: str, *requirements: str) -> Path:
    """The bin directory of an environment with these packages; it is created if it does not exist yet."""
    directory = _DIRECTORY / name
    programs, done = directory / "bin", directory / ".installed"
    packages = "\n".join(requirements)
    if not done.exists() or done.read_text() != packages:
        print(f"Installing {', '.join(requirements)} …", file=sys.stderr)
        venv.create(directory, with_pip=True, clear=True)
        _install(programs / "pip", requirements)
        done.write_text(packages)
    return programs


def _install(pip: Path, requirements: tuple[str, ...]) -> None:
    command = [str(pip), "install", "--quiet", "--disable-pip-version-check", *requirements]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_MOST_SECONDS)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise Unavailable(f"it cannot be installed: {lines[-1].removeprefix('ERROR: ')}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"its installation took more than {_MOST_SECONDS} s") from error
