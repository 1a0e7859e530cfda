from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ctl.client.errors import InvalidInput, InvalidRequest
from ctl.client.executions import ExecutionId
from ctl.commands.executions.requests import RUN_FLAGS
from ctl.files.execution_requests import Request, build_repeat, build_requests

NOTHING: dict[str, Any] = dict.fromkeys(
    [
        *(
            "name",
            "exec_file",
            "launch_plan",
            "workflow",
            "task",
            "version",
            "jobspec",
            "cluster_pool",
            "cluster_label",
        ),
        *("cluster", "target_project", "target_domain", "service_account", "iam_role", "image", "cpu", "memory", "gpu"),
        *("nodes", "tasks", "exclusive", "duration", "retries", "backoff", "on_lost", "strategy"),
        *("ask_deadline", "choose_by", "seconds_weight", "cost_weight"),
    ]
) | {
    "overwrite_cache": False,
    "inputs": {},
    "labels": {},
    "annotations": {},
    "envs": {},
    "command": (),
    "rules": (),
    "token_pools": {},
}

FILE = """\
workflow: core.train
version: v1
inputs: {epochs: 1, rate: 0.5}
envs: {A: file, B: file}
kubeServiceAcct: robot
targetDomain: production
clusterPool: slow
targetExecutionCluster: east
overwriteCache: false
labels: {team: ml}
maxParallelism: 3
outputLocationPrefix: s3://x
"""


def built(flags: dict[str, Any], project: str | None = "p", domain: str | None = "d") -> Request:
    [request] = build_requests({**NOTHING, **flags}, project, domain)
    return request


def body(**flags: Any) -> dict[str, Any]:
    return built(flags).body


def spec(**flags: Any) -> dict[str, Any]:
    request: dict[str, Any] = body(**flags)["spec"]
    return request


def in_file(directory: Path, text: str = FILE) -> str:
    path = directory / "exec.yaml"
    path.write_text(text)
    return str(path)


def test_a_launch_plan_a_workflow_and_a_task_are_launched_by_name() -> None:
    assert body(launch_plan="lp", name="n") == {
        "project": "p",
        "domain": "d",
        "name": "n",
        "spec": {"launch_plan": {"resource_type": "LAUNCH_PLAN", "name": "lp"}},
    }
    assert spec(workflow="w", version="v1")["launch_plan"] == {
        "resource_type": "WORKFLOW",
        "name": "w",
        "version": "v1",
    }
    assert spec(task="t")["launch_plan"] == {"resource_type": "TASK", "name": "t"}


def test_a_job_of_ones_own_is_a_command_or_an_image_with_what_it_needs() -> None:
    flags = {"image": "i", "cpu": "2", "memory": "1Gi", "gpu": "1", "nodes": 2, "tasks": 4, "duration": "1h"}
    assert spec(command=("python", "-c", "x"), **flags) == {
        "job": {
            "command": ["python", "-c", "x"],
            "image": "i",
            "resources": {
                "requests": {"cpu": "2", "memory": "1Gi", "gpu": "1"},
                "nodes": 2,
                "tasks": 4,
                "duration": "1h",
            },
        }
    }
    assert spec(image="i") == {"job": {"image": "i"}}
    assert spec(command=("x",), exclusive=True)["job"]["resources"] == {"exclusive": True}


def test_a_flag_overrides_the_older_form_of_an_identity(tmp_path: Path) -> None:
    role = "authRole: {assumable_iam_role: r, kubernetesServiceAccount: s}\n"
    exec_file = in_file(tmp_path, f"workflow: w\n{role}")
    identity = {"iam_role": "r", "k8s_service_account": "s"}
    assert spec(exec_file=exec_file)["security_context"] == {"run_as": identity}
    assert spec(exec_file=exec_file, service_account="t")["security_context"] == {
        "run_as": {**identity, "k8s_service_account": "t"}
    }


