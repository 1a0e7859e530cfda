"""What to run and how, from the flags of a command line and a file: the request that creates an execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ctl.answers import Document
from ctl.change_calls import given
from ctl.errors import InvalidInput, InvalidRequest
from ctl.execution_files import ExecutionFile
from ctl.executions import ExecutionId
from ctl.retries import retry_policy
from ctl.scopes import check_name
from ctl.words import listed

#: Flags that say what to run, by their parameters.
_WHAT_FLAGS = {
    "launch_plan": "--launchplan",
    "workflow": "--workflow",
    "task": "--task",
    "jobspec": "--jobspec",
    "command": "a command after --",
}
#: Flags for a job that is registered nowhere, by their parameters, with their place in the job.
_JOB_FLAGS = {
    "image": ("--image", ("image",)),
    "cpu": ("--cpu", ("resources", "requests", "cpu")),
    "memory": ("--memory", ("resources", "requests", "memory")),
    "gpu": ("--gpu", ("resources", "requests", "gpu")),
    "nodes": ("--nodes", ("resources", "nodes")),
    "tasks": ("--tasks", ("resources", "tasks")),
    "duration": ("--duration", ("resources", "duration")),
}
#: The other flags that describe an execution.
_OTHER_FLAGS = {
    "exec_file": "--execFile",
    "version": "--version",
    "inputs": "--input",
    "cluster_pool": "--clusterPool",
    "cluster_label": "--executionClusterLabel",
    "cluster": "--cluster",
    "target_project": "--targetProject",
    "target_domain": "--targetDomain",
    "service_account": "--kubeServiceAcct",
    "iam_role": "--iamRoleARN",
    "overwrite_cache": "--overwriteCache",
    "labels": "--label",
    "annotations": "--annotation",
    "envs": "--env",
    "retries": "--retries",
    "backoff": "--backoff",
    "on_lost": "--onLost",
}
#: What may be said of an execution that repeats another one.
_REPEAT_FLAGS = ("cluster_pool", "cluster_label", "cluster", "overwrite_cache", "inputs")
_RESOURCE_TYPES = {"launchplan": "LAUNCH_PLAN", "launch_plan": "LAUNCH_PLAN", "workflow": "WORKFLOW", "task": "TASK"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to create an execution, or to place one."""

    body: Document
    files: tuple[ExecutionFile, ...] = ()
    notes: tuple[str, ...] = ()  #: what flags took out of the file
    may_mean_workflow: bool = False  #: whether the launch plan, if there is none, stands for the workflow of that name

    def of_workflow(self) -> Request:
        """The same for the workflow that has the name of the launch plan."""
        launched = {**self.body["spec"]["launch_plan"], "resource_type": "WORKFLOW"}
        body = {**self.body, "spec": {**self.body["spec"], "launch_plan": launched}}
        return Request(body=body, files=self.files, notes=self.notes)

    def locate(self, error: InvalidRequest) -> InvalidRequest:
        """The admin's refusal with the place in a file of each field that stands in one."""
        for file in self.files:
            error = file.locate(error)
        return error


def build_request(flags: Mapping[str, Any], project: str | None, domain: str | None) -> Request:
    """
    The request that flags and their files describe; flags go before the file.

    `project` and `domain` are where the launch plan or the workflow is registered.
    """
    from ctl.execution_files import read_execution_file, read_jobspec

    if flags["exec_file"] == flags["jobspec"] == "-":
        raise InvalidInput("--execFile and --jobspec cannot both be stdin.")
    file = read_execution_file(flags["exec_file"]) if flags["exec_file"] else ExecutionFile(name="", values={})
    what, notes = _what(flags, file)
    jobspec = (read_jobspec(flags["jobspec"]),) if flags["jobspec"] else ()
    target = {
        "project": flags["target_project"] or file.values.get("targetProject") or project,
        "domain": flags["target_domain"] or file.values.get("targetDomain") or domain,
    }
    _check_target(target)
    spec: Document = _runs(what, flags, file, jobspec)
    if "launch_plan" in spec:
        spec["launch_plan"] |= _elsewhere(target, project, domain)
    spec |= _how(flags, file)
    inputs = {**(file.values.get("inputs") or {}), **dict(flags["inputs"])}
    body: Document = {**target, **({"name": flags["name"]} if flags["name"] is not None else {})}
    body |= {"inputs": inputs} if inputs else {}
    return Request(
        body={**body, "spec": spec},
        files=((file,) if file.name else ()) + jobspec,
        notes=notes,
        may_mean_workflow=what == "workflow" and not flags["workflow"],
    )


