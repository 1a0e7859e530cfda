"""What to run and how, from the flags of a command line and a file: the request that creates an execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ctl.client.answers import Document
from ctl.client.errors import ClientError, InvalidFile, InvalidInput, InvalidRequest
from ctl.client.executions import ExecutionId
from ctl.client.scopes import check_name
from ctl.client.words import count, listed
from ctl.files.execution_documents import ExecutionDocument
from ctl.files.retries import retry_policy
from ctl.files.rules import typed_strategy
from ctl.files.run_settings import settings_spec

#: Flags that say what to run, by their parameters.
_RUN_FLAGS = {
    "launch_plan": "--launchplan",
    "workflow": "--workflow",
    "task": "--task",
    "jobspec": "--jobspec",
    "command": "a command after --",
}
#: Flags for a job that is registered nowhere, by their parameters, which they are called like: their place in the job.
_JOB_FLAGS = {
    "image": ("image",),
    "cpu": ("resources", "requests", "cpu"),
    "memory": ("resources", "requests", "memory"),
    "gpu": ("resources", "requests", "gpu"),
    "nodes": ("resources", "nodes"),
    "tasks": ("resources", "tasks"),
    "exclusive": ("resources", "exclusive"),
    "duration": ("resources", "duration"),
}
#: Flags for settings, by the keys of files.
_SETTING_FLAGS = {
    "cluster": "cluster",
    "cluster_pool": "cluster_pool",
    "execution_cluster_label": "cluster_label",
    "kube_service_acct": "service_account",
    "iam_role_arn": "iam_role",
    "overwrite_cache": "overwrite_cache",
}
_LEFT_OUT_IF_EMPTY = ("labels", "annotations", "envs", "retry", "token_pools", "security_context")
#: Flags that relaunch and recover take.
_REPEAT_FLAGS = ("cluster_pool", "cluster_label", "cluster", "strategy", "rules", "overwrite_cache", "inputs")
#: Where there is no file.
_NO_DOCUMENT = ExecutionDocument(name="", values={})
_RESOURCE_TYPES = {"launchplan": "LAUNCH_PLAN", "launch_plan": "LAUNCH_PLAN", "workflow": "WORKFLOW", "task": "TASK"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to create an execution, or to place one."""

    body: Document
    files: tuple[ExecutionDocument, ...] = ()
    notes: tuple[str, ...] = ()  #: what flags took out of the file
    may_mean_workflow: bool = False  #: whether the launch plan, if there is none, stands for the workflow of that name
    is_no_launch_plan: bool = False  #: whether there was no such launch plan

    @property
    def place(self) -> str:
        """Where its document starts; empty where it is in no file."""
        return self.files[0].place if self.files else ""

    def of_workflow(self) -> Request:
        """The same for the workflow that has the name of the launch plan."""
        body = _with(self.body, ("spec", "launch_plan", "resource_type"), "WORKFLOW")
        return Request(body=body, files=self.files, notes=self.notes, is_no_launch_plan=True)

    @property
    def launched(self) -> tuple[str, str, str]:
        """Project, domain and name of what it launches."""
        launched = {**self.body, **self.body["spec"]["launch_plan"]}
        return str(launched["project"]), str(launched["domain"]), str(launched["name"])

    def explain(self, error: ClientError) -> ClientError:
        """The admin's refusal, with the place in a file of each field that stands in one."""
        if isinstance(error, InvalidRequest):
            for file in self.files:
                error = file.locate(error)
        elif self.is_no_launch_plan and error.name == "workflow_not_found":
            error.message = f"There is neither a launch plan {self.launched[2]!r} nor a workflow. {error.message}"
        return error


def build_requests(
    flags: Mapping[str, Any], project: str | None, domain: str | None, typed: Mapping[str, str | None] | None = None
) -> list[Request]:
    """
    The requests that flags and their files describe, one for each document of a file; flags go before the file.

    `project` and `domain` are where the launch plan or the workflow is registered. What was `typed` of the two must not
    contradict where the file, or a job that is registered nowhere, runs.
    """
    if flags["exec_file"] == flags["jobspec"] == "-":
        raise InvalidInput("--execFile and --jobspec cannot both be stdin.")
    _typed_run_key(flags)  # before any file is read
    documents, jobspec = _documents(flags)

    def build(document: ExecutionDocument) -> Request:
        _check_file(document, flags, typed or {})
        request = _request(flags, document, jobspec, project, domain)
        _check_place(request.body, typed or {})
        return request

    if len(documents) == 1:
        return [build(documents[0])]
    name = documents[0].name
    if flags["name"] is not None:
        raise InvalidInput(
            f"{flags['name']} names one execution, and {name} holds {len(documents)}: write `name` into its documents."
        )
    requests: list[Request] = []
    details: list[dict[str, Any]] = []
    for document in documents:
        try:
            requests.append(build(document))
        except InvalidInput as error:
            details.append({"position": document.place, "reason": error.message})
    if details:
        raise InvalidFile(
            f"{name} cannot be used: {count(len(details), 'problem')}. Nothing was sent.", details=details
        )
    return requests


