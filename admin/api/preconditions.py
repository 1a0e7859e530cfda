"""What a write expects of the row it changes, and whether it is meant."""

from __future__ import annotations

import re

from flask import request

from admin.api.schemas import Flag, RequestSchema
from admin.core.problems import Invalid, Problem
from admin.core.settings.writes import Expectation

WRITE_HEADERS = ("If-Match", "If-None-Match")


class WriteQuery(RequestSchema):
    """The query of every write."""

    dry_run = Flag(load_default=False, metadata={"description": "Check everything and change nothing."})


def expectation() -> Expectation:
    """What the request's headers expect."""
    match, none_match = request.headers.get("If-Match"), request.headers.get("If-None-Match")
    if match is not None and none_match is not None:
        raise Invalid(Problem(field="If-Match", reason="cannot stand beside If-None-Match; send one of them."))
    if none_match is not None:
        if none_match.strip() != "*":
            raise Invalid(Problem(field="If-None-Match", reason="only '*' is meaningful here: the row must be new."))
        return Expectation(absent=True)
    if match is None:
        return Expectation()
    if match.strip() == "*":
        return Expectation(present=True)
    found = re.fullmatch(r'\s*(?:(?:W/)?"([0-9]{1,18})"|([0-9]{1,18}))\s*', match)
    if found is None:
        reason = "is not a version; send the number that a read gave, in quotes, or '*'."
        raise Invalid(Problem(field="If-Match", reason=reason))
    return Expectation(version=int(found.group(1) or found.group(2)))
