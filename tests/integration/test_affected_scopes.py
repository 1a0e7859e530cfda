"""The scopes that a change affects, and the effective values that change there, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.core.settings.scopes import Scope
from admin.services import affected_scopes
from admin.services.affected_scopes import find_affected
from admin.services.context import Context
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    new_project,
    ok,
    put_attribute,
    register_plan,
    register_workflow,
)
from tests.support.statements import statements

SLOW_ON = ("postgresql",)

LABEL = "execution_cluster_label"
FIT = Scope(DOMAIN, PROJECT, "fit")


@pytest.fixture
def filled(api: FlaskClient) -> FlaskClient:
    """Workflows with settings, one of them registered with two launch plans, of which one is active."""
    for workflow in ("fit", "score"):
        put_attribute(api, "workflow", "quality_of_service", {"tier": "LOW"}, workflow=workflow)
    ok(register_workflow(api, "fit"))
    ok(register_plan(api, "nightly", "fit"))
    ok(register_plan(api, "retired", "fit", state="INACTIVE"))
    return api


def affected(context: Context, *changed: Scope, most: int = affected_scopes.MOST_BELOW) -> tuple[set[Scope], bool]:
    with context.database.reading() as connection:
        result = find_affected(context, connection, changed, most)
    return set(result.scopes), result.is_complete


@pytest.mark.usefixtures("filled")
def test_each_level_affects_itself_and_what_is_known_below(context: Context) -> None:
    nightly, score = FIT._replace(launch_plan="nightly"), FIT._replace(workflow="score")
    place = Scope(DOMAIN, PROJECT)
    assert affected(context, nightly) == ({nightly}, True)
    assert affected(context, FIT) == ({FIT, nightly}, True)
    assert affected(context, place) == ({place, FIT, nightly, score}, True)
    within, complete = affected(context, Scope(project=PROJECT))
    others = {Scope(domain, PROJECT) for domain in context.settings.domain_ids()}
    assert (within, complete) == ({Scope(project=PROJECT), *others, FIT, nightly, score}, True)
    everywhere, complete = affected(context, Scope(DOMAIN))
    assert {Scope(DOMAIN), place, FIT, nightly, score} <= everywhere
    assert complete
    assert affected(context, FIT, place)[0] == affected(context, place)[0]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("most", [0, 1, 2])
def test_however_few_are_looked_at_the_changed_ones_are_among_them(context: Context, most: int) -> None:
    changed = Scope(DOMAIN), FIT, Scope(DOMAIN, PROJECT, "unheard-of")
    scopes, complete = affected(context, *changed, most=most)
    assert scopes.issuperset(changed)
    assert (len(scopes) - len(changed), complete) == (most, False)
    assert affected(context, *changed, most=most) == (scopes, complete)


def plan(api: FlaskClient, *changes: dict[str, Any]) -> Any:
    return ok(api.post(f"{API}/attribute_changes?dry_run=true", json={"changes": list(changes)}))["effective"]


def label(value: str, **scope: str) -> dict[str, Any]:
    return {"resource_type": "EXECUTION_CLUSTER_LABEL", **scope, "payload": {"value": value}}


def test_a_plan_says_how_many_scopes_it_looked_at_and_whether_these_are_all(
    filled: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_attribute(filled, "workflow", LABEL, {"value": "own"}, workflow="score")
    complete = plan(filled, label("east", domain=DOMAIN))
    assert complete["complete"]
    changed = {change.get("workflow") for change in complete["changes"] if change.get("project") == PROJECT}
    assert changed == {None, "fit"}
    assert complete["examined"] == complete["scopes"] + 1  # the workflow with a label of its own
    monkeypatch.setattr(affected_scopes.find_affected, "__defaults__", (1,))
    cut = plan(filled, label("east", domain=DOMAIN))
    assert (cut["complete"], cut["examined"], cut["scopes"]) == (False, 2, 2)
    assert {change["level"] for change in cut["changes"]} == {"domain", "project-domain"}


def test_a_plan_of_many_rows_reads_no_more_often_than_one_of_few(
    filled: FlaskClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin.store.users.CACHE_SECONDS", 3600.0)  # or a request asks anew whether there are users
    for number in range(30):
        new_project(filled, f"p{number}")

    def asked(count: int) -> int:
        changes = [label("east", project=f"p{number}", domain=DOMAIN) for number in range(count)]
        with statements(context) as seen:
            assert plan(filled, *changes)["scopes"] == count
        return len(seen)

    assert asked(30) == asked(3)