def _documents(flags: Mapping[str, Any]) -> tuple[list[ExecutionDocument], tuple[ExecutionDocument, ...]]:
    """The documents of the file, or an empty one where there is no file; and the jobspec, if there is one."""
    if not flags["exec_file"] and not flags["jobspec"]:
        return [_NO_DOCUMENT], ()
    from ctl.files.executions import read_execution_files, read_jobspec

    documents = read_execution_files(flags["exec_file"]) if flags["exec_file"] else [_NO_DOCUMENT]
    return documents, ((read_jobspec(flags["jobspec"]),) if flags["jobspec"] else ())


def _request(
    flags: Mapping[str, Any],
    document: ExecutionDocument,
    jobspec: tuple[ExecutionDocument, ...],
    project: str | None,
    domain: str | None,
) -> Request:
    run_key, notes = _run_key(flags, document)
    target = {
        "project": flags["target_project"] or document.values.get("target_project") or project,
        "domain": flags["target_domain"] or document.values.get("target_domain") or domain,
    }
    _check_target(target)
    spec: Document = _run_spec(run_key, flags, document, jobspec)
    if "launch_plan" in spec:
        # Where it is registered, as far as that is not where the execution runs.
        registered = {"project": project, "domain": domain}
        spec["launch_plan"] |= {key: name for key, name in registered.items() if name not in (None, target[key])}
    spec |= _settings_spec(flags, document)
    if "principal" in document.values:
        spec["metadata"] = {"principal": document.values["principal"]}
    inputs = {**(document.values.get("inputs") or {}), **dict(flags["inputs"])}
    name = flags["name"] if flags["name"] is not None else document.values.get("name")
    body: Document = {**target, **({"name": name} if name is not None else {})}
    body |= {"inputs": inputs} if inputs else {}
    return Request(
        body={**body, "spec": spec},
        files=((document,) if document.name else ()) + jobspec,
        notes=notes,
        may_mean_workflow=run_key == "workflow" and not flags["workflow"],
    )


def build_repeat(flags: Mapping[str, Any], how: str, id: ExecutionId, names: Mapping[str, str]) -> Document:
    """
    The request that relaunches or recovers an execution; flags it has no place for are refused by name.

    `names` are the flags that describe an execution, by their parameters.
    """
    every = {**_RUN_FLAGS, **names}
    wrong = [flag for key, flag in every.items() if key not in _REPEAT_FLAGS and _is_given(flags[key])]
    if wrong:
        may = listed(names[key] for key in _REPEAT_FLAGS)
        raise InvalidInput(
            f"--{how} runs again what {id.name} ran: leave out {listed(wrong)}. What may be changed with it: {may}."
        )
    body: Document = {"id": id.document(), **({"name": flags["name"]} if flags["name"] is not None else {})}
    body |= settings_spec(typed_strategy(_typed_settings(flags), flags["strategy"], flags["rules"]))
    return body | ({"inputs": dict(flags["inputs"])} if flags["inputs"] else {})


def _is_given(value: Any) -> bool:
    """Whether a flag was given; 0 is a value."""
    return value is not None and value is not False and value not in ((), {})


def _typed_run_key(flags: Mapping[str, Any]) -> str | None:
    """The flag that says what to run, by its parameter."""
    named = [key for key in _RUN_FLAGS if flags[key]]
    if len(named) > 1:
        words = listed(_RUN_FLAGS[key] for key in named)
        raise InvalidInput(f"{words[0].upper()}{words[1:]} cannot be combined: keep one of them.")
    return named[0] if named else None


def _run_key(flags: Mapping[str, Any], document: ExecutionDocument) -> tuple[str, tuple[str, ...]]:
    """The key that says what to run, and notes on keys of the file that a flag overrides."""
    key = _typed_run_key(flags)
    in_file = document.run_key
    if key is None:
        if in_file is None and not flags["image"]:
            raise InvalidInput(
                "Nothing to run: give --launchplan, --workflow, --task, --jobspec, --execFile, or a command after --."
            )
        return in_file or "job", ()
    if in_file is None or (key == "command" and in_file == "job"):
        return ("job" if key == "command" else key), ()
    with_version = " and its version" if key in {"command", "jobspec"} and "version" in document.values else ""
    note = f"{_RUN_FLAGS[key][0].upper()}{_RUN_FLAGS[key][1:]} overrides {in_file}{with_version} in {document.name}."
    return ("job" if key == "command" else key), (note,)


