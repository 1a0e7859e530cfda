from __future__ import annotations

from typing import Any

import pytest

from ctl.client import Client, Transport
from ctl.client.errors import InvalidRequest, NotFound, Unanswered
from ctl.client.executions import ExecutionId

ID = ExecutionId(project="p", domain="d", name="a1")
JOB = {"project": "p", "domain": "d", "spec": {"job": {"command": ["true"]}}}


class Admin(Transport):
    """Notes what it is asked, and answers in turn."""

    url = "http://admin"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, str, dict[str, Any]]] = []

    def call(self, method: str, path: str, **call: Any) -> Any:
        self.calls.append((method, path, call))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass


def make(*answers: Any) -> tuple[Client, Admin]:
    admin = Admin(*answers)
    return Client.from_transport(admin), admin


def test_an_execution_without_a_name_is_sent_again_under_the_same_key_and_made_once() -> None:
    client, admin = make(Unanswered(), {"id": ID.document(), "created": False})
    assert client.create_execution(JOB)["created"] is True
    keys = [call["headers"]["Idempotency-Key"] for _method, _path, call in admin.calls]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    client.create_execution(JOB)
    assert admin.calls[-1][2]["headers"]["Idempotency-Key"] not in keys


def test_an_execution_with_a_name_is_never_sent_again() -> None:
    client, admin = make(Unanswered())
    with pytest.raises(Unanswered):
        client.create_execution({**JOB, "name": "a1"})
    assert len(admin.calls) == 1
    assert not admin.calls[0][2]["headers"]


def test_a_relaunch_carries_a_key_too_and_a_dry_run_none() -> None:
    client, admin = make({"id": ID.document(), "created": True})
    client.repeat_execution("relaunch", {"id": ID.document()})
    client.repeat_execution("recover", {"id": ID.document()}, dry_run=True)
    assert [path for _method, path, _call in admin.calls] == ["executions/relaunch", "executions/recover"]
    assert "Idempotency-Key" in admin.calls[0][2]["headers"]
    assert admin.calls[1][2]["query"] == {"dry_run": "true"}
    assert admin.calls[1][2]["is_safe"]


def test_lists_go_to_the_path_of_their_project_and_domain_or_to_all() -> None:
    client, admin = make({"executions": []})
    assert list(client.executions("p", "d e", phase="QUEUED", cluster=None)) == []
    assert list(client.executions("p", state="ALL")) == []
    assert [(path, call["query"]) for _method, path, call in admin.calls] == [
        ("executions/p/d%20e", {"limit": 500, "phase": "QUEUED"}),
        ("executions", {"limit": 500, "project": "p", "state": "ALL"}),
    ]


def test_a_long_poll_leaves_the_admin_its_time() -> None:
    client, admin = make({"id": ID.document()})
    client.wait_for_execution(ID, 3, 30)
    assert admin.calls[0][2]["query"] == {"after_event": 3, "wait_seconds": 30}
    assert admin.calls[0][2]["more_seconds"] > 30


@pytest.mark.parametrize(
    ("answer", "is_there"), [({"launch_plans": [{}]}, True), ({"launch_plans": []}, False), (NotFound(), False)]
)
def test_whether_a_launch_plan_is_registered(answer: Any, is_there: bool) -> None:
    client, _admin = make(answer)
    assert client.has_launch_plan("p", "d", "lp") is is_there


def test_what_is_not_said_is_not_sent() -> None:
    client, admin = make({"matched": 0, "executions": []})
    client.terminate_execution(ID)
    client.terminate_executions({"filters": "eq(phase,QUEUED)"}, cause="why", dry_run=True)
    client.place(JOB)
    assert [call["body"] for _method, _path, call in admin.calls] == [
        {},
        {"selector": {"filters": "eq(phase,QUEUED)"}, "cause": "why"},
        JOB,
    ]


def test_a_cluster_is_told_and_its_tokens_are_asked_for_by_path() -> None:
    client, admin = make({"tokens": [], "changed": True})
    client.switch_cluster("a b", "drain", deadline="10m")
    client.cluster_tokens("a")
    client.rotate_token("a", overlap="1h")
    client.rotate_token("a")
    client.revoke_token("a", "12345678")
    assert [(method, path, call.get("body")) for method, path, call in admin.calls] == [
        ("POST", "clusters/a%20b/drain", {"deadline": "10m"}),
        ("GET", "clusters/a/tokens", None),
        ("POST", "clusters/a/tokens", {"overlap": "1h"}),
        ("POST", "clusters/a/tokens", {}),
        ("DELETE", "clusters/a/tokens/12345678", None),
    ]
    # A second answer to a rotation would be a second token.
    assert not any(call.get("is_safe") for method, _path, call in admin.calls if method != "GET")


