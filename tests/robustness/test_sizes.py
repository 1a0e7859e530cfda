"""Large requests within the limit: answered soon, and with an answer that is not larger than the question."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.robustness.pictures import BASE, PROJECT, put_body, refused, seeded, sqlite_only

LARGEST = 2**20
#: Of the processor: far above what the work needs on a slow machine, far below what a quadratic walk takes.
SECONDS = 10


def keys(number: int) -> dict[str, int]:
    return {f"{index:x}": 1 for index in range(number)}


def body_with_a_key_twice() -> bytes:
    return json.dumps(keys(40_000)).encode()[:-1] + b', "9c3f": 2}'


MANY_KEYS = [
    pytest.param(put_body("task_resource_attributes", keys(70_000)), id="unknown fields"),
    pytest.param({"attributes": {"matching_attributes": keys(70_000)}}, id="payloads"),
    pytest.param(keys(70_000), id="unknown keys"),
    pytest.param(put_body("x" * 1_000_000, {}), id="a long payload key"),
    pytest.param(put_body("task_resource_attributes", {"x" * 1_000_000: 1}), id="a long field"),
    pytest.param({"x" * 1_000_000: 1}, id="a long key"),
    pytest.param(
        {
            "attributes": {
                "project": "x" * 1_000_000,
                "matching_attributes": {"execution_cluster_label": {"value": "a"}},
            }
        },
        id="a long project",
    ),
    pytest.param(put_body("execution_cluster_label", {"value": "x" * 1_000_000}), id="a long value"),
    pytest.param(put_body("cluster_resource_attributes", {"attributes": {"-" * 1_000_000: "x"}}), id="a long map key"),
]


@sqlite_only
@pytest.mark.parametrize("body", MANY_KEYS)
def test_a_large_bad_body_gets_a_small_answer_soon(api: FlaskClient, body: Any) -> None:
    seeded(api)
    sent = json.dumps(body, separators=(",", ":")).encode()
    assert len(sent) < LARGEST
    begun = time.process_time()
    answer = refused(api, lambda: api.put(PROJECT, data=sent, content_type="application/json"))
    assert time.process_time() - begun < SECONDS
    assert len(json.dumps(answer)) < 100_000


@sqlite_only
def test_a_key_that_stands_twice_among_many_is_found_soon(api: FlaskClient) -> None:
    sent = body_with_a_key_twice()
    assert len(sent) < LARGEST
    begun = time.process_time()
    refused(api, lambda: api.put(PROJECT, data=sent, content_type="application/json"), field="9c3f")
    assert time.process_time() - begun < SECONDS


@sqlite_only
@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"set": {f"labels.values.k{i}": "v" for i in range(30_000)}}, id="set by path"),
        pytest.param({"unset": [f"labels.values.k{i}" for i in range(30_000)]}, id="unset"),
        pytest.param({"set": {"labels": {"values": {f"k{i}": "v" for i in range(30_000)}}}}, id="set nested"),
        pytest.param({"set": {f"x{i}.y": "v" for i in range(30_000)}}, id="unknown paths"),
    ],
)
def test_a_large_bad_patch_gets_a_small_answer_soon(api: FlaskClient, patch: Any) -> None:
    seeded(api)
    begun = time.process_time()
    answer = refused(api, lambda: api.patch(f"{PROJECT}?resource_type=6", json=patch))
    assert time.process_time() - begun < SECONDS
    assert len(json.dumps(answer)) < 100_000


@sqlite_only
def test_made_up_methods_do_not_fill_the_metrics(api: FlaskClient) -> None:
    for number in range(20):
        assert api.open(f"{BASE}/kinds", method=f"BREW{number}").status_code == 405
    assert "BREW" not in api.get("/metrics").get_data(as_text=True)
