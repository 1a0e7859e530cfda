"""The fast lane answers as Flask does, and leaves to Flask whatever is not plain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import Client, TestResponse

from tests.conftest import MakeApp
from tests.support.placing import API, DOMAIN, PROJECT, get, ok, put_attribute

PATH = f"{API}/effective_attributes"
WHOLE = f"project={PROJECT}&domain={DOMAIN}&workflow=core.wf&launch_plan=lp"


def ways(api: FlaskClient, query: str, **more: Any) -> tuple[TestResponse, TestResponse]:
    """The answers to the same question: by the lane if it takes it, and by Flask."""
    usual = Client(api.application.wsgi_app._usual)  # type: ignore[attr-defined]
    return api.get(f"{PATH}?{query}", **more), usual.get(f"{PATH}?{query}", **more)


def without_ids(response: TestResponse) -> Any:
    return {name: value for name, value in (response.json or {}).items() if name != "request_id"}


@pytest.mark.parametrize(
    "query",
    [
        WHOLE,
        f"project={PROJECT}&domain={DOMAIN}",
        f"domain={DOMAIN}",
        f"project={PROJECT}",
        f"launch_plan=lp&workflow=core.wf&domain={DOMAIN}&project={PROJECT}",
        "",
        f"{WHOLE}&resource_type=3",
        f"{WHOLE}&resource_type=execution-cluster-label",
        f"{WHOLE}&resource_type=TASK_RESOURCE",
        f"{WHOLE}&resource_type=nothing",
        f"{WHOLE}&resource_type=3&resource_type=3",
        f"{WHOLE}&at=1",
        f"{WHOLE}&colour=blue",
        f"project={PROJECT}&project={PROJECT}",
        f"project={PROJECT}&domain={DOMAIN}&launch_plan=lp",
        "project=No.Such&domain=development",
        "project=nobody&domain=development",
        f"project={PROJECT}&domain=nowhere",
        f"project={PROJECT}&domain={DOMAIN}&workflow=..",
        f"project={PROJECT}&domain={DOMAIN}&workflow=a%20b",
        f"project={PROJECT}&domain={DOMAIN}&workflow=",
        f"project={PROJECT}&domain={DOMAIN}&workflow={'w' * 256}",
        f"launchPlan=lp&project={PROJECT}&domain={DOMAIN}&workflow=w",
    ],
)
def test_both_ways_answer_the_same(api: FlaskClient, query: str) -> None:
    put_attribute(api, "domain", "execution_cluster_label", {"value": "broad"})
    put_attribute(api, "workflow", "execution_cluster_label", {"value": "narrow"}, workflow="core.wf")
    put_attribute(api, "project", "task_resource_attributes", {"limits": {"cpu": None, "memory": "1Gi"}})
    get(api, "effective_attributes")  # the index is there from now on
    lane, usual = ways(api, query)
    assert lane.status_code == usual.status_code
    assert without_ids(lane) == without_ids(usual)
    assert lane.headers["Content-Type"] == usual.headers["Content-Type"]


def test_a_request_keeps_its_id(api: FlaskClient) -> None:
    lane, usual = ways(api, WHOLE, headers={"X-Request-Id": "mine-7"})
    assert lane.headers["X-Request-Id"] == usual.headers["X-Request-Id"] == "mine-7"
    lane, _ = ways(api, WHOLE, headers={"X-Request-Id": "not acceptable"})
    assert lane.headers["X-Request-Id"] not in ("", "not acceptable")


def test_the_token_counts_on_both_ways(make_app: MakeApp, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123456789abcdef")
    api = make_app(server={"apiTokenFile": str(token)}).test_client()
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer 0123456789abcdef0123456789abcdef"}, 200),
        ({"Authorization": "bearer 0123456789abcdef0123456789abcdef"}, 200),
        ({"Authorization": "Bearer 0123456789abcdef0123456789abcdeX"}, 401),
        ({"Authorization": "Basic abc"}, 401),
    ):
        lane, usual = ways(api, WHOLE, headers=headers)
        assert (lane.status_code, usual.status_code) == (status, status), headers


def test_requests_in_the_lane_are_counted(api: FlaskClient) -> None:
    def counted() -> float:
        text = api.get("/metrics").get_data(as_text=True)
        lines = (line for line in text.splitlines() if line.startswith("rainbow_http_requests_total{"))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if PATH in line and 'status="200"' in line)

    before = counted()
    for _ in range(3):
        ok(api.get(f"{PATH}?{WHOLE}"))
    assert counted() == before + 3
