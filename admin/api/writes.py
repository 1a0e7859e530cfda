"""What every write says beside its content: who makes it and why, how, and what it expects of the row."""

from __future__ import annotations

import re

from flask import request

from admin.api.current import access, caller
from admin.core.changes import Authorship, Expectation
from admin.core.problems import invalid
from admin.core.provenance import Actor
from admin.messages.requests import Fields
from admin.services.changeable.base import ChangeOptions, Mode

WRITE_HEADERS = ("If-Match", "If-None-Match")


def expectation() -> Expectation:
    """What the request's headers If-Match and If-None-Match expect of the row."""
    match, none_match = request.headers.get("If-Match"), request.headers.get("If-None-Match")
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


def actor(fields: Fields) -> Actor:
    """Who does something, as the fields of a request and its caller say."""
    return caller().actor(fields.get("claimed_by"))


def authorship(fields: Fields) -> Authorship:
    """Who changes something, and why, as the fields of a request and its caller say."""
    author, claimed_by, proof = actor(fields)
    return Authorship(
        author=author,
        claimed_by=claimed_by,
        proof=proof,
        message=fields.get("message"),
        request_id=caller().request_id,
    )


def change_options(query: Fields, body: Fields, tried: Mode = Mode.DRY_RUN) -> ChangeOptions:
    """How a request wants its change to be made; `tried` is the mode of a dry run."""
    return ChangeOptions(
        authorship=authorship(body),
        mode=tried if query["dry_run"] else Mode.MAKE,
        force=query.get("force", False),
        expected_head=body.get("expected_head"),
        access=access(),
    )
