"""What an admin holds, and what it says when it refuses: the two things that every bad request is judged by."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

BASE = "/api/v1"
PROJECT = f"{BASE}/project_attributes/flyteexamples"
PROJECT_DOMAIN = f"{BASE}/project_domain_attributes/flyteexamples/development"
WORKFLOW = f"{BASE}/workflow_attributes/flyteexamples/development/core.sort"
LAUNCH_PLAN = f"{BASE}/launch_plan_attributes/flyteexamples/development/core.sort/nightly"

#: For what does not depend on the database.
sqlite_only = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
shared_sqlite_only = pytest.mark.parametrize("shared_app", ["sqlite"], indirect=True)


def put_body(payload_key: str, payload: Any, **more: Any) -> dict[str, Any]:
    """The body that stores one payload."""
    return {"attributes": {"matching_attributes": {payload_key: payload}}, **more}


def stored(api: FlaskClient) -> dict[str, Any]:
    """Everything that a refused request must leave as it is."""
    return {
        "rows": api.get(f"{BASE}/matchable_attributes?resource_type=all&limit=1000").get_json()["configurations"],
        "revision": api.get(f"{BASE}/effective_attributes").get_json()["revision"],
        "projects": api.get(f"{BASE}/projects?state=ALL&limit=1000").get_json()["projects"],
    }


def seeded(api: FlaskClient) -> None:
    """Rows that a bad request could harm."""
    rows = {
        PROJECT_DOMAIN: put_body("task_resource_attributes", {"limits": {"cpu": "2", "memory": "450Mi"}}),
        WORKFLOW: put_body("workflow_execution_config", {"max_parallelism": 5, "labels": {"values": {"team": "a"}}}),
        PROJECT: put_body("execution_cluster_label", {"value": "mycluster"}),
    }
    for path, body in rows.items():
        assert api.put(path, json=body).status_code == 200


def refused(
    api: FlaskClient,
    send: Callable[[], TestResponse],
    *,
    status: int = 400,
    error: str = "invalid_request",
    field: str | None = None,
) -> dict[str, Any]:
    """Send something bad: it is refused in the documented shape, names the field, and changes nothing."""
    before = stored(api)
    response = send()
    assert (response.status_code, response.mimetype) == (status, "application/json"), response.get_data(as_text=True)
    answer: dict[str, Any] = json.loads(response.data, parse_constant=_not_json)
    assert list(answer) == ["code", "error", "message", "details", "request_id"]
    assert answer["error"] == error, answer
    assert answer["request_id"] == response.headers["X-Request-Id"]
    assert len(answer["message"]) > 10
    if field is not None:
        assert field in [detail.get("field") for detail in answer["details"]], answer
        assert field in answer["message"]
        assert all(len(detail["reason"]) > 5 for detail in answer["details"])
    assert stored(api) == before
    return answer


def _not_json(word: str) -> None:
    raise AssertionError(f"the answer holds {word}, which is not JSON")