def test_flags_add_token_pools_to_those_of_the_file(tmp_path: Path) -> None:
    assert "token_pools" not in spec(command=("x",))
    file = in_file(tmp_path, "launchplan: lp\ntokenPools: {hive: 1, licences: 2}\n")
    assert spec(exec_file=file)["token_pools"] == {"hive": 1, "licences": 2}
    assert spec(exec_file=file, token_pools={"hive": 3})["token_pools"] == {"hive": 3, "licences": 2}
    with pytest.raises(InvalidInput, match="1 problem"):
        spec(exec_file=in_file(tmp_path, "launchplan: lp\ntokenPools: {hive: -1}\n"))


def test_retries_are_part_of_how_it_runs(tmp_path: Path) -> None:
    assert "retry" not in spec(command=("x",))
    assert spec(command=("x",), retries=1, on_lost="retry")["retry"] == {"attempts": 2, "on_lost": "retry"}
    assert spec(command=("x",), backoff="1s", on_lost="retry")["retry"] == {"backoff": "1s", "on_lost": "retry"}
    file = in_file(tmp_path, "launchplan: lp\nretry: {attempts: 3, retry-on: [Failed, cluster_lost]}\n")
    assert spec(exec_file=file)["retry"] == {"attempts": 3, "retry_on": ["FAILED", "CLUSTER_LOST"]}
    assert spec(exec_file=file, backoff="1s")["retry"]["backoff"] == "1s"


def test_what_runs_elsewhere_is_still_found_where_it_is_registered() -> None:
    request = body(launch_plan="lp", target_project="q")
    assert (request["project"], request["domain"]) == ("q", "d")
    assert request["spec"]["launch_plan"] == {"resource_type": "LAUNCH_PLAN", "name": "lp", "project": "p"}


def test_a_file_says_everything_and_its_workflow_is_a_launch_plan_or_else_the_workflow(tmp_path: Path) -> None:
    request = built({"exec_file": in_file(tmp_path)})
    assert request.body == {
        "project": "p",
        "domain": "production",
        "inputs": {"epochs": 1, "rate": 0.5},
        "spec": {
            "launch_plan": {"resource_type": "LAUNCH_PLAN", "name": "core.train", "version": "v1", "domain": "d"},
            "cluster_assignment": {"cluster_pool_name": "slow"},
            "execution_cluster_label": {"value": "east"},
            "labels": {"values": {"team": "ml"}},
            "envs": {"values": {"A": "file", "B": "file"}},
            "security_context": {"run_as": {"k8s_service_account": "robot"}},
            "overwrite_cache": False,
            "max_parallelism": 3,
            "raw_output_data_config": {"output_location_prefix": "s3://x"},
        },
    }
    assert request.may_mean_workflow
    assert request.of_workflow().body["spec"]["launch_plan"]["resource_type"] == "WORKFLOW"
    assert not built({"workflow": "w"}).may_mean_workflow


def test_flags_go_before_the_file_and_join_what_has_keys(tmp_path: Path) -> None:
    flags: dict[str, Any] = {
        "exec_file": in_file(tmp_path),
        "version": "v2",
        "inputs": {"epochs": 9},
        "envs": {"B": "flag"},
        "labels": {"tier": "gold"},
        "annotations": {"x": "y"},
        "service_account": "other",
        "iam_role": "arn",
        "target_domain": "staging",
        "cluster_pool": "fast",
        "cluster_label": "west",
        "cluster": "c1",
        "overwrite_cache": True,
    }
    request = body(**flags)
    assert (request["domain"], request["inputs"]) == ("staging", {"epochs": 9, "rate": 0.5})
    assert request["spec"] == {
        "launch_plan": {"resource_type": "LAUNCH_PLAN", "name": "core.train", "version": "v2", "domain": "d"},
        "cluster": "c1",
        "cluster_assignment": {"cluster_pool_name": "fast"},
        "execution_cluster_label": {"value": "west"},
        "labels": {"values": {"team": "ml", "tier": "gold"}},
        "annotations": {"values": {"x": "y"}},
        "envs": {"values": {"A": "file", "B": "flag"}},
        "security_context": {"run_as": {"k8s_service_account": "other", "iam_role": "arn"}},
        "overwrite_cache": True,
        "max_parallelism": 3,
        "raw_output_data_config": {"output_location_prefix": "s3://x"},
    }