def test_counts_are_added_up_over_all_answers_with_the_earliest_next_attempt() -> None:
    first = [
        {"value": "RETRY", "count": 1, "not_before": "2026-03-01T12:00:00Z"},
        {"value": "ASSIGNED", "count": 1, "requested": {"cpu": 0.5, "memory": 100, "gpu": 0}},
    ]
    second = [
        {"value": "ASSIGNED", "count": 3, "requested": {"cpu": 6.0, "memory": 300, "gpu": 2}},
        {"value": "RETRY", "count": 1, "not_before": "2026-03-01T11:59:59.5Z"},
        {"value": "UNDECIDED", "count": 2},
    ]
    client, admin = make({"counts": first, "token": "t"}, {"counts": second})
    assert client.execution_counts("reason", project="p", cause=None) == {
        "by": "reason",
        "counts": [
            {"value": "ASSIGNED", "count": 4, "requested": {"cpu": 6.5, "memory": 400, "gpu": 2}},
            {"value": "RETRY", "count": 2, "not_before": "2026-03-01T11:59:59.5Z"},
            {"value": "UNDECIDED", "count": 2},
        ],
        "total": 8,
    }
    assert [(path, call["query"]) for _method, path, call in admin.calls] == [
        ("execution_counts", {"by": "reason", "project": "p"}),
        ("execution_counts", {"by": "reason", "project": "p", "token": "t"}),
    ]


def test_an_older_admin_that_refuses_origins_lists_without_them() -> None:
    unknown = InvalidRequest("with_origin: unknown field.", details=[{"field": "with_origin", "reason": "unknown."}])
    client, admin = make(unknown, {"executions": [{"id": {}}], "token": "next"}, {"executions": [{"id": {}}]})
    assert list(client.executions(with_origin="true", phase="QUEUED")) == [{"id": {}}] * 2
    queries = [call["query"] for _method, _path, call in admin.calls]
    assert [query.get("with_origin") for query in queries] == ["true", None, None]
    assert {query["phase"] for query in queries} == {"QUEUED"}


def test_the_name_of_the_creator_goes_along_and_an_older_admin_is_asked_without_it() -> None:
    client, admin = make({"id": ID.document(), "created": True})
    client.create_execution({**JOB, "name": "a1"}, claimed_by="otto")
    client.repeat_execution("recover", {"id": ID.document(), "name": "b"}, claimed_by="otto")
    assert [call["body"]["claimed_by"] for _method, _path, call in admin.calls] == ["otto", "otto"]
    older = InvalidRequest("claimed_by: unknown field.", details=[{"field": "claimed_by", "reason": "unknown field."}])
    client, admin = make(older, {"results": [{"id": ID.document()}]})
    assert client.create_executions([JOB], claimed_by="otto")["results"]
    assert ["claimed_by" in call["body"] for _method, _path, call in admin.calls] == [True, False]
    client, admin = make(InvalidRequest("name: is wrong.", details=[{"field": "name", "reason": "is wrong."}]))
    with pytest.raises(InvalidRequest):
        client.create_execution({**JOB, "name": "A"}, claimed_by="otto")
    assert len(admin.calls) == 1


def test_who_archives_goes_along_and_an_older_admin_is_asked_without_it() -> None:
    older = InvalidRequest("claimed_by: unknown field.", details=[{"field": "claimed_by", "reason": "unknown field."}])
    client, admin = make(older, {"state": "ARCHIVED"})
    assert client.set_execution_state(ID, "ARCHIVED", claimed_by="otto") == {"state": "ARCHIVED"}
    assert [call["body"] for _method, _path, call in admin.calls] == [
        {"state": "ARCHIVED", "claimed_by": "otto"},
        {"state": "ARCHIVED"},
    ]


def test_a_dry_run_of_an_end_asks_the_admin_and_an_older_one_refuses_it_by_name() -> None:
    client, admin = make({"id": ID.document(), "phase": "QUEUED", "changed": True, "dry_run": True})
    client.terminate_execution(ID, give_up=True, dry_run=True)
    client.terminate_execution(ID)
    assert [(method, call["query"], call["is_safe"]) for method, _path, call in admin.calls] == [
        ("DELETE", {"dry_run": "true"}, True),
        ("DELETE", {}, False),
    ]
    refusal = InvalidRequest("dry_run: this path takes no query parameters.", details=[{"field": "dry_run"}])
    client, admin = make(refusal)
    with pytest.raises(InvalidRequest) as refused:
        client.terminate_execution(ID, dry_run=True)
    assert "older than this rainbowctl" in refused.value.message
    assert len(admin.calls) == 1


def test_the_median_of_what_several_answers_counted_is_left_out() -> None:
    def page(number: int, median: int, **more: Any) -> dict[str, Any]:
        waiting = {"count": number, "longest_seconds": 2 * median, "median_seconds": median}
        return {"counts": [{"value": "gpu", "count": number, "waiting": waiting}], **more}

    client, _ = make(page(2, 10, token="next"), page(3, 50))
    [group] = client.execution_counts("pool")["counts"]
    assert group["waiting"] == {"count": 5, "longest_seconds": 100}
    client, _ = make(page(2, 10))
    [group] = client.execution_counts("pool")["counts"]
    assert group["waiting"]["median_seconds"] == 10


def test_what_ran_is_added_up_over_all_answers() -> None:
    ran = {"count": 1, "seconds": 10.0, "longest_seconds": 10, "mean_seconds": 10.0, "gpu_hours": 0.5}
    more = {"count": 3, "seconds": 50.0, "longest_seconds": 30, "mean_seconds": 16.667, "gpu_hours": 1.0}
    pages = [
        {"counts": [{"value": "a", "count": 4, **part}], **token}
        for part, token in (({"ran": ran}, {"token": "t"}), ({}, {"token": "u"}), ({"ran": more}, {}))
    ]
    [group] = make(*pages)[0].execution_counts("project")["counts"]
    assert group["ran"] == {"count": 4, "seconds": 60.0, "longest_seconds": 30, "mean_seconds": 15.0, "gpu_hours": 1.5}