def build_repeat(flags: Mapping[str, Any], how: str, id: ExecutionId) -> Document:
    """The request that relaunches or recovers an execution; flags it has no place for are refused by name."""
    every = {**_WHAT_FLAGS, **{key: flag for key, (flag, _path) in _JOB_FLAGS.items()}, **_OTHER_FLAGS}
    wrong = [flag for key, flag in every.items() if key not in _REPEAT_FLAGS and _is_given(flags[key])]
    if wrong:
        may = listed(_OTHER_FLAGS[key] for key in _REPEAT_FLAGS)
        raise InvalidInput(
            f"--{how} runs again what {id.name} ran: leave out {listed(wrong)}. What may be changed with it: {may}."
        )
    body: Document = {"id": id.document(), **({"name": flags["name"]} if flags["name"] is not None else {})}
    body |= _placed(flags, ExecutionFile(name="", values={}))
    body |= {"overwrite_cache": True} if flags["overwrite_cache"] else {}
    return body | ({"inputs": dict(flags["inputs"])} if flags["inputs"] else {})


def _is_given(value: Any) -> bool:
    """Whether a flag says something; 0 does."""
    return value is not None and value is not False and value not in ((), {})


def _what(flags: Mapping[str, Any], file: ExecutionFile) -> tuple[str, tuple[str, ...]]:
    """The key that says what to run, and what of the file that takes away."""
    named = [key for key in _WHAT_FLAGS if flags[key]]
    if len(named) > 1:
        words = listed(_WHAT_FLAGS[key] for key in named)
        raise InvalidInput(f"{words[0].upper()}{words[1:]} each say what to run: keep one of them.")
    in_file = file.what
    if not named:
        if in_file is None and not flags["image"]:
            raise InvalidInput(
                "Nothing says what to run: give --launchplan, --workflow, --task, --jobspec, --execFile, or a command "
                "after --."
            )
        return in_file or "job", ()
    [key] = named
    if in_file is None or (key == "command" and in_file == "job"):
        return ("job" if key == "command" else key), ()
    with_version = " and its version" if key in {"command", "jobspec"} and "version" in file.values else ""
    told = f"{_WHAT_FLAGS[key][0].upper()}{_WHAT_FLAGS[key][1:]} goes before {in_file}{with_version} in {file.name}."
    return ("job" if key == "command" else key), (told,)


def _check_target(target: Mapping[str, str | None]) -> None:
    for key, flag in (("project", "-p"), ("domain", "-d")):
        if target[key] is None:
            raise InvalidInput(f"The execution needs a {key}: give {flag} {key.upper()}, or set one in the context.")
        check_name(key, str(target[key]))


def _elsewhere(target: Mapping[str, str | None], project: str | None, domain: str | None) -> Document:
    """Where the launch plan or workflow is registered, as far as that is not where the execution runs."""
    where = {"project": project, "domain": domain}
    return {key: name for key, name in where.items() if name is not None and name != target[key]}


def _runs(
    what: str, flags: Mapping[str, Any], file: ExecutionFile, jobspec: tuple[ExecutionFile, ...]
) -> dict[str, Any]:
    """The part of the spec that says what runs."""
    job_flags = [flag for key, (flag, _path) in _JOB_FLAGS.items() if flags[key] is not None]
    if what in _RESOURCE_TYPES:
        if job_flags:
            raise InvalidInput(
                f"{listed(job_flags)} can be said of a job of one's own; what a {_label(what)} needs is in its "
                "definition. Leave it out, or give a command after --."
            )
        return {"launch_plan": _launched(what, flags, file)}
    if flags["version"]:
        raise InvalidInput("--version is that of a launch plan, workflow or task: a job has none. Leave it out.")
    if what == "jobspec":
        if job_flags:
            raise InvalidInput(f"A jobspec says {listed(job_flags)} itself: change it there, or leave the flags out.")
        return {"jobspec": jobspec[0].values["jobspec"] if jobspec else file.values["jobspec"]}
    return {"job": _job(flags, file)}


