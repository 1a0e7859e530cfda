from __future__ import annotations

import pytest

from ctl.client.errors import InvalidRequest
from ctl.client.scopes import Scope
from tests.unit.ctl.client.test_execution_calls import make

SCOPE = Scope(domain="staging")
UNKNOWN = InvalidRequest("provenance: unknown field.", details=[{"field": "provenance", "reason": "unknown field."}])


def test_an_older_admin_that_refuses_provenance_is_asked_without_it() -> None:
    client, admin = make(UNKNOWN, {"values": [], "revision": 3})
    assert client.effective_document(SCOPE, provenance=True) == {"values": [], "revision": 3}
    queries = [call["query"] for _method, _path, call in admin.calls]
    assert queries == [{"domain": "staging", "provenance": "true"}, {"domain": "staging"}]


def test_any_other_refusal_is_that_of_the_caller() -> None:
    client, admin = make(InvalidRequest("No domain.", details=[{"field": "domain", "reason": "is unknown."}]))
    with pytest.raises(InvalidRequest, match="No domain"):
        client.effective_document(SCOPE, provenance=True)
    assert len(admin.calls) == 1
