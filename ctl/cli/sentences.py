"""Sentences as people read them: times as distances from now, and lines that fit a width."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial

from ctl.client.times import distance, to_second

#: A time within a sentence of the admin, with the word before it that says how to read it.
_TIME = re.compile(
    r"(?<![-\w])(?P<word>at|(?:has been|is) silent since|[Ss]ilent since|since|from|until|before) "
    r"(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]+)?Z)(?: on\b)?"
)
#: What is copied as a whole: a command, in backquotes or up to the end of its line.
_COMMAND = re.compile(r"`[^`\n]*`|\brainbowctl [^`\n]*$", re.MULTILINE)
#: Stands for a space that no line may end at.
_KEPT_SPACE = "\ue000"
#: Stands, before a space, where a line may end within a word.
_JOINT = "\ue001"


def with_distances(text: str, *, is_wide: bool, now: datetime | None = None, is_past: bool = False) -> str:
    """A sentence with distances from now in place of times; wide output has the times as tables have them.

    `is_past` says that it tells of what was then: nothing in it is said to last until now.
    """
    return _TIME.sub(_absolute if is_wide else partial(_relative, now=now, is_past=is_past), text)


def _absolute(match: re.Match[str]) -> str:
    return match[0].replace(match["time"], to_second(match["time"]))


def _relative(match: re.Match[str], now: datetime | None, is_past: bool) -> str:
    away = distance(match["time"], now)
    is_ahead = away.startswith("in ")
    if match["word"].endswith(" silent since") and not is_ahead:
        return f"was silent, last heard {away}" if is_past else f"has been silent for {away.removesuffix(' ago')}"
    if match["word"].lower() == "silent since" and not is_ahead:
        return f"{match['word'].removesuffix(' since')}, last heard {away}"
    if match["word"] == "before":
        return match[0] if is_ahead else f"more than {away}"
    if match["word"].endswith("since"):
        # Not how long it has lasted: a sentence of the past tells of what may be over.
        return match[0] if is_ahead else f"since {away}"
    if match["word"] == "until":
        if is_ahead and is_past:  # it may have ended before
            return _absolute(match)
        return f"for another {away.removeprefix('in ')}" if is_ahead else f"until {away}"
    return away


def fold(text: str, width: int, *, indent: str = "") -> list[str]:
    """
    The lines of a text, of at most so many columns; all but the first are indented.

    Words and commands stay whole, so that they can be copied; of a longer list without spaces, its entries do.
    """
    text = _COMMAND.sub(lambda command: command[0].replace(" ", _KEPT_SPACE), text)
    lines = [line for paragraph in text.split("\n") for line in _wrap(paragraph, width, indent)]
    return [line.replace(_KEPT_SPACE, " ") for line in lines]


def _wrap(text: str, width: int, indent: str) -> list[str]:
    from textwrap import wrap

    words = [_with_joints(word) if len(word) > width - len(indent) else word for word in text.split(" ")]
    lines = wrap(" ".join(words), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace(f"{_JOINT} ", "").replace(_JOINT, "") for line in lines] or [""]


def _with_joints(word: str) -> str:
    """A word that may be broken after each comma, unless it is a command."""
    return word if _KEPT_SPACE in word else re.sub(r",(?=.)", f",{_JOINT} ", word)
