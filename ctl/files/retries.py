"""Retry policies, from flags and files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.facts import SCHEMAS
from ctl.client.kinds import Schema

#: The key `retry` of execution files and launch plans.
RETRY_SCHEMA: Schema = SCHEMAS["retry"]
ON_LOST: tuple[str, ...] = tuple(RETRY_SCHEMA["properties"]["on_lost"]["enum"])
#: The attempts that the admin allows, the first one included.
MOST_ATTEMPTS: int = RETRY_SCHEMA["properties"]["attempts"]["maximum"]


def retry_policy(in_file: Mapping[str, Any], flags: Mapping[str, Any]) -> Document:
    """The retry policy of a file with the flags applied; empty if there is none."""
    typed: Document = {"backoff": flags["backoff"], "on_lost": flags["on_lost"]}
    if flags["retries"] is not None:
        # The admin counts attempts, the first one too.
        typed["attempts"] = flags["retries"] + 1
    policy = {**in_file, **{key: value for key, value in typed.items() if value is not None}}
    attempts = policy.get("attempts", 2 if policy.get("on_lost") == "retry" else 1)
    if flags["backoff"] is not None and attempts == 1:
        raise InvalidInput("--backoff has no effect without a second attempt: give --retries N too.")
    return policy