def test_a_typed_domain_that_the_file_contradicts_is_refused_by_name(tmp_path: Path) -> None:
    flags = {**NOTHING, "exec_file": in_file(tmp_path)}
    with pytest.raises(InvalidInput) as refused:
        build_requests(flags, "p", "d", {"project": "p", "domain": "d"})
    assert refused.value.message == (
        f"{flags['exec_file']} says targetDomain production, the command line says -d d. To run there what is "
        "registered in d, give --targetDomain production; to run it in d, --targetDomain d; else leave out -d."
    )
    [request] = build_requests({**flags, "target_domain": "production"}, "p", "d", {"project": "p", "domain": "d"})
    assert (request.body["domain"], request.body["spec"]["launch_plan"]["domain"]) == ("production", "d")
    [request] = build_requests(flags, "p", "production", {"project": "p", "domain": "production"})
    assert request.body["domain"] == "production"


def test_a_flag_that_takes_the_place_of_what_a_file_runs_says_so(tmp_path: Path) -> None:
    file = in_file(tmp_path)
    request = built({"exec_file": file, "launch_plan": "other"})
    assert request.body["spec"]["launch_plan"]["name"] == "other"
    assert request.notes == (f"--launchplan overrides workflow in {file}.",)
    assert not request.may_mean_workflow
    request = built({"exec_file": file, "command": ("true",)})
    assert request.body["spec"]["job"] == {"command": ["true"]}
    assert request.notes == (f"A command after -- overrides workflow and its version in {file}.",)


def test_flags_change_single_leaves_of_a_files_job(tmp_path: Path) -> None:
    text = "job: {command: [a], image: i, resources: {nodes: 2, requests: {cpu: 1, memory: 1Gi}}}\n"
    file = in_file(tmp_path, text)
    assert spec(exec_file=file, cpu="3", command=("b",))["job"] == {
        "command": ["b"],
        "image": "i",
        "resources": {"nodes": 2, "requests": {"cpu": "3", "memory": "1Gi"}},
    }


def test_an_identity_in_the_security_context_is_changed_by_flags(tmp_path: Path) -> None:
    file = in_file(tmp_path, "task: t\nsecurityContext: {runAs: {iam_role: a}, secrets: [{key: k}]}\n")
    assert spec(exec_file=file, service_account="robot")["security_context"] == {
        "secrets": [{"key": "k"}],
        "run_as": {"iam_role": "a", "k8s_service_account": "robot"},
    }