def _label(what: str) -> str:
    return "launch plan" if what.startswith("launch") else what


def _launched(what: str, flags: Mapping[str, Any], file: ExecutionFile) -> Document:
    typed = flags["launch_plan"] or flags["workflow"] or flags["task"]
    # flytectl's key `workflow` names the launch plan; its flag --workflow is ours to mean what it says.
    resource_type = _RESOURCE_TYPES[what] if typed or what != "workflow" else "LAUNCH_PLAN"
    version = flags["version"] or file.values.get("version")
    return {
        "resource_type": resource_type,
        "name": typed or file.values[what],
        **({"version": version} if version else {}),
    }


def _job(flags: Mapping[str, Any], file: ExecutionFile) -> Document:
    """A job of one's own: the file's, with the leaves that flags name."""
    job: Document = dict(file.values.get("job") or {})
    if flags["command"]:
        job["command"] = list(flags["command"])
    for key, (_flag, path) in _JOB_FLAGS.items():
        if flags[key] is not None:
            job = _with(job, path, flags[key])
    return job


def _with(document: Mapping[str, Any], path: tuple[str, ...], value: Any) -> Document:
    first, *rest = path
    inner = document.get(first)
    return {**document, first: _with(inner if isinstance(inner, dict) else {}, tuple(rest), value) if rest else value}


def _how(flags: Mapping[str, Any], file: ExecutionFile) -> Document:
    """The rest of the spec."""
    spec = _placed(flags, file)
    for key in ("labels", "annotations", "envs"):
        values = {**file.values.get(key, {}), **dict(flags[key])}
        if values:
            spec[key] = {"values": values}
    spec |= _identity(flags, file)
    if flags["overwrite_cache"] or "overwriteCache" in file.values:
        spec["overwrite_cache"] = flags["overwrite_cache"] or file.values["overwriteCache"]
    plain = {
        "interruptible": "interruptible",
        "maxParallelism": "max_parallelism",
        "qualityOfService": "quality_of_service",
        "executionEnvAssignments": "execution_env_assignments",
    }
    spec |= {name: file.values[key] for key, name in plain.items() if key in file.values}
    if prefix := file.values.get("outputLocationPrefix"):
        spec["raw_output_data_config"] = {"output_location_prefix": prefix}
    if policy := retry_policy(file.values.get("retry") or {}, flags):
        spec["retry"] = policy
    return spec


def _placed(flags: Mapping[str, Any], file: ExecutionFile) -> Document:
    """The cluster, pool and label that are asked for."""
    in_file = file.values.get("executionClusterLabel") or file.values.get("targetExecutionCluster")
    cluster = flags["cluster"] or file.values.get("cluster")
    pool = flags["cluster_pool"] or file.values.get("clusterPool")
    label = flags["cluster_label"] or in_file
    return {
        **({"cluster": cluster} if cluster else {}),
        **({"cluster_assignment": {"cluster_pool_name": pool}} if pool else {}),
        **({"execution_cluster_label": {"value": label}} if label else {}),
    }


def _identity(flags: Mapping[str, Any], file: ExecutionFile) -> Document:
    context = dict(file.values.get("securityContext") or {})
    named = {
        "k8s_service_account": flags["service_account"] or file.values.get("kubeServiceAcct"),
        "iam_role": flags["iam_role"] or file.values.get("iamRoleARN"),
    }
    run_as = {**(context.pop("runAs", None) or context.get("run_as") or {}), **given(named)}
    if run_as:
        context["run_as"] = run_as
    return {"security_context": context} if context else {}
