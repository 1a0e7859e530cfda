"""What a scope whose row was deleted tells of the revision that deleted it, on both databases."""

from __future__ import annotations

from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from admin.core.retention import Retention
from admin.services.retention import prune
from tests.support.agents import Clock, set_clock
from tests.support.placing import API, DOMAIN, PROJECT, delete_attribute, get, ok, put_attribute, refused

LABEL = "EXECUTION_CLUSTER_LABEL"
HERE = f"project={PROJECT}&domain={DOMAIN}&resource_type={LABEL}&provenance=true"
PATH = f"project_domain_attributes/{PROJECT}/{DOMAIN}?resource_type={LABEL}"


def set_and_delete(api: FlaskClient) -> int:
    put_attribute(api, "project-domain", "execution_cluster_label", {"value": "a"})
    body = {"message": "no longer needed", "claimed_by": "ana"}
    return int(ok(api.delete(f"{API}/{PATH}", json=body))["revision"])


def facts(provenance: dict[str, Any]) -> tuple[object, ...]:
    assert provenance["at"]
    return tuple(provenance[key] for key in ("revision", "author", "claimed_by", "message"))


def test_a_deleted_row_says_who_deleted_it(api: FlaskClient) -> None:
    revision = set_and_delete(api)
    expected = (revision, "anonymous", "ana", "no longer needed")
    assert facts(get(api, f"effective_attributes?{HERE}")["deleted_by"][LABEL]) == expected
    assert list(get(api, f"effective_attributes?project={PROJECT}&domain={DOMAIN}&provenance=true")["deleted_by"]) == [
        LABEL
    ]
    for query in ("&provenance=true", "&provenance=true&exact=true"):
        answer = refused(api.get(f"{API}/{PATH}{query}"), 404, "attribute_not_found")
        [detail] = answer["details"]
        assert facts(detail["provenance"]) == expected
        assert f"was deleted by revision {revision}, anonymous (says ana), " in answer["message"]
        assert "'no longer needed'" in answer["message"]
    put_attribute(api, "domain", "execution_cluster_label", {"value": "b"})
    inherited = get(api, f"{PATH}&provenance=true")
    assert (inherited["inherited_from"]["level"], facts(inherited["deleted_by"])) == ("domain", expected)
    assert facts(get(api, f"effective_attributes?{HERE}")["deleted_by"][LABEL]) == expected


def test_what_is_not_asked_for_or_was_not_deleted_has_no_deletion(api: FlaskClient) -> None:
    assert "deleted_by" not in get(api, f"effective_attributes?{HERE}")
    revision = set_and_delete(api)
    assert "deleted_by" not in get(api, f"effective_attributes?{HERE.removesuffix('&provenance=true')}")
    assert refused(api.get(f"{API}/{PATH}"), 404, "attribute_not_found")["details"] == []
    beside = f"project={PROJECT}&domain={DOMAIN}&workflow=w&resource_type={LABEL}&provenance=true"
    assert "deleted_by" not in get(api, f"effective_attributes?{beside}")
    assert "deleted_by" not in get(api, f"effective_attributes?{HERE}&at={revision - 1}")
    assert get(api, f"effective_attributes?{HERE}&at={revision}")["deleted_by"][LABEL]["revision"] == revision
    put_attribute(api, "project-domain", "execution_cluster_label", {"value": "c"})
    assert "deleted_by" not in get(api, f"effective_attributes?{HERE}")
    assert get(api, f"effective_attributes?{HERE}&at={revision}")["deleted_by"][LABEL]["revision"] == revision
    delete_attribute(api, "project-domain", LABEL)
    assert get(api, f"effective_attributes?{HERE}")["deleted_by"][LABEL]["revision"] == revision + 2


def test_a_deletion_whose_revision_was_pruned_is_not_known(app: Flask, api: FlaskClient) -> None:
    clock = Clock()
    context = set_clock(app, clock)
    set_and_delete(api)
    clock.advance(86400.0)
    put_attribute(api, "domain", "execution_cluster_label", {"value": "b"})
    list(prune(context, Retention(revisions="12h")))
    assert "deleted_by" not in get(api, f"effective_attributes?{HERE}")