def test_a_jobspec_is_sent_as_it_is_and_refusals_find_back_to_it(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text('{"version": 1,\n "resources": [{"type": "node", "count": 2}]}')
    request = built({"jobspec": str(path)})
    assert request.body["spec"] == {"jobspec": {"version": 1, "resources": [{"type": "node", "count": 2}]}}
    details = [{"field": "spec.jobspec.resources[0].count", "reason": "too many"}]
    error = request.explain(InvalidRequest("no", details=details))
    assert error.details[0]["position"] == f"{path}:2:42"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, "Nothing to run"),
        ({"cpu": "2"}, "Nothing to run"),
        ({"workflow": "w", "task": "t"}, "--workflow and --task cannot be combined"),
        ({"jobspec": "f", "command": ("x",)}, "--jobspec and a command after -- cannot be combined"),
        ({"launch_plan": "l", "cpu": "2", "nodes": 1}, "--cpu and --nodes are for ad hoc jobs"),
        ({"launch_plan": "l", "memory": "2Gi"}, "--memory is for ad hoc jobs"),
        ({"command": ("x",), "version": "v1"}, "--version is that of a launch plan"),
        ({"exec_file": "-", "jobspec": "-"}, "cannot both be stdin"),
        ({"exec_file": "/nonexistent", "workflow": "w"}, "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        body(**flags)
    assert message in refused.value.message


def test_a_project_and_a_domain_are_needed() -> None:
    with pytest.raises(InvalidInput, match="needs a domain: give -d DOMAIN"):
        built({"command": ("x",)}, "p", None)
    request = built({"command": ("x",), "target_project": "q", "target_domain": "e"}, None, None)
    assert (request.body["project"], request.body["domain"]) == ("q", "e")


ID = ExecutionId(project="p", domain="d", name="old")


def test_a_relaunch_keeps_everything_but_what_flags_change() -> None:
    assert build_repeat(NOTHING, "relaunch", ID, RUN_FLAGS) == {"id": ID.document()}
    flags = {
        **NOTHING,
        "name": "new",
        "cluster_pool": "gpu",
        "cluster_label": "east",
        "cluster": "c",
        "overwrite_cache": True,
        "inputs": {"a": 1},
    }
    assert build_repeat(flags, "relaunch", ID, RUN_FLAGS) == {
        "id": ID.document(),
        "name": "new",
        "cluster": "c",
        "cluster_assignment": {"cluster_pool_name": "gpu"},
        "execution_cluster_label": {"value": "east"},
        "overwrite_cache": True,
        "inputs": {"a": 1},
    }


def test_a_strategy_and_its_rules_go_together(tmp_path: Path) -> None:
    rules = ("filter: nodes_free > 0", "calculate: {price: 2 * cost}", "{sort: price, descending: true}")
    read = [{"filter": "nodes_free > 0"}, {"calculate": {"price": "2 * cost"}}, {"sort": "price", "descending": True}]
    by_rules = {"strategy": "constraint", "rules": read}
    assert {**spec(command=("x",), rules=rules), "job": 0} == {**by_rules, "job": 0}
    file = in_file(tmp_path, "job: {command: [x]}\nstrategy: constraint\nrules:\n- {sort: cost}\n")
    assert spec(exec_file=file)["rules"] == [{"sort": "cost"}]
    assert spec(exec_file=file, rules=rules)["rules"] == read
    other = spec(exec_file=file, strategy="cheapest")
    assert (other["strategy"], "rules" in other) == ("cheapest", False)
    repeat = build_repeat({**NOTHING, "rules": rules}, "relaunch", ID, RUN_FLAGS)
    assert repeat == {"id": ID.document(), **by_rules}
    with pytest.raises(InvalidInput, match=r"--rule: fliter: .*filter"):
        spec(command=("x",), rules=("fliter: true",))


@pytest.mark.parametrize(
    "flags",
    [
        {"exec_file": "f"},
        {"target_project": "q"},
        {"version": "v"},
        {"command": ("x",)},
        {"cpu": "1"},
        {"labels": {"a": "b"}},
        {"iam_role": "a"},
    ],
)
def test_a_relaunch_refuses_by_name_what_it_has_no_place_for(flags: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="--recover runs again what old ran: leave out "):
        build_repeat({**NOTHING, **flags}, "recover", ID, RUN_FLAGS)


def test_fields_for_asking_mean_that_strategy(tmp_path: Path) -> None:
    given = spec(command=("x",), ask_deadline="5s", choose_by="mix", cost_weight="2")
    assert {key: given[key] for key in ("strategy", "ask_deadline", "choose_by", "cost_weight")} == {
        "strategy": "ask",
        "ask_deadline": "5s",
        "choose_by": "mix",
        "cost_weight": 2,
    }
    file = in_file(tmp_path, "job: {command: [x]}\nstrategy: ask\naskDeadline: 5s\nchooseBy: cheapest\n")
    assert spec(exec_file=file)["ask_deadline"] == "5s"
    assert spec(exec_file=file, ask_deadline="7s")["ask_deadline"] == "7s"
    other = spec(exec_file=file, strategy="spill")
    assert (other["strategy"], other.keys() & {"ask_deadline", "choose_by"}) == ("spill", set())
    ruled = spec(exec_file=file, rules=("sort: cost_per_node_hour",))
    assert (ruled["strategy"], ruled.keys() & {"ask_deadline", "choose_by"}) == ("constraint", set())