def _check_target(target: Mapping[str, str | None]) -> None:
    for key, flag in (("project", "-p"), ("domain", "-d")):
        if target[key] is None:
            raise InvalidInput(f"The execution needs a {key}: give {flag} {key.upper()}, or set one in the context.")
        check_name(key, str(target[key]))


def _check_file(document: ExecutionDocument, flags: Mapping[str, Any], typed: Mapping[str, str | None]) -> None:
    """Refuse a typed -p or -d that the file's target contradicts, unless a flag says where it runs."""
    for key, flag in (("project", "-p"), ("domain", "-d")):
        target, name = document.values.get(f"target_{key}"), typed.get(key)
        if target is None or name in (None, target) or flags[f"target_{key}"]:
            continue
        option = f"--target{key.capitalize()}"
        raise InvalidInput(
            f"{document.name} says {option[2:]} {target}, the command line says {flag} {name}. To run there what is "
            f"registered in {name}, give {option} {target}; to run it in {name}, {option} {name}; else leave out "
            f"{flag}."
        )


def _check_place(body: Document, typed: Mapping[str, str | None]) -> None:
    if "launch_plan" in body["spec"]:
        return
    for key, flag in (("project", "-p"), ("domain", "-d")):
        if typed.get(key) not in (None, body[key]):
            raise InvalidInput(
                f"{flag} {typed[key]} says where something is registered, which this job is nowhere, and {body[key]} "
                "where it runs: keep one of the two."
            )


def _run_spec(
    run_key: str, flags: Mapping[str, Any], document: ExecutionDocument, jobspec: tuple[ExecutionDocument, ...]
) -> dict[str, Any]:
    """The part of the spec that says what runs."""
    job_flags = [f"--{key}" for key in _JOB_FLAGS if flags[key] is not None]
    if run_key in _RESOURCE_TYPES:
        if job_flags:
            label = _RESOURCE_TYPES[run_key].lower().replace("_", " ")
            verb, pronoun = ("is", "it") if len(job_flags) == 1 else ("are", "them")
            raise InvalidInput(
                f"{listed(job_flags)} {verb} for ad hoc jobs; a {label} defines its own job. "
                f"Leave {pronoun} out, or give a command after --."
            )
        return {"launch_plan": _launched(run_key, flags, document)}
    if flags["version"]:
        raise InvalidInput("--version is that of a launch plan, workflow or task: a job has none. Leave it out.")
    if run_key == "jobspec":
        if job_flags:
            raise InvalidInput(f"A jobspec says {listed(job_flags)} itself: change it there, or leave the flags out.")
        return {"jobspec": jobspec[0].values["jobspec"] if jobspec else document.values["jobspec"]}
    return {"job": _job(flags, document)}


def _launched(run_key: str, flags: Mapping[str, Any], document: ExecutionDocument) -> Document:
    typed = flags["launch_plan"] or flags["workflow"] or flags["task"]
    # In flytectl's files the key `workflow` names the launch plan; our flag --workflow names the workflow.
    resource_type = _RESOURCE_TYPES[run_key] if typed or run_key != "workflow" else "LAUNCH_PLAN"
    version = flags["version"] or document.values.get("version")
    return {
        "resource_type": resource_type,
        "name": typed or document.values[run_key],
        **({"version": version} if version else {}),
    }


def _job(flags: Mapping[str, Any], document: ExecutionDocument) -> Document:
    """The job of the file, with the fields that flags set."""
    job: Document = dict(document.values.get("job") or {})
    if flags["command"]:
        job["command"] = list(flags["command"])
    for key, path in _JOB_FLAGS.items():
        if flags[key] is not None:
            job = _with(job, path, flags[key])
    return job


def _with(document: Mapping[str, Any], path: tuple[str, ...], value: Any) -> Document:
    first, *rest = path
    inner = document.get(first)
    return {**document, first: _with(inner if isinstance(inner, dict) else {}, tuple(rest), value) if rest else value}


def _settings_spec(flags: Mapping[str, Any], document: ExecutionDocument) -> Document:
    """The rest of the spec: the settings of the file, with those that flags give."""
    values = dict(document.values)
    if "target_execution_cluster" in values:
        values["execution_cluster_label"] = values["target_execution_cluster"]
    for key in ("labels", "annotations", "envs", "token_pools"):
        values[key] = {**values.get(key, {}), **dict(flags[key])}
    values["retry"] = retry_policy(values.get("retry") or {}, flags)
    values = typed_strategy(values | _typed_settings(flags), flags["strategy"], flags["rules"])
    return settings_spec({key: value for key, value in values.items() if value or key not in _LEFT_OUT_IF_EMPTY})


def _typed_settings(flags: Mapping[str, Any]) -> Document:
    """Settings that flags give, by the keys of files."""
    return {key: flags[flag] for key, flag in _SETTING_FLAGS.items() if flags[flag]}
