"""Answers about settings: in text, as JSON and over HTTP with the same facts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctl.cli.output import Printer
from ctl.client.times import to_second
from tests.support.admins import running_admin
from tests.support.shells import Shell

LABEL = "execution_cluster_label"
WIDE = Printer(format="wide")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("answers")
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_reach_of_a_row(shell: Shell) -> None:
    project = shell.project("reaching")
    place = f"{project}/staging"
    shell.put(f"project_domain_attributes/{place}", **{LABEL: {"value": "a"}})
    for workflow, value in (("same", "a"), ("other", "b")):
        shell.put(f"workflow_attributes/{place}/{workflow}", **{LABEL: {"value": value}})
    shell.put(f"launch_plan_attributes/{place}/other/nightly", quality_of_service={"tier": "LOW"})
    shell.put(f"launch_plan_attributes/{place}/free/nightly", quality_of_service={"tier": "LOW"})
    command = f"rainbowctl explain execution-cluster-label -p {project} -d staging --reach"
    query = f"project={project}&domain=staging&resource_type=3&limit=1000"
    answer = shell.rest("GET", f"effective_attributes/reach?{query}")
    assert json.loads(shell.ok(f"{command} -o json")) == answer
    assert json.loads(shell.ok(f"{command} --all -o json")) == answer
    first, _blank, _header, *rows = shell.ok(f"{command} -o wide").splitlines()
    assert first == (
        f"execution-cluster-label value=a, set by project {project}, domain staging "
        f"({set_by(answer, answer['row'])}): of 4 scopes below 1 follows it, 1 says otherwise, 1 says the same again, "
        f"1 follows another row; as of revision {answer['revision']}."
    )
    words = {
        "follows": "follows it",
        "says_otherwise": "says otherwise",
        "says_the_same": "says the same again",
        "follows_another": "follows another row",
    }
    other = next(entry for entry in answer["scopes"] if entry.get("workflow") == "other" and "version" in entry)

    def decided_by(entry: dict[str, Any]) -> str:
        if entry["relation"] == "follows_another":
            assert entry["origins"]["value"]["workflow"] == "other"
            return f"{place_of(other)} ({set_by(answer, other)})"
        return set_by(answer, entry) or "-"

    expected = [
        [entry["level"], place_of(entry), words[entry["relation"]], decided_by(entry)] for entry in answer["scopes"]
    ]
    assert [cells(row) for row in rows] == expected
    assert "No execution-cluster-label is set" in shell.refused(3, command.replace("staging", "production"))


def test_the_reach_of_a_pool_says_where_placement_goes_by_a_label(shell: Shell) -> None:
    project = shell.project("outranking")
    place = f"{project}/staging"
    shell.put(f"project_domain_attributes/{place}", cluster_assignment={"cluster_pool_name": "gpu"})
    shell.put(f"workflow_attributes/{place}/train", **{LABEL: {"value": "spare"}})
    shell.put(f"workflow_attributes/{place}/follow", quality_of_service={"tier": "LOW"})
    command = f"rainbowctl explain cluster-pool-attribute -p {project} -d staging --reach"
    answer = json.loads(shell.ok(f"{command} -o json"))
    query = f"project={project}&domain=staging&resource_type=CLUSTER_ASSIGNMENT&limit=1000"
    assert shell.rest("GET", f"effective_attributes/reach?{query}") == answer
    [consequence] = [entry["consequence"] for entry in answer["scopes"] if "consequence" in entry]
    opening = " ".join(shell.ok(command).partition("\n\n")[0].split())
    assert ": of 2 scopes below 2 follow it, 0 say otherwise, 0 say the same again, 0 follow another row, " in opening
    assert ", 1 of 2 with its value goes by another pool or label; " in opening
    _first, _blank, header, *rows = shell.ok(f"{command} -o wide").splitlines()
    assert cells(header) == ["LEVEL", "SCOPE", "RELATION", "PLACEMENT GOES BY"]
    by_workflow = {line[1].split()[-1]: line[2:] for line in map(cells, rows)}
    assert by_workflow["follow"] == ["follows it", "-"]
    relation, goes_by = by_workflow["train"]
    assert relation == "has its value"
    where = f"label spare of project {project}, domain staging, workflow train (revision"
    assert goes_by.startswith(f"{where} {consequence['origin']['revision']}, anonymous")
    assert "--all goes with --reach" in shell.refused(2, "rainbowctl explain all -d staging --all")
    assert "Name one kind" in shell.refused(2, f"rainbowctl explain all -p {project} -d staging --reach")


def set_by(answer: Any, entry: Any) -> str:
    """Who set a row, as wide output shows it."""
    revision = answer["revisions"].get(str(entry.get("version")))
    if revision is None:
        return ""
    claim = f" (says {revision['claimed_by']})" if "claimed_by" in revision else ""
    return f"revision {revision['revision']}, {revision['author']}{claim}, {WIDE.when(revision['at'])}"


def place_of(entry: dict[str, str]) -> str:
    keys = ("project", "domain", "workflow", "launch_plan")
    return ", ".join(f"{key.replace('_', ' ')} {entry[key]}" for key in keys if key in entry)


@pytest.mark.parametrize(
    ("noun", "number", "key", "payload", "shown"),
    [
        ("quality-of-service", 4, "quality_of_service", {"tier": "HIGH"}, "tier=HIGH"),
        (
            "plugin-override",
            5,
            "plugin_overrides",
            {"overrides": [{"task_type": "spark", "plugin_id": ["a b"], "missing_plugin_behavior": "USE_DEFAULT"}]},
            "overrides.spark=",
        ),
    ],
)
def test_the_nearest_row_and_a_command_that_sets_the_same_here(
    shell: Shell, noun: str, number: int, key: str, payload: object, shown: str
) -> None:
    project = shell.project(f"near-{number}")
    shell.put(f"workflow_attributes/{project}/development/there", **{key: payload})
    command = f"rainbowctl explain {noun} -p {project} -d development here"
    query = f"project={project}&domain=development&workflow=here&resource_type={number}"
    answer = shell.rest("GET", f"effective_attributes?{query}&provenance=true&nearest=true")
    assert json.loads(shell.ok(f"{command} -o json")) == answer
    [nearest] = answer["nearest"].values()
    first, *_trail, row, advice = shell.ok(f"{command} -o wide").splitlines()
    scope = f"project {project}, domain development, workflow here"
    assert first == f"{noun} has no value at {scope}: no level sets one; as of revision {answer['revision']}."
    assert row.startswith(f"Nearest: {shown}")
    place = f"project {project}, domain development, workflow there ({set_by(answer, nearest)})."
    assert row.endswith(f" at {place}")
    assert advice == f"To set the same at {scope}: {nearest['command']}"
    shell.ok(f"{nearest['command']} -q --force")
    [value] = shell.rest("GET", f"effective_attributes?{query}")["values"]
    assert value["value"] == nearest["value"] == payload
    assert "Nearest" not in shell.ok(command)


@pytest.mark.parametrize(
    ("noun", "key", "payload", "shown", "missing"),
    [
        ("execution-cluster-label", LABEL, {"value": "far"}, "value=far", "No label is called 'far' yet."),
        (
            "execution-queue-attribute",
            "execution_queue_attributes",
            {"tags": ["no-tag", "nor-this"]},
            "tags=no-tag, nor-this",
            "'no-tag'",
        ),
    ],
)
def test_a_nearest_row_that_names_what_is_unknown_is_not_advised(
    shell: Shell, noun: str, key: str, payload: object, shown: str, missing: str
) -> None:
    project = shell.project(f"unknown-{noun}")
    shell.put(f"workflow_attributes/{project}/development/there", **{key: payload})
    command = f"rainbowctl explain {noun} -p {project} -d development here"
    [nearest] = json.loads(shell.ok(f"{command} -o json"))["nearest"].values()
    done = shell.run(f"{command} -o wide")
    assert missing in nearest["warning"]
    assert nearest["warning"] in done.err
    assert f"Nearest: {shown}" in done.out
    assert "To set the same" not in done.out


def test_settings_without_effect(shell: Shell) -> None:
    project = shell.project("overridden")
    shell.put(f"project_domain_attributes/{project}/staging", **{LABEL: {"value": "nowhere"}})
    shell.put(f"workflow_attributes/{project}/staging/lost", quality_of_service={"tier": "LOW"})
    command = f"rainbowctl get no-effect -p {project}"
    answer = shell.rest("GET", f"matchable_attributes/no_effect?project={project}")
    assert [entry["code"] for entry in answer["warnings"]] == ["unknown_label", "unknown_workflow"]
    assert json.loads(shell.ok(f"{command} -o json")) == {**answer, "complete": True}
    first, _blank, header, *rows = shell.ok(f"{command} -o wide").splitlines()
    assert first == (
        "Of 2 settings that were examined, 2 have no effect, as a whole or in a field; 1 of them refuses executions; "
        f"as of revision {answer['revision']}."
    )
    assert cells(header) == ["KIND", "LEVEL", "SCOPE", "FIELD", "REASON", "SET BY", "CODE"]
    nouns = {"EXECUTION_CLUSTER_LABEL": "execution-cluster-label"}
    nouns["QUALITY_OF_SERVICE_SPECIFICATION"] = "quality-of-service"
    assert [cells(row) for row in rows] == [
        [
            nouns[entry["resource_type"]],
            *(entry["level"], place_of(entry), entry["field"], entry["message"], set_by(answer, entry), entry["code"]),
        ]
        for entry in answer["warnings"]
    ]
    for more in ("execution-cluster-label", "--filter.fieldSelector code=unknown_workflow"):
        assert len(json.loads(shell.ok(f"{command} {more} -o json"))["warnings"]) == 1
    assert "Of 0 settings that were examined, each has an effect" in shell.ok(f"{command} -d development")


def test_where_a_pool_is_used(shell: Shell) -> None:
    project = shell.project("using")
    place = f"{project}/staging"
    shell.rest("PUT", "pools/used", {"pool": {"members": [{"id": "somewhere"}]}})
    shell.put(f"project_domain_attributes/{place}", cluster_assignment={"cluster_pool_name": "used"})
    shell.put(f"launch_plan_attributes/{place}/fit/nightly", quality_of_service={"tier": "LOW"})
    shell.put(f"workflow_attributes/{place}/fit", **{LABEL: {"value": "somewhere"}})
    shell.ok(f"rainbowctl create execution waits -p {project} -d staging -q -- true")
    command = "rainbowctl where-used pool used"
    answer = shell.rest("GET", "uses?pool=used")
    assert json.loads(shell.ok(f"{command} -o json")) == answer
    reach = shell.rest("GET", "uses?pool=used&reach=true")
    assert json.loads(shell.ok(f"{command} --reach --all -o json")) == reach
    # Without the pool nothing names the cluster either, which the label of the workflow leads to.
    assert answer["reach"] == {"scopes": 3, "launch_plans": 1, "refused": 3}
    lines = [cells(line) for line in shell.ok(f"{command} --reach -o wide").splitlines() if line]
    [use] = answer["uses"]
    setter = f"project {project}, domain staging ({set_by(answer, use)})"
    assert lines == [
        [
            "pool used is set 1 time; 3 scopes have it, 1 launch plan among them; without it executions would be "
            f"refused at 3 scopes; as of revision {answer['revision']}."
        ],
        ["SET BY", "KIND", "FIELDS"],
        [setter, "cluster-pool-attribute", "cluster_pool_name=used"],
        ["SCOPE", "KIND", "WITHOUT IT"],
        *(
            [place_of(entry), "cluster-pool-attribute", "refused" if entry["refused"] else "goes on"]
            for entry in reach["scopes"]
        ),
        ["Executions that have not ended: 1 QUEUED."],
        ["EXECUTION", "PHASE"],
        [f"{project}/staging/waits", "QUEUED"],
    ]
    assert "Did you mean pool?" in shell.refused(2, "rainbowctl where-used pol used")
    done = shell.run("rainbowctl delete pool usde --dryRun")
    assert "There is no pool usde: there is nothing to delete. Did you mean used?" in done.err
    assert "Which pool?" in shell.refused(2, "rainbowctl where-used pool")
    assert "limits" in shell.refused(2, "rainbowctl where-used task-resource-attribute limit.cpu=2")
    refusal = "'2x' is not an amount of limits.cpu"
    assert refusal in shell.refused(2, "rainbowctl where-used task-resource-attribute 'limits.cpu>2x'")
    value = shell.ok("rainbowctl where-used cluster-pool-attribute cluster_pool_name=used -o json")
    assert json.loads(value)["uses"] == answer["uses"]


def test_a_name_that_nothing_has_and_nothing_uses_is_not_found(shell: Shell) -> None:
    shell.rest("PUT", "pools/unknowns", {"pool": {"members": [{"id": "local"}]}})
    message = shell.refused(3, "rainbowctl where-used pool unknwons")
    start = "error: No pool is called 'unknwons'. Did you mean unknowns? Nothing uses pool 'unknwons': "
    assert message.startswith(start), message
    done = shell.run("rainbowctl where-used pool unknwons -o json")
    answer = json.loads(done.out)
    assert (done.status, answer["known"], answer["closest"]) == (3, False, ["unknowns"]), done.err
    assert answer == shell.rest("GET", "uses?pool=unknwons")
    assert json.loads(done.err)["error"]["name"] == "pool_not_found"
    shell.rest("DELETE", "pools/unknowns")
    assert shell.run("rainbowctl where-used pool unknowns").status == 0, "its deletion is known"


def test_a_launch_plan_that_names_a_pool_says_who_registered_it(shell: Shell) -> None:
    project = shell.project("registering")
    shell.rest("PUT", "pools/planned", {"pool": {"members": [{"id": "somewhere"}]}})
    id = {"project": project, "domain": "staging", "name": "fit", "version": "v1"}
    shell.rest("POST", "workflows", {"id": id, "spec": {"job": {"command": ["work"]}}})
    spec = {"workflow_id": id, "cluster_assignment": {"cluster_pool_name": "planned"}}
    plan = {"id": {**id, "name": "nightly"}, "state": "ACTIVE", "spec": spec, "claimed_by": "ana", "message": "faster"}
    shell.rest("POST", "launch_plans", plan)
    [use] = shell.rest("GET", "uses?pool=planned")["uses"]
    assert json.loads(shell.ok("rainbowctl where-used pool planned -o json"))["uses"] == [use]
    place = f"definition of project {project}, domain staging, workflow fit, launch plan nightly"
    by, age = r"registered by anonymous \(says ana\), ", r"[0-9]+ s ago, 'faster'\)"
    text = " ".join(shell.ok("rainbowctl where-used pool planned").split())
    assert re.search(rf"{place} \(version v1, {by}{age}", text)
    wide = shell.ok("rainbowctl where-used pool planned -o wide")
    assert re.search(rf"\(version v1, {by}{to_second(use['registered_by']['at'])}, 'faster'\)", wide)
    shell.ok(f"rainbowctl create execution planned -p {project} -d staging --launchplan nightly -q")
    for command in ("explain execution planned", "place --launchplan nightly"):
        text = re.sub(r"\s+", " ", shell.ok(f"rainbowctl {command} -p {project} -d staging"))
        assert re.search(rf"launch plan nightly v1 \({by}{age}", text), text
    assert re.search(rf"nightly version v1 names it \({by}{age}", shell.refused(5, "rainbowctl delete pool planned"))


def test_what_applies_is_said_in_one_sentence_with_who_set_it(shell: Shell) -> None:
    project = shell.project("explained")
    explain = f"rainbowctl explain execution-cluster-label -p {project} -d staging -o wide"
    shell.put(f"project_attributes/{project}", **{LABEL: {"value": "near"}})
    query = f"effective_attributes?project={project}&domain=staging&resource_type=3&provenance=true"
    answer = shell.rest("GET", query)
    [origin] = answer["values"][0]["origins"].values()
    assert shell.ok(explain).splitlines()[0] == (
        f"execution-cluster-label at project {project}, domain staging is value=near, set by project {project} "
        f"({set_by(answer, origin)}); as of revision {answer['revision']}."
    )
    first, _blank, title, *_ = shell.ok(f"rainbowctl explain -p {project} -d staging -o wide").splitlines()
    assert f"a value at project {project}, domain staging: " in first
    assert title.endswith(f" at project {project}, domain staging")
    assumed = f"kind: execution-cluster-label\nproject: {project}\ndomain: staging\nvalue: far\n"
    assert shell.ok(f"{explain} --with -", stdin=assumed).splitlines()[0] == (
        f"execution-cluster-label at project {project}, domain staging is value=far, set by project {project}, "
        f"domain staging (the given documents); as of revision {answer['revision']} and the given documents."
    )


def test_where_something_would_run_is_said_in_one_sentence(shell: Shell) -> None:
    project = shell.project("placed")
    shell.rest("PUT", "pools/placed", {"pool": {"members": [{"id": "somewhere"}]}})
    first = shell.ok(f"rainbowctl place name -p {project} -d staging --clusterPool placed -- true").splitlines()[0]
    unseen = f"{project}/staging/name would wait at somewhere: no agent of it has ever been seen; as of revision "
    assert first.startswith(unseen)
    shell.rest("PUT", "clusters/somewhere/state", {})
    first = shell.ok(f"rainbowctl place name -p {project} -d staging --clusterPool placed -- true").splitlines()[0]
    assert first.startswith(f"{project}/staging/name would run on somewhere: ")
    assert "; as of revision " in first


def test_a_deletion_tells_what_applies_afterwards_field_by_field(shell: Shell) -> None:
    project = shell.project("deleting")
    place, key = f"{project}/staging", "task_resource_attributes"
    shell.put(f"project_attributes/{project}", **{key: {"limits": {"cpu": "4"}}})
    shell.put(f"project_domain_attributes/{place}", **{key: {"limits": {"memory": "2Gi"}, "defaults": {"cpu": "2"}}})
    shell.put(f"workflow_attributes/{place}/fit", **{key: {"limits": {"cpu": "3"}}})
    command = f"rainbowctl delete task-resource-attribute -p {project} -d staging fit"
    path = f"workflow_attributes/{place}/fit?resource_type=0"
    trial = shell.rest("DELETE", f"{path}&dry_run=true")
    assert json.loads(shell.ok(f"{command} --dryRun -o json")) == trial
    [value] = trial["afterwards"]["values"]
    assert value["value"]["limits"]["cpu"] == "4"
    levels = {field: origin["level"] for field, origin in value["origins"].items()}
    assert (levels["limits.cpu"], levels["limits.memory"], levels["defaults.cpu"]) == (
        "project",
        "project-domain",
        "project-domain",
    )
    made_by = trial["afterwards"]["revisions"]
    for more, applies in ((" --dryRun", "would apply there"), ("", "applies there now")):
        lines = shell.ok(f"{command} --force -o wide{more}").splitlines()
        title = next(index for index, line in enumerate(lines) if line.startswith(f"What {applies}, as of revision "))
        rows = [cells(line)[:3] for line in lines[title + 2 : title + 2 + len(value["origins"])]]
        limit = value["origins"]["limits.cpu"]
        assert ["limits.cpu", "4"] in [row[:2] for row in rows]
        assert str(limit["revision"]) in made_by
    after = shell.rest("GET", f"effective_attributes?project={project}&domain=staging&workflow=fit&resource_type=0")
    assert after["values"][0]["value"] == value["value"]


def test_a_value_that_executions_do_not_follow_says_what_happens(shell: Shell) -> None:
    project = shell.project("followed")
    place = f"{project}/staging"
    shell.rest("PUT", "pools/followed", {"pool": {"members": [{"id": "somewhere"}]}})
    shell.put(f"project_attributes/{project}", cluster_assignment={"cluster_pool_name": "followed"})
    shell.put(f"project_domain_attributes/{place}", **{LABEL: {"value": "no-such-label"}})
    for noun, number, kind, outcome, effect in (
        ("execution-cluster-label", 3, "EXECUTION_CLUSTER_LABEL", "refuses", "refuses executions"),
        ("cluster-pool-attribute", 7, "CLUSTER_ASSIGNMENT", "outranked", "outranked by label no-such-label"),
    ):
        query = f"project={project}&domain=staging&resource_type={number}&provenance=true&nearest=true"
        answer = shell.rest("GET", f"effective_attributes?{query}")
        consequence = answer["consequences"][kind]
        assert consequence["outcome"] == outcome
        command = f"rainbowctl explain {noun} -p {project} -d staging"
        shown = json.loads(shell.ok(f"{command} -o json"))
        start = consequence.pop("message").partition("revision")[0]
        assert shown["consequences"][kind].pop("message").startswith(start)  # it goes on with how long ago
        assert shown == answer
        lines = shell.ok(f"{command} -o wide").splitlines()
        assert lines[2].startswith(start)
        assert any(effect in line for line in lines[3:])
    assert answer["revisions"][str(consequence["origin"]["revision"])]["author"] == "anonymous"
    assert (consequence["noun"], consequence["name"]) == ("label", "no-such-label")
    assert "consequences" not in shell.rest(
        "GET", "effective_attributes?domain=staging&resource_type=0&provenance=true"
    )


def test_a_field_that_executions_do_not_follow_says_what_wins(shell: Shell) -> None:
    project = shell.project("winning")
    keys = {"project": project, "domain": "staging"}
    place = f"{project}/staging"
    workflow, plan = ({**keys, "name": name, "version": "v1"} for name in ("index.build", "hourly"))
    job = {"command": ["true"], "environment": {"MODE": "job"}, "resources": {"requests": {"cpu": "1"}}}
    shell.rest("POST", "workflows", {"id": workflow, "spec": {"job": job}})
    own = {"envs": {"values": [{"key": "LEVEL", "value": "plan"}]}}
    shell.rest("POST", "launch_plans", {"id": plan, "state": "ACTIVE", "spec": {"workflow_id": workflow, **own}})
    values = [{"key": key, "value": "row"} for key in ("FREE", "LEVEL", "MODE")]
    shell.put(f"workflow_attributes/{place}/index.build", workflow_execution_config={"envs": {"values": values}})
    shell.put(f"project_domain_attributes/{place}", task_resource_attributes={"defaults": {"memory": "400Mi"}})
    shell.put(f"project_attributes/{project}", task_resource_attributes={"limits": {"memory": "300Mi"}})
    scope = f"-p {project} -d staging -w index.build --launchplan hourly"
    plan_says, job_says = "launch plan hourly v1 says plan", "the job of workflow index.build v1 says job"
    capped, unread = "executions get 300Mi, the limit", "passed to agents; no engine of Rainbow reads it"
    for noun, number, kind, expected in (
        (
            "workflow-execution-config",
            6,
            "WORKFLOW_EXECUTION_CONFIG",
            {"envs.values.LEVEL": plan_says, "envs.values.MODE": job_says, "max_parallelism": unread},
        ),
        (
            "task-resource-attribute",
            0,
            "TASK_RESOURCE",
            {"defaults.cpu": "the job of workflow index.build v1 says 1", "defaults.memory": capped},
        ),
    ):
        query = f"project={project}&domain=staging&workflow=index.build&launch_plan=hourly&resource_type={number}"
        answer = shell.rest("GET", f"effective_attributes?{query}&provenance=true&nearest=true")
        command = f"rainbowctl explain {noun} {scope}"
        assert json.loads(shell.ok(f"{command} -o json")) == answer
        entries = answer["field_effects"][kind]
        assert {entry["field"]: entry["effect"] for entry in entries} == expected
        lines = shell.ok(f"{command} -o wide").splitlines()
        assert {entry["message"] for entry in entries} <= {*lines}
        start = next(index for index, line in enumerate(lines) if line.startswith("FIELD"))
        shown = {row[0]: row[-1] for row in map(cells, lines[start + 1 :]) if len(row) == 4}
        assert shown == {field: expected.get(field, "used") for field in shown}
        assert expected.keys() <= shown.keys()
        for field, effect in expected.items():
            assert any(f"{field}: {effect}" in line for line in lines[:start])
    shell.ok(f"rainbowctl create execution idx --launchplan hourly -p {project} -d staging")
    explained = shell.ok(f"rainbowctl explain execution idx -p {project} -d staging").splitlines()
    [level] = [cells(line) for line in explained if line.startswith("environment.LEVEL")]
    assert level == ["environment.LEVEL", "plan", "launch plan hourly v1, over envs.values.LEVEL"]
    assert not any("overrides it" in line for line in explained if "envs.values.LEVEL" in line)


def test_previews_of_a_lower_limit_warn_of_the_defaults_below(shell: Shell, tmp_path: Path) -> None:
    project = shell.project("lowering")
    default = {"defaults": {"memory": "400Mi"}}
    shell.put(f"project_domain_attributes/{project}/staging", task_resource_attributes=default)
    lower = tmp_path / "lower.yaml"
    lower.write_text(f"kind: TASK_RESOURCE\nproject: {project}\nlimits:\n  memory: 300Mi\n")
    message = (
        f"The default memory of 400Mi, set at project-domain {project}/staging, is above the limit of 300Mi, set at "
        f"project {project}; executions get 300Mi."
    )
    update = f"rainbowctl update task-resource-attribute --attrFile {lower}"
    for command in (f"{update} --dryRun", f"rainbowctl plan -f {lower}", f"rainbowctl apply -f {lower} --dryRun"):
        done = shell.run(command)
        assert (done.status, done.err.count(message)) == (0, 1), done.err
    explained = shell.ok(f"rainbowctl explain task-resource-attribute -p {project} -d staging --with {lower}")
    assert "executions get 300Mi, the limit" in explained
    assert message in shell.run(f"{update} --force").err


def test_a_deleted_row_says_who_deleted_it(shell: Shell) -> None:
    project = shell.project("undone")
    place, noun = f"{project}/staging", "execution-cluster-label"
    scope = f"project {project}, domain staging"
    shell.put(f"project_domain_attributes/{place}", **{LABEL: {"value": "gone"}})
    shell.ok(f"rainbowctl delete {noun} -p {project} -d staging --force -q -m 'no longer needed'")
    query = f"project={project}&domain=staging&resource_type=3&provenance=true"
    answer = shell.rest("GET", f"effective_attributes?{query}&nearest=true")
    deletion = answer["deleted_by"]["EXECUTION_CLUSTER_LABEL"]
    by = set_by({"revisions": {"1": deletion}}, {"version": 1}) + ", 'no longer needed'"
    nothing = f"No {noun} is set at {scope}, nor at any level above it. The row that stood there was deleted by {by}."
    assert nothing in shell.refused(3, f"rainbowctl get {noun} -p {project} -d staging -o wide")
    error = json.loads(shell.run(f"rainbowctl get {noun} -p {project} -d staging -o json").err)["error"]
    assert [detail["provenance"] for detail in error["details"]] == [deletion]
    exact = f"rainbowctl get {noun} -p {project} -d staging --exact -o wide"
    assert f"The row that stood there was deleted by {by}." in shell.refused(3, exact)
    explain = f"rainbowctl explain {noun} -p {project} -d staging"
    assert json.loads(shell.ok(f"{explain} -o json")) == answer
    first, *rest = shell.ok(f"{explain} -o wide").splitlines()
    assert first == (
        f"{noun} has no value at {scope}: no level sets one, and its row there was deleted by {by}; "
        f"as of revision {answer['revision']}."
    )
    assert [cells(line)[-1] for line in rest if line.startswith("project-domain ")] == [f"deleted by {by}"]
    shell.put(f"project_attributes/{project}", **{LABEL: {"value": "kept"}})
    inherits = shell.run(f"rainbowctl get {noun} -p {project} -d staging -o wide").err
    assert f"Nothing is set at {scope} itself: all of it is inherited. The row that stood there was" in inherits
    assert json.loads(shell.ok(f"rainbowctl get {noun} -p {project} -d staging -o json"))["deleted_by"] == deletion
    assert "deleted_by" not in shell.ok(f"rainbowctl get {noun} -p {project} -d staging -o yaml")


def test_the_nearest_row_is_shown_where_only_the_configuration_has_a_value(shell: Shell) -> None:
    project = shell.project("defaulted")
    shell.put(f"project_domain_attributes/{project}/staging", task_resource_attributes={"limits": {"cpu": "3"}})
    query = f"project={project}&domain=development&resource_type=0&provenance=true&nearest=true"
    [nearest] = shell.rest("GET", f"effective_attributes?{query}")["nearest"].values()
    *_trail, row, advice = shell.ok(f"rainbowctl explain 0 -p {project} -d development -o wide").splitlines()
    assert row.startswith(f"Nearest: limits.cpu=3 at project {project}, domain staging (revision {nearest['version']},")
    assert advice == f"To set the same at project {project}, domain development: {nearest['command']}"
