"""What a job really gets, and where each part comes from."""

from __future__ import annotations

from typing import Any

from admin.core.executions.received import received

PROJECT = {"level": "project", "project": "p", "version": 3}
REQUEST = {"level": "request"}
SETTINGS: list[dict[str, Any]] = [
    {
        "resource_type": "TASK_RESOURCE",
        "value": {"defaults": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "1Gi"}},
        "origins": {"defaults.cpu": PROJECT, "defaults.memory": PROJECT, "limits.memory": PROJECT},
    },
    {
        "resource_type": "WORKFLOW_EXECUTION_CONFIG",
        "value": {
            "envs": {"values": [{"key": "A", "value": "settings"}, {"key": "B", "value": "settings"}]},
            "labels": {"values": {"a.b/team": "ml"}},
            "security_context": {"run_as": {"iam_role": "r"}},
        },
        "origins": {
            "envs.values.A": PROJECT,
            "envs.values.B": PROJECT,
            "labels.values.a.b/team": REQUEST,
            "security_context.run_as": PROJECT,
        },
        "trail": [
            {**PROJECT, "used": ["envs.values.A", "envs.values.B", "security_context.run_as"], "overridden": []},
            {**REQUEST, "used": ["labels.values.a.b/team"], "overridden": []},
        ],
    },
]


def test_what_the_job_itself_says_wins_over_settings() -> None:
    job = {
        "environment": {"A": "own", "B": "settings", "C": "own"},
        "labels": {"a.b/team": "ml"},
        "identity": {"iam_role": "r"},
        "resources": {"nodes": 2, "tasks": 1, "requests": {"cpu": "4", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    }
    assert received(job, None, SETTINGS, project="games", launched={}) == [
        {"field": "resources.requests.cpu", "value": "4", "overrides": "defaults.cpu"},
        {"field": "resources.requests.memory", "value": "1Gi", "origin": PROJECT},  # the default, capped at the limit
        {"field": "resources.limits.memory", "value": "1Gi", "origin": PROJECT},
        {"field": "resources.nodes", "value": "2"},
        {"field": "environment.A", "value": "own", "overrides": "envs.values.A"},
        {"field": "environment.B", "value": "settings", "origin": PROJECT},
        {"field": "environment.C", "value": "own"},
        {"field": "labels.a.b/team", "value": "ml", "origin": REQUEST},
        {"field": "identity", "value": {"iam_role": "r"}, "origin": PROJECT},
    ]


def test_an_amount_that_happens_to_be_the_limit_is_the_jobs_own() -> None:
    settings = [{**SETTINGS[0], "value": {"defaults": {"cpu": "1"}, "limits": {"cpu": "2"}}}, SETTINGS[1]]
    assert received({"resources": {"requests": {"cpu": "2"}}}, None, settings, project="games", launched={}) == [
        {"field": "resources.requests.cpu", "value": "2", "overrides": "defaults.cpu"}
    ]


def test_an_ad_hoc_job_that_asks_for_the_default_asks_for_it_itself() -> None:
    job = {"resources": {"requests": {"cpu": "1"}}}
    assert received(job, job, SETTINGS, project="games", launched={}) == [
        {"field": "resources.requests.cpu", "value": "1", "overrides": "defaults.cpu"}
    ]
    assert received(job, {}, SETTINGS, project="games", launched={}) == [
        {"field": "resources.requests.cpu", "value": "1", "origin": PROJECT}
    ]


def test_labels_of_the_project_are_told_from_those_of_the_job() -> None:
    job = {"labels": {"team": "ml", "run": "7"}}
    assert received(job, {"labels": {"run": "7"}}, SETTINGS, project="games", launched={}) == [
        {"field": "labels.team", "value": "ml", "source": "the labels of project games"},
        {"field": "labels.run", "value": "7"},
    ]


def test_what_a_launch_plan_or_workflow_gives_names_its_version() -> None:
    origins = {**SETTINGS[1]["origins"], "envs.values.A": {"level": "launch-plan-definition"}}
    settings = [SETTINGS[0], {**SETTINGS[1], "origins": origins}]
    launched = {
        "workflow": {"project": "p", "domain": "d", "name": "fit", "version": "v2"},
        "launch_plan": {"project": "p", "domain": "d", "name": "nightly", "version": "v7"},
    }
    job = {"environment": {"A": "settings", "B": "own", "C": "own"}, "resources": {"requests": {"cpu": "1"}}}
    given = {"environment": {"B": "own", "C": "own"}}
    assert received(job, given, settings, project="games", launched=launched) == [
        {"field": "resources.requests.cpu", "value": "1", "origin": PROJECT},
        {
            "field": "environment.A",
            "value": "settings",
            "origin": {"level": "launch-plan-definition"},
            "overrides": "envs.values.A",
            "source": "launch plan nightly v7",
        },
        {"field": "environment.B", "value": "own", "overrides": "envs.values.B", "source": "workflow fit v2"},
        {"field": "environment.C", "value": "own", "source": "workflow fit v2"},
    ]
    sources = [entry.get("source") for entry in received(job, None, settings, project="games", launched=launched)]
    assert sources == [None, "launch plan nightly v7", None, None]
