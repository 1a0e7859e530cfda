from __future__ import annotations

from typing import Any

import pytest

from ctl.client.errors import InvalidInput
from ctl.files.retries import retry_policy

NOTHING: dict[str, Any] = {"retries": None, "backoff": None, "on_lost": None}
IN_FILE = {"attempts": 4, "backoff": "1m", "retry_on": ["FAILED"]}


@pytest.mark.parametrize(
    ("in_file", "flags", "policy"),
    [
        ({}, {}, {}),
        ({}, {"retries": 0}, {"attempts": 1}),
        ({}, {"retries": 2, "backoff": "5s", "on_lost": "retry"}, {"attempts": 3, "backoff": "5s", "on_lost": "retry"}),
        (IN_FILE, {}, IN_FILE),
        (IN_FILE, {"retries": 0}, {**IN_FILE, "attempts": 1}),
        (IN_FILE, {"backoff": "2m"}, {**IN_FILE, "backoff": "2m"}),
    ],
)
def test_flags_go_before_the_file_one_by_one(
    in_file: dict[str, Any], flags: dict[str, Any], policy: dict[str, Any]
) -> None:
    assert retry_policy(in_file, {**NOTHING, **flags}) == policy


@pytest.mark.parametrize("flags", [{"backoff": "10s"}, {"backoff": "10s", "retries": 0}])
def test_a_wait_before_an_attempt_that_never_comes_is_refused(flags: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="give --retries N too"):
        retry_policy({}, {**NOTHING, **flags})
