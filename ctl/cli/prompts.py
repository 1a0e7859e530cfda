"""Questions at a terminal."""

from __future__ import annotations

import sys

from ctl.client.errors import Declined


def is_terminal() -> bool:
    """Whether someone is there to answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirm(question: str, refusal: str) -> None:
    """Ask on stderr, so that piped output stays clean; anything but yes is a Declined."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        print(file=sys.stderr)
    if answer.strip().lower() not in {"y", "yes"}:
        raise Declined(refusal)
