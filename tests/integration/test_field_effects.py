"""Fields that executions do not follow are marked where they are shown, on both databases."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.core.settings.builtin_kinds import ENGINES
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    JOB,
    PROJECT,
    asked,
    create,
    created,
    delete_attribute,
    explanation,
    get,
    new_project,
    nothing_stored,
    ok,
    put_attribute,
    put_cluster,
    register_plan,
    register_workflow,
    report,
)

SLOW_ON = ("postgresql",)

CONFIG, RESOURCES = "WORKFLOW_EXECUTION_CONFIG", "TASK_RESOURCE"
WORKFLOW = {"workflow": "index.build"}
PLAN = {**WORKFLOW, "launch_plan": "hourly"}
#: The outcome, value and effect of what agents get, and no engine reads.
UNREAD = ("unread_field", None, "passed to agents; no engine of Rainbow reads it")


def envs(**values: str) -> dict[str, Any]:
    return {"envs": {"values": [{"key": key, "value": value} for key, value in values.items()]}}


def effective(api: FlaskClient, kind: str, query: str = "&provenance=true", **scope: str) -> Any:
    keys = {"project": PROJECT, "domain": DOMAIN, **scope}
    named = "&".join(f"{key}={value}" for key, value in keys.items() if value)
    return get(api, f"effective_attributes?{named}&resource_type={kind}{query}")


def effects(answer: Any, kind: str) -> list[tuple[str, str, Any, str]]:
    entries = answer.get("field_effects", {}).get(kind, [])
    return [(entry["field"], entry["outcome"], entry.get("value"), entry["effect"]) for entry in entries]


@pytest.fixture
def set_up(api: FlaskClient) -> FlaskClient:
    """A launch plan and the job of its workflow that say some things themselves, over settings."""
    job = {
        "command": ["true"],
        "environment": {"MODE": "job", "BOTH": "job"},
        "labels": {"team": "search"},
        "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}},
    }
    ok(register_workflow(api, "index.build", job=job))
    plan = {**envs(LEVEL="plan", BOTH="plan"), "quality_of_service": {"tier": "HIGH"}, "max_parallelism": 3}
    ok(register_plan(api, "hourly", "index.build", **plan))
    put_attribute(
        api,
        "workflow",
        "workflow_execution_config",
        {**envs(MODE="row", LEVEL="row", BOTH="row", FREE="row"), "labels": {"values": {"team": "row"}}},
        **WORKFLOW,
    )
    put_attribute(api, "project", "workflow_execution_config", {"max_parallelism": 7, "overwrite_cache": True})
    put_attribute(api, "workflow", "quality_of_service", {"tier": "LOW"}, **WORKFLOW)
    put_attribute(
        api,
        "project-domain",
        "task_resource_attributes",
        {"defaults": {"cpu": "1", "memory": "200Mi", "gpu": "1", "storage": "1Gi"}},
    )
    put_attribute(
        api, "domain", "plugin_overrides", {"overrides": [{"task_type": "spark", "plugin_id": ["x"]}]}, domain=DOMAIN
    )
    return api


def test_what_the_job_and_the_launch_plan_say_themselves_is_not_used(set_up: FlaskClient) -> None:
    job = "the job of workflow index.build v1 says"
    answer = effective(set_up, CONFIG, **PLAN)
    assert sorted(effects(answer, CONFIG)) == [
        ("envs.values.BOTH", "launch_plan_says", "plan", "launch plan hourly v1 says plan"),
        ("envs.values.LEVEL", "launch_plan_says", "plan", "launch plan hourly v1 says plan"),
        ("envs.values.MODE", "ignored_by_job", "job", f"{job} job"),
        ("labels.values.team", "ignored_by_job", "search", f"{job} search"),
        ("max_parallelism", "launch_plan_says", 3, "launch plan hourly v1 says 3"),
        ("overwrite_cache", *UNREAD),
    ]
    steps = {step["level"]: step for step in answer["values"][0]["trail"]}
    assert steps["workflow"]["used"] == ["envs.values.FREE"]
    assert steps["project"]["used"] == []
    assert steps["project"]["overridden"] == ["max_parallelism", "overwrite_cache"]
    messages = {entry["message"] for entry in answer["field_effects"][CONFIG]}
    no_effect = get(set_up, f"matchable_attributes/no_effect?resource_type={CONFIG}")["warnings"]
    [warning] = [entry for entry in no_effect if entry["code"] == "ignored_by_job"]
    assert {*warning["fields"]} == {"envs.values.MODE", "envs.values.BOTH", "labels.values.team"}  # of the workflow
    assert any(message.startswith("The job of workflow 'index.build' says ") for message in messages)
    assert any(message.startswith("The definition of launch plan 'hourly' says ") for message in messages)


def test_a_workflow_without_its_launch_plan_has_only_its_job(set_up: FlaskClient) -> None:
    answer = effective(set_up, CONFIG, **WORKFLOW)
    assert [(field, value) for field, _, value, _ in sorted(effects(answer, CONFIG))] == [
        ("envs.values.BOTH", "job"),
        ("envs.values.MODE", "job"),
        ("labels.values.team", "search"),
        ("max_parallelism", None),
        ("overwrite_cache", None),
    ]
    of_project = effects(effective(set_up, CONFIG), CONFIG)  # in its domain
    assert of_project == [("max_parallelism", *UNREAD), ("overwrite_cache", *UNREAD)]
    plain = effective(set_up, CONFIG, query="", **WORKFLOW)
    assert "field_effects" not in plain
    assert plain["values"][0]["value"] == answer["values"][0]["value"]


@pytest.mark.parametrize(
    ("kind", "scope", "expected"),
    [
        (
            RESOURCES,
            WORKFLOW,
            [
                ("defaults.cpu", "ignored_by_job", "2"),
                ("defaults.memory", "ignored_by_job", "1Gi"),
                ("defaults.storage", "unread_field", None),
            ],
        ),
        ("QUALITY_OF_SERVICE_SPECIFICATION", PLAN, [("tier", "launch_plan_says", "HIGH")]),
        ("QUALITY_OF_SERVICE_SPECIFICATION", WORKFLOW, []),
        ("PLUGIN_OVERRIDE", PLAN, [("overrides.spark", "ignored_by_job", None)]),
    ],
)
def test_each_kind_says_which_fields_reach_nothing(
    set_up: FlaskClient, kind: str, scope: dict[str, str], expected: list[Any]
) -> None:
    answer = effective(set_up, kind, **scope)
    assert [entry[:3] for entry in sorted(effects(answer, kind))] == expected


def test_reach_marks_the_fields_that_a_job_or_a_launch_plan_says_itself(set_up: FlaskClient) -> None:
    ok(register_workflow(set_up, "plain"))
    query = f"resource_type={CONFIG}&project={PROJECT}&domain={DOMAIN}&workflow=index.build"
    reach = get(set_up, f"effective_attributes/reach?{query}")
    [plan] = reach["scopes"]
    assert (plan["relation"], reach["counts"]["follows"], reach["counts"]["not_followed"]) == ("follows", 1, 1)
    explained = effective(set_up, CONFIG, **PLAN)["field_effects"][CONFIG]
    of_project = ("max_parallelism", "overwrite_cache")
    of_row = {entry["field"]: entry for entry in explained if entry["field"] not in of_project}
    marked = {entry["field"]: entry for entry in plan["field_effects"]}
    assert marked.keys() == of_row.keys()
    for field, entry in marked.items():
        assert (entry["effect"], entry.get("value")) == (of_row[field]["effect"], of_row[field].get("value"))
        assert "max_parallelism" not in entry["message"]
    query = f"resource_type={RESOURCES}&project={PROJECT}&domain={DOMAIN}"
    answer = get(set_up, f"effective_attributes/reach?{query}")
    fields = {
        place.get("launch_plan") or place["workflow"]: [entry["field"] for entry in place["field_effects"]]
        for place in answer["scopes"]
    }
    both = ["defaults.cpu", "defaults.memory", "defaults.storage"]
    assert fields == {"index.build": both, "hourly": both, "plain": ["defaults.storage"]}
    put_resources(set_up, "workflow", "defaults", "300Mi", **WORKFLOW)
    [place] = [
        place
        for place in get(set_up, f"effective_attributes/reach?{query}")["scopes"]
        if place["workflow"] == "index.build" and "launch_plan" not in place
    ]
    # The row does not decide of the memory there.
    assert [entry["field"] for entry in place["field_effects"]] == ["defaults.cpu", "defaults.storage"]


def compared(answer: Any, side: str) -> dict[str, str | None]:
    """What wins over the fields that differ, on one side."""
    return {entry["field"]: entry[side].get("effect", {}).get("effect") for entry in answer["differences"]}


def test_comparisons_of_scopes_mark_what_a_job_or_a_launch_plan_says_itself(set_up: FlaskClient) -> None:
    here = f"project={PROJECT}&domain={DOMAIN}&workflow=index.build"
    query = f"effective_attributes/comparison?{here}&resource_type={CONFIG}"
    put_attribute(set_up, "workflow", "workflow_execution_config", envs(MODE="other", FREE="other"), workflow="plain")
    ok(register_workflow(set_up, "plain"))
    answer = get(set_up, f"{query}&other_workflow=plain")
    job = "the job of workflow index.build v1 says"
    assert compared(answer, "first") == {
        "envs.values.MODE": f"{job} job",
        "envs.values.LEVEL": None,
        "envs.values.BOTH": f"{job} job",
        "envs.values.FREE": None,
        "labels.values.team": f"{job} search",
    }
    assert set(compared(answer, "second").values()) == {None}
    with_plan = get(set_up, f"{query}&launch_plan=hourly&other_workflow=plain&other_launch_plan=none")
    assert compared(with_plan, "first")["envs.values.LEVEL"] == "launch plan hourly v1 says plan"
    [mode] = [entry for entry in answer["differences"] if entry["field"] == "envs.values.MODE"]
    [explained] = [
        entry
        for entry in effective(set_up, CONFIG, **WORKFLOW)["field_effects"][CONFIG]
        if entry["field"] == "envs.values.MODE"
    ]
    assert mode["first"]["effect"] == explained
    before = get(set_up, f"effective_attributes?{here}")["revision"]
    put_attribute(set_up, "workflow", "workflow_execution_config", envs(MODE="newer", FREE="newer"), **WORKFLOW)
    answer = get(set_up, f"{query}&at={before}")
    for side in ("first", "second"):
        effects_of_side = compared(answer, side)
        assert (effects_of_side["envs.values.MODE"], effects_of_side["envs.values.FREE"]) == (f"{job} job", None)


def test_the_comparison_of_an_execution_with_today_marks_what_each_job_says_itself(set_up: FlaskClient) -> None:
    created(set_up, "idx", launch_plan={"name": "hourly"})
    created(set_up, "adhoc", job={"command": ["true"], "environment": {"TEAM": "own"}})
    put_attribute(
        set_up,
        "workflow",
        "workflow_execution_config",
        envs(MODE="newer", LEVEL="newer", FREE="newer"),
        **WORKFLOW,
    )
    put_resources(set_up, "project-domain", "defaults", "300Mi")
    put_resources(set_up, "domain", "limits", "250Mi")
    put_attribute(set_up, "domain", "workflow_execution_config", envs(TEAM="row"))
    answer = get(set_up, f"executions/{PROJECT}/{DOMAIN}/idx/comparison")
    first, second = compared(answer, "first"), compared(answer, "second")
    job = "the job of workflow index.build v1 says"
    assert (first["envs.values.MODE"], second["envs.values.MODE"]) == (f"{job} job", f"{job} job")
    assert (first["envs.values.FREE"], second["envs.values.FREE"]) == (None, None)
    assert "envs.values.LEVEL" not in first  # what the launch plan says is part of both
    assert (first["defaults.memory"], second["defaults.memory"]) == (f"{job} 1Gi", f"{job} 1Gi")
    adhoc = get(set_up, f"executions/{PROJECT}/{DOMAIN}/adhoc/comparison")
    second = compared(adhoc, "second")
    assert second["envs.values.TEAM"] == "the job says own"
    assert second["defaults.memory"] == "executions get 250Mi, the limit"
    [team] = [entry for entry in adhoc["differences"] if entry["field"] == "envs.values.TEAM"]
    assert team["second"]["effect"]["message"] == "The job says envs.values.TEAM itself. This does not reach it."
    assert job_of(set_up, "adhoc")["environment"]["TEAM"] == "own"


def job_of(api: FlaskClient, name: str) -> Any:
    return get(api, f"executions/{PROJECT}/{DOMAIN}/{name}")["job"]


def test_a_job_of_which_a_version_follows_a_field_does_not_take_it_away(set_up: FlaskClient) -> None:
    ok(register_workflow(set_up, "index.build", "v2", job={"command": ["true"], "environment": {"MODE": "newer"}}))
    answer = effective(set_up, CONFIG, **WORKFLOW)
    assert effects(answer, CONFIG) == [
        ("envs.values.MODE", "ignored_by_job", None, "the job of workflow index.build says it itself"),
        ("max_parallelism", *UNREAD),
        ("overwrite_cache", *UNREAD),
    ]


def test_what_a_launch_plan_sets_over_a_setting_says_so(set_up: FlaskClient) -> None:
    created(set_up, "idx", launch_plan={"name": "hourly"}, envs=envs(FREE="asked", NEW="asked")["envs"])
    received = {entry["field"]: entry for entry in explanation(set_up, "idx")["received"]}
    plan = {"origin": {"level": "launch-plan-definition"}, "source": "launch plan hourly v1"}
    level = {"field": "environment.LEVEL", "value": "plan", **plan, "overrides": "envs.values.LEVEL"}
    assert received["environment.LEVEL"] == level
    assert received["environment.MODE"]["overrides"] == "envs.values.MODE"
    assert received["environment.FREE"]["overrides"] == "envs.values.FREE"
    assert "overrides" not in received["environment.NEW"]


def test_executions_get_what_the_effects_of_fields_say(set_up: FlaskClient) -> None:
    put_resources(set_up, "domain", "limits", "1Gi")
    job = created(set_up, "idx", launch_plan={"name": "hourly"})["job"]
    config = effects(effective(set_up, CONFIG, **PLAN), CONFIG)
    values = {field: value for field, _, value, _ in config}
    assert job["environment"] == {
        **{key: values[f"envs.values.{key}"] for key in ("MODE", "LEVEL", "BOTH")},
        "FREE": "row",
    }
    assert job["labels"]["team"] == values["labels.values.team"]
    amounts = {field: value for field, _, value, _ in effects(effective(set_up, RESOURCES, **PLAN), RESOURCES)}
    for resource in ("cpu", "memory"):
        assert job["resources"]["requests"][resource] == amounts[f"defaults.{resource}"]


def put_resources(api: FlaskClient, level: str, part: str, amount: str, **scope: str) -> Any:
    return put_attribute(api, level, "task_resource_attributes", {part: {"memory": amount}}, **scope)


def test_a_default_above_its_limit_is_marked(api: FlaskClient) -> None:
    put_resources(api, "project-domain", "defaults", "400Mi")
    put_resources(api, "domain", "limits", "300Mi")
    answer = effective(api, RESOURCES)
    assert effects(answer, RESOURCES) == [
        ("defaults.memory", "default_capped", "300Mi", "executions get 300Mi, the limit")
    ]
    [entry] = answer["field_effects"][RESOURCES]
    assert entry["message"] in [warning["message"] for warning in get(api, "warnings")["warnings"]]
    step = next(step for step in answer["values"][0]["trail"] if step["level"] == "project-domain")
    assert step["used"] == ["defaults.memory"]  # jobs get an amount since there is a default
    assert created(api, "e1")["job"]["resources"]["requests"]["memory"] == "300Mi"
    job = {"command": ["true"], "resources": {"requests": {"memory": "100Mi"}}}
    ok(register_workflow(api, "small", job=job))
    at_workflow = effective(api, RESOURCES, workflow="small")
    assert [entry[1] for entry in effects(at_workflow, RESOURCES)] == ["ignored_by_job"]


def proposed(part: str, amount: str | None, **scope: str) -> dict[str, Any]:
    change = {"resource_type": RESOURCES, **scope}
    return change | ({"delete": True} if amount is None else {"payload": {part: {"memory": amount}}})


def capped(answer: Any) -> list[tuple[str, str, str]]:
    """The level, project and field of each default that an answer warns of."""
    return [
        (warning["level"], warning.get("project", ""), warning["field"])
        for warning in answer["warnings"]
        if warning["code"] == "default_capped"
    ]


def change(api: FlaskClient, *changes: Any, query: str = "") -> Any:
    return ok(api.post(f"{API}/attribute_changes{query}", json={"changes": list(changes)}))


LIMIT = proposed("limits", "300Mi", domain=DOMAIN)
EXPECTED = [("project-domain", PROJECT, "defaults.memory")]


def test_proposed_limits_mark_defaults_before_they_are_set(api: FlaskClient) -> None:
    put_resources(api, "project-domain", "defaults", "400Mi")
    body = {"project": PROJECT, "domain": DOMAIN, "resource_type": RESOURCES, "changes": [LIMIT]}
    answer = ok(api.post(f"{API}/effective_attributes", json=body))
    assert [entry[:3] for entry in effects(answer, RESOURCES)] == [("defaults.memory", "default_capped", "300Mi")]


def test_a_lower_limit_warns_of_the_defaults_below_before_and_when_it_is_set(api: FlaskClient) -> None:
    put_resources(api, "project-domain", "defaults", "400Mi")
    put_resources(api, "project-domain", "defaults", "300Mi", domain="staging")
    path = f"{API}/domain_attributes/{DOMAIN}"
    body = {"attributes": {"matching_attributes": {"task_resource_attributes": {"limits": {"memory": "300Mi"}}}}}
    with nothing_stored(context_of(api.application)):
        tried = ok(api.put(f"{path}?dry_run=true", json=body))
        planned = change(api, LIMIT, query="?dry_run=true")
    written = ok(api.put(path, json=body))
    assert capped(tried) == capped(planned) == capped(written) == EXPECTED
    [message] = [warning["message"] for warning in written["warnings"] if warning["code"] == "default_capped"]
    assert message == (
        f"The default memory of 400Mi, set at project-domain {PROJECT}/{DOMAIN}, is above the limit of 300Mi, set at "
        f"domain {DOMAIN}; executions get 300Mi."
    )
    assert capped(get(api, "warnings")) == EXPECTED
    again = ok(api.put(path, json=body))
    assert capped(again) == []
    assert capped(change(api, proposed("limits", "250Mi", domain=DOMAIN))) == EXPECTED
    assert capped(change(api, proposed("limits", "500Mi", domain=DOMAIN))) == []


def test_every_way_to_a_default_above_a_limit_below_is_warned_of(api: FlaskClient) -> None:
    flow = {"workflow": "fit"}
    put_resources(api, "launch-plan", "limits", "300Mi", **flow, launch_plan="nightly")
    raised = put_resources(api, "project", "defaults", "400Mi")  # a default over a limit below
    assert capped(raised) == [("launch-plan", PROJECT, "defaults.memory")]
    put_resources(api, "workflow", "defaults", "200Mi", **flow)
    assert capped(get(api, "warnings")) == []
    deleted = delete_attribute(api, "workflow", RESOURCES, **flow)  # what is left counts again
    assert capped(deleted) == [("launch-plan", PROJECT, "defaults.memory")]
    of_domain = put_resources(api, "domain", "limits", "350Mi")  # over the default of a project, where they meet
    assert capped(of_domain) == [("project", PROJECT, "defaults.memory")]
    listed = capped(get(api, "warnings"))
    assert sorted(listed) == [("launch-plan", PROJECT, "defaults.memory"), ("project", PROJECT, "defaults.memory")]
    put_resources(api, "project-domain", "defaults", "100Mi")
    assert capped(get(api, "warnings")) == []


def test_a_removed_project_has_no_defaults_to_warn_of(api: FlaskClient) -> None:
    before = put_resources(api, "domain", "limits", "100Mi")["revision"]  # less than the default of the platform
    project = new_project(api, "gone")
    put_resources(api, "project-domain", "limits", "900Mi", project=project)
    undo = {"to": before, "everything": True}
    assert capped(ok(api.post(f"{API}/rollbacks?dry_run=true", json=undo))) == []
    deleted = ok(api.delete(f"{API}/project_domain_attributes/{project}/{DOMAIN}?resource_type=0&dry_run=true"))
    assert capped(deleted) == [("project-domain", project, "defaults.memory")]


def test_many_warnings_are_cut_and_counted(api: FlaskClient) -> None:
    changes = [proposed("defaults", "400Mi", project=PROJECT, domain=DOMAIN, workflow=f"w{n:02}") for n in range(25)]
    change(api, *changes)
    answer = change(api, LIMIT, query="?dry_run=true")
    warnings = [warning for warning in answer["warnings"] if warning["code"] == "default_capped"]
    assert [warning.get("workflow", "") for warning in warnings] == [*(f"w{n:02}" for n in range(20)), ""]
    assert warnings[-1]["message"].startswith("5 more defaults below are above the limit")


def test_fields_that_no_engine_reads_are_not_said_to_be_used(api: FlaskClient) -> None:
    config = {"max_parallelism": 3, "overwrite_cache": True, **envs(LEVEL="info")}
    message = (
        "max_parallelism, overwrite_cache are passed to agents, but no engine of Rainbow reads them; "
        "one of your own may."
    )
    path = f"{API}/project_domain_attributes/{PROJECT}/{DOMAIN}"
    body = {"attributes": {"matching_attributes": {"workflow_execution_config": config}}}
    written = ok(api.put(path, json=body))["warnings"]
    listed = get(api, "warnings")["warnings"]
    reasons = get(api, "matchable_attributes/no_effect")["warnings"]
    for warnings in (written, listed, reasons):
        assert [(entry["code"], entry["field"], entry["message"]) for entry in warnings] == [
            ("unread_field", "max_parallelism", message)
        ]
    assert reasons[0]["fields"] == ["max_parallelism", "overwrite_cache"]
    unread = [("max_parallelism", *UNREAD), ("overwrite_cache", *UNREAD)]
    answer = effective(api, CONFIG)
    assert effects(answer, CONFIG) == unread
    [*_, step] = answer["values"][0]["trail"]
    assert step["used"] == ["envs.values.LEVEL"]
    created(api, "e", overwrite_cache=True)
    placed = ok(api.post(f"{API}/placements", json={"project": PROJECT, "domain": DOMAIN, "spec": {"job": JOB}}))
    assert effects(placed, CONFIG) == unread
    assert effects(explanation(api, "e"), CONFIG) == unread


def test_an_execution_says_which_settings_its_own_job_overrides(set_up: FlaskClient) -> None:
    created(set_up, "idx", launch_plan={"name": "hourly"})
    answer = explanation(set_up, "idx")
    job = "the job of workflow index.build v1 says"
    assert ("defaults.cpu", "ignored_by_job", "2", f"{job} 2") in effects(answer, RESOURCES)
    assert ("envs.values.MODE", "ignored_by_job", "job", f"{job} job") in effects(answer, CONFIG)
    assert not any(field == "envs.values.LEVEL" for field, *_ in effects(answer, CONFIG))  # the launch plan's own


def unread(answer: Any) -> list[str]:
    return [entry["message"] for entry in answer.get("warnings") or [] if entry["code"] == "unread_field"]


def test_a_creation_warns_of_what_its_request_says_and_no_engine_reads(api: FlaskClient) -> None:
    put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": 3}, domain=DOMAIN)
    assert unread(ok(create(api, "plain"))) == []  # of settings it is listed with the warnings
    body = asked("said", overwrite_cache=True, interruptible=True, job={**JOB, "annotations": {"team": "search"}})
    expected = ["overwrite_cache is passed to agents, but no engine of Rainbow reads it; one of your own may."]
    assert unread(ok(api.post(f"{API}/executions?dry_run=true", json=body))) == expected
    assert unread(ok(api.post(f"{API}/placements", json=body))) == expected
    assert unread(ok(api.post(f"{API}/executions", json=body))) == expected
    assert [entry[0] for entry in effects(explanation(api, "said"), CONFIG)] == ["max_parallelism", "overwrite_cache"]


@pytest.mark.parametrize(("engine", "is_warned"), [("local", True), ("kubernetes", True), ("ours", False)])
def test_an_engine_of_ones_own_may_read_what_those_of_rainbow_do_not(
    api: FlaskClient, engine: str, is_warned: bool
) -> None:
    put_cluster(api, "oak")
    report(api, "oak", engine=engine)
    assert bool(unread(ok(create(api, "said", cluster="oak", overwrite_cache=True)))) is is_warned


def test_the_engines_of_rainbow_are_those_that_it_installs() -> None:
    assert {entry.name for entry in entry_points(group="rainbow.engines")} == ENGINES
