"""Calls about workflows and launch plans, to this and to older admins."""

from __future__ import annotations

import pytest

from ctl.client import Identifier
from ctl.client.errors import InvalidRequest
from tests.unit.ctl.client.test_execution_calls import make

ID = Identifier(project="p", domain="d", name="train", version="v1")


def test_who_registers_goes_along_and_an_older_admin_is_asked_without_it() -> None:
    client, admin = make({"created": True})
    client.register("workflow", ID, {}, claimed_by="otto", message="first", dry_run=True)
    [(_method, path, call)] = admin.calls
    assert (path, call["query"]) == ("workflows", {"dry_run": "true"})
    assert call["body"] == {"id": ID.document(), "spec": {}, "claimed_by": "otto", "message": "first"}
    older = InvalidRequest("claimed_by: unknown field.", details=[{"field": "claimed_by", "reason": "unknown field."}])
    client, admin = make(older, {"created": True})
    assert client.register("launch_plan", ID, {}, is_active=True, claimed_by="otto")["created"]
    assert [call["body"].keys() - {"id", "spec"} for _method, _path, call in admin.calls] == [
        {"state", "claimed_by"},
        {"state"},
    ]


def test_who_activates_goes_along_and_an_older_admin_is_asked_without_it() -> None:
    older = InvalidRequest("claimed_by: unknown field.", details=[{"field": "claimed_by", "reason": "unknown field."}])
    client, admin = make(older, {"state": "ACTIVE"})
    assert client.set_launch_plan_state(ID, "ACTIVE", claimed_by="otto")["state"] == "ACTIVE"
    assert [call["body"] for _method, _path, call in admin.calls] == [
        {"state": "ACTIVE", "claimed_by": "otto"},
        {"state": "ACTIVE"},
    ]


def test_an_older_admin_refuses_a_message_that_it_would_not_keep() -> None:
    unknown = [{"field": field, "reason": "unknown field."} for field in ("claimed_by", "message")]
    older = InvalidRequest("claimed_by, message: unknown fields.", details=unknown)
    client, admin = make(older)
    with pytest.raises(InvalidRequest):
        client.register("workflow", ID, {}, claimed_by="otto", message="first")
    assert ["claimed_by" in call["body"] for _method, _path, call in admin.calls] == [True, False]
