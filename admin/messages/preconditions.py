"""What a write expects of the row that it changes."""

from __future__ import annotations

import re

from admin.core.changes import Expectation
from admin.core.problems import invalid


def read_expectation(match: str | None, none_match: str | None) -> Expectation:
    """What the headers If-Match and If-None-Match expect."""
    if match is not None and none_match is not None:
        raise invalid("If-Match", "cannot stand beside If-None-Match; send one of them.")
    if none_match is not None:
        if none_match.strip() != "*":
            raise invalid("If-None-Match", "only '*' is meaningful here: the row must be new.")
        return Expectation(absent=True)
    if match is None:
        return Expectation()
    if match.strip() == "*":
        return Expectation(present=True)
    version = re.fullmatch(r'\s*(?:(?:W/)?"([0-9]{1,18})"|([0-9]{1,18}))\s*', match)
    if version is None:
        reason = "is not a version; send the number that a read gave, in quotes, or '*'."
        raise invalid("If-Match", reason)
    return Expectation(version=int(version.group(1) or version.group(2)))
