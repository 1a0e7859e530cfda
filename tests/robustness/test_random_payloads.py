"""Payloads that nobody would write, for every kind: stored and written back without a change, or refused by name."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.robustness.pictures import BASE, PROJECT, put_body, sqlite_only

PAYLOAD_KEYS = [
    "task_resource_attributes",
    "cluster_resource_attributes",
    "execution_queue_attributes",
    "execution_cluster_label",
    "quality_of_service",
    "plugin_overrides",
    "workflow_execution_config",
    "cluster_assignment",
    "workflow_priority",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8)
    | st.sampled_from(["1", "500m", "1Gi", "HIGH", "600s", "a", "mycluster", "FAIL", ""])
)
ANYTHING = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below, max_size=3)
)


def near(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of about the right shape; one in a few is anything at all."""
    right: st.SearchStrategy[Any]
    if "enum" in schema:
        right = st.sampled_from(schema["enum"])
    elif "properties" in schema:
        properties = {name: near(below) for name, below in schema["properties"].items()}
        right = st.fixed_dictionaries({}, optional=properties)
    elif isinstance(schema.get("additionalProperties"), dict):
        keys = st.sampled_from(["a", "b.c", "d.e/f", "X_Y"]) | st.text(max_size=3)
        right = st.dictionaries(keys, near(schema["additionalProperties"]), max_size=3)
    elif "items" in schema:
        right = st.lists(near(schema["items"]), max_size=3)
    else:
        right = SCALARS
    return st.one_of(right, right, right, ANYTHING)


def like(example: Any) -> st.SearchStrategy[Any]:
    """Parts of a valid payload, most of them unchanged."""
    if isinstance(example, dict):
        return st.fixed_dictionaries({}, optional={name: like(below) for name, below in example.items()})
    if isinstance(example, list):
        return st.tuples(*(like(item) for item in example)).map(list)
    return st.integers(0, 9).flatmap(lambda luck: SCALARS if luck == 0 else st.just(example))


@sqlite_only
@pytest.mark.parametrize("payload_key", PAYLOAD_KEYS)
def test_a_random_payload_is_stored_for_good_or_refused(api: FlaskClient, payload_key: str) -> None:
    kind = {kind["payload_key"]: kind for kind in api.get(f"{BASE}/kinds").get_json()["kinds"]}[payload_key]

    statuses: Counter[int] = Counter()

    @given(payload=near(kind["schema"]) | like(kind["example"]))
    @settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def check(payload: Any) -> None:
        answer = api.put(PROJECT, json=put_body(payload_key, payload))
        statuses[answer.status_code] += 1
        text = answer.get_data(as_text=True)
        if answer.status_code == 400:
            assert answer.get_json()["error"] == "invalid_request"
            assert answer.get_json()["details"], text
            return
        assert answer.status_code == 200, text
        read = api.get(f"{PROJECT}?resource_type={kind['number']}&exact=true").get_json()
        again = api.put(PROJECT, json={"attributes": read["attributes"]})
        assert (again.status_code, again.get_json().get("changed")) == (200, False), again.get_json()
        assert api.get(f"{BASE}/effective_attributes?project=flyteexamples&domain=staging").status_code == 200
        assert json.loads(text)["attributes"] == read["attributes"]

    check()
    assert min(statuses[200], statuses[400]) >= 5, statuses  # both have been tried


@sqlite_only
@pytest.mark.parametrize("payload_key", PAYLOAD_KEYS)
def test_a_random_patch_is_stored_for_good_or_refused(api: FlaskClient, payload_key: str) -> None:
    kind = {kind["payload_key"]: kind for kind in api.get(f"{BASE}/kinds").get_json()["kinds"]}[payload_key]
    fields = list(kind["schema"]["properties"])
    parts = ["cpu", "memory", "values", "HOME", "a.b/c", "queueing_budget", "run_as", "iam_role", "python", "", "."]
    paths = st.lists(st.sampled_from([*fields, *parts]), min_size=1, max_size=3).map(".".join)
    nested = (near(kind["schema"]) | like(kind["example"])).filter(lambda value: isinstance(value, dict))
    patches = st.fixed_dictionaries(
        {"set": nested | st.dictionaries(paths, SCALARS | ANYTHING, max_size=3)},
        optional={"unset": st.lists(paths, max_size=2), "inherit": st.lists(paths, max_size=2)},
    )
    plausible = st.fixed_dictionaries({"set": like(kind["example"]).filter(lambda value: isinstance(value, dict))})

    statuses: Counter[int] = Counter()

    @given(patch=patches | plausible)
    @settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def check(patch: Any) -> None:
        answer = api.patch(f"{PROJECT}?resource_type={kind['number']}", json=patch)
        assert answer.status_code in {200, 400}, answer.get_data(as_text=True)
        statuses[answer.status_code] += 1
        if answer.status_code == 200 and "attributes" in answer.get_json():
            again = api.put(PROJECT, json={"attributes": answer.get_json()["attributes"]})
            assert (again.status_code, again.get_json().get("changed")) == (200, False), again.get_json()

    check()
    assert min(statuses[200], statuses[400]) >= 5, statuses
