"""Operations are described by the functions that answer them."""

from __future__ import annotations

import pytest
from flask import Flask

from admin.api import fast_lane
from admin.api.openapi import document
from admin.api.operations import Operations
from admin.app import all_operations, check_declared
from admin.core.permissions import OPEN, SIGNED_IN
from admin.core.settings.builtin_kinds import BUILTIN_KINDS
from admin.core.settings.kinds import Kinds
from admin.messages.creations import CreatedAnswer, ManyCreatedAnswer
from admin.messages.service import StatusAnswer


def test_a_view_gives_the_summary_and_the_answer() -> None:
    operations = Operations("nothing")

    @operations.add("GET", "/nothing", permission=SIGNED_IN)
    def get_nothing() -> StatusAnswer:
        """Read nothing."""
        return StatusAnswer(status="ok")

    [operation] = operations.all
    assert (operation.path, operation.summary, operation.answers) == (
        "/api/v1/nothing",
        "Read nothing",
        (StatusAnswer,),
    )


def test_every_operation_has_a_summary_and_all_but_one_an_answer() -> None:
    assert [operation.path for operation in all_operations() if not operation.summary] == []
    assert [operation.path for operation in all_operations() if not operation.answers] == ["/metrics"]
    [creation] = [item for item in all_operations() if (item.method, item.path) == ("POST", "/api/v1/executions")]
    assert creation.answers == (CreatedAnswer, ManyCreatedAnswer)


def test_an_operation_without_a_permission_is_refused() -> None:
    operations = Operations("nothing")
    with pytest.raises(TypeError, match="permission"):
        operations.add("GET", "/nothing")  # type: ignore[call-arg]


def test_an_operation_with_an_unknown_permission_is_refused_with_the_closest() -> None:
    operations = Operations("nothing")

    def get_nothing() -> StatusAnswer:
        """Read nothing."""
        return StatusAnswer(status="ok")

    with pytest.raises(ValueError, match=r"no permission 'atributes.read'. Did you mean 'attributes.read'"):
        operations.add("GET", "/nothing", permission="atributes.read")(get_nothing)
    assert operations.all == []


def test_an_app_with_a_route_that_is_no_operation_does_not_start() -> None:
    app = Flask("test", static_folder=None)
    check_declared(app)
    app.add_url_rule("/api/v1/hidden", "hidden", lambda: "")
    with pytest.raises(RuntimeError, match="GET /api/v1/hidden declares no permission"):
        check_declared(app)


def test_only_operations_that_declare_it_need_no_token() -> None:
    open_paths = {operation.path for operation in all_operations() if operation.is_open}
    assert open_paths == {
        *("/", "/healthz", "/readyz", "/metrics", "/api/v1/version", "/api/v1/openapi.json", "/api/v1/openid"),
        "/api/v1/clusters/<name>/register",
    }
    without_permission = {operation.path for operation in all_operations() if operation.permission == OPEN}
    assert without_permission == open_paths - {"/metrics"}
    assert {operation.path for operation in all_operations() if operation.guarded_with_users} == {"/metrics"}


def test_reading_needs_no_permission_to_write() -> None:
    for operation in all_operations():
        verb = operation.permission.rpartition(".")[2]
        if operation.method == "GET":
            assert verb in {"read", OPEN, SIGNED_IN}, operation.path
        elif operation.method in {"PUT", "PATCH", "DELETE"}:
            assert verb in {"write", "end", "report"}, operation.path


def test_what_the_fast_lane_answers_is_declared() -> None:
    """The gate looks requests up in the list of operations, also those that Flask never sees."""
    declared = {(operation.method, operation.path): operation.permission for operation in all_operations()}
    assert declared["GET", fast_lane.PATH] == "attributes.read"
    for route, _keys in fast_lane.LEVELS.values():
        assert declared["GET", route] == "attributes.read"
        assert declared["PUT", route] == "attributes.write"


def test_the_openapi_document_says_what_each_operation_needs() -> None:
    described = document(all_operations(), Kinds(BUILTIN_KINDS))["paths"]
    listed = described["/api/v1/projects"]["get"]["description"]
    assert listed == "Needs the permission `projects.read`: read projects. Answers with what the caller may see."
    own = described["/api/v1/users/{name}"]["get"]["description"]
    assert own.endswith("read users. Nobody needs it for what is about themselves.")
    put = described["/api/v1/pools/{name}"]["put"]
    assert put["x-permission"] == "fleet.write"
    assert put["description"] == (
        "Needs the permission `fleet.write` on the platform: define clusters, pools and labels."
    )
    assert described["/metrics"]["get"]["x-permission"] == "metrics.read"
    assert described["/healthz"]["get"]["x-permission"] == OPEN
    assert all(item["x-permission"] and item["description"] for path in described.values() for item in path.values())
