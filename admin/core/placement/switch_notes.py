"""Switch notes: what operators wrote when they switched a cluster off or on, within sentences about executions."""

from __future__ import annotations

import re

#: A text whose parentheses are paired and hold no others.
_PAIRED = re.compile(r"(?:[^()]|\([^()]*\))*")
_BRACKETS = str.maketrans("()", "[]")
#: What operators wrote when they switched a cluster off, in verdicts.
_NOTE = re.compile(rf"(\bis (?:disabled|cordoned|draining)) \({_PAIRED.pattern}\)")
#: By whom and why the fleet changed, in causes of new decisions; the cause is the end of a sentence.
_CAUSE = re.compile(
    r"((?:After|after) (?:revision \d+|event \d+, cluster '[^']+' (?:was|is) [a-z ]+?))"
    r"(?: by |: |, and ).*?(\.?)\Z",
    re.DOTALL,
)


def bracketed(note: str) -> str:
    """What an operator wrote, as verdicts have it in parentheses: with others only where these are paired."""
    return note if _PAIRED.fullmatch(note) else note.translate(_BRACKETS)


def without_notes(sentence: str) -> str:
    """A sentence about clusters, without who switched them off or on, and without what these wrote."""
    return _CAUSE.sub(r"\1\2", _NOTE.sub(r"\1", sentence))
