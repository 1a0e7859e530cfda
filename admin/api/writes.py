"""What every write says beside its content: who makes it and why, how, and what it expects of the row."""

from __future__ import annotations

from flask import request

from admin.api.current import caller
from admin.core.changes import Authorship, Expectation
from admin.messages.preconditions import read_expectation
from admin.messages.requests import Fields
from admin.services.changeable.base import ChangeOptions, Mode

WRITE_HEADERS = ("If-Match", "If-None-Match")


def expectation() -> Expectation:
    """What the request's headers expect."""
    return read_expectation(request.headers.get("If-Match"), request.headers.get("If-None-Match"))


def authorship(fields: Fields) -> Authorship:
    """Who changes something, and why, as the fields of a request and its caller say."""
    return Authorship(
        claimed_by=fields.get("claimed_by"), message=fields.get("message"), request_id=caller().request_id
    )


def change_options(query: Fields, body: Fields, tried: Mode = Mode.DRY_RUN) -> ChangeOptions:
    """How a request wants its change to be made; `tried` is the mode of a dry run."""
    return ChangeOptions(
        authorship=authorship(body),
        mode=tried if query["dry_run"] else Mode.MAKE,
        force=query.get("force", False),
        expected_head=body.get("expected_head"),
    )
