"""The manifest of the Job that runs one attempt of an execution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from agent.engines.base import Task, is_exclusive
from agent.engines.kubernetes import names
from agent.engines.kubernetes.options import Options
from agent.engines.kubernetes.outputs import OUTPUTS_COMMAND
from agent.quantities import count, tasks_on_node
from ctl.client.words import did_you_mean

#: The containers of a pod: that of the command, and the one that hands its output files over.
MAIN, OUTPUTS = "main", "outputs"
#: Where a job works that names no directory of its image, so that its output files can be read.
WORK = "/rainbow/work"
#: Labels of nodes, each with the values that will do.
Selector = Mapping[str, Sequence[str]]
_HOST = "kubernetes.io/hostname"
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_RESOURCES = {"cpu": "cpu", "memory": "memory", "ephemeral_storage": "ephemeral-storage"}


def why_not(task: Task, options: Options) -> str:
    """Why a task cannot be written as a Job; empty if it can."""
    job = task.job
    if not (job.get("image") or options.image):
        return "the kubernetes engine runs images: name one in the job, or set engineOptions.image"
    if is_exclusive(job):
        return "resources.exclusive: Kubernetes gives no job a node of its own"
    nodes, tasks = count(job, "nodes"), count(job, "tasks")
    if nodes > tasks:
        return (
            f"resources.nodes: {nodes} nodes for fewer tasks ({tasks}): Kubernetes holds no node without a pod: "
            f"set resources.tasks to {nodes} or more"
        )
    if task.queue and options.queues and task.queue not in options.queues:
        return f"queue: engineOptions.queues has no '{task.queue}'.{did_you_mean(task.queue, options.queues)}"
    directory = work_directory(task)
    if job.get("outputs") and directory is not None and not directory.startswith(WORK):
        return (
            f"outputs: files in {directory}, a directory of the image, cannot be read when the pod has ended: "
            "leave out working_directory, or make it a relative path"
        )
    try:
        namespace_of_task(task, options)
    except ValueError as error:
        return f"namespace: {error}"
    return ""


def why_no_node(task: Task, options: Options, selector: Selector) -> str:
    """Why no node can have the labels that a task requires and those that the options name; empty if one can."""
    fixed = placing_of(task, options).get("nodeSelector", {})
    for label, values in selector.items():
        if fixed.get(label, values[0]) not in values:
            return f"requires: the label '{label}' must be '{values[0]}', and is '{fixed[label]}' by nodeSelector"
    return ""


def namespace_of_task(task: Task, options: Options) -> str:
    """The namespace of a task's project and domain; ValueError if it is none that Kubernetes takes."""
    project, domain = (task.environment.get(f"RAINBOW_{part}", "") for part in ("PROJECT", "DOMAIN"))
    return names.namespace_of(options.namespace, project, domain)


def job_manifest(task: Task, options: Options, selector: Selector | None = None) -> dict[str, Any]:
    """The Job of a task: one pod, or one for each of its tasks, none of which is started again.

    `selector` has the labels of the nodes that the task requires, each with the values that will do.
    """
    queue = options.queues.get(task.queue, {})
    labels = {names.MANAGED_BY: names.AGENT, names.KEY: task.key, names.CLUSTER: names.cluster_label(options.cluster)}
    own_labels = dict(labels)
    if task.lease_seconds is not None:
        own_labels[names.GUARDED] = "true"
    if "kueueQueue" in queue:
        own_labels[names.KUEUE] = queue["kueueQueue"]
    environment = task.environment
    execution = "/".join(environment.get(f"RAINBOW_{part}", "") for part in ("PROJECT", "DOMAIN", "EXECUTION"))
    pods = count(task.job, "tasks")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": task.key,
            "namespace": namespace_of_task(task, options),
            "labels": own_labels,
            "annotations": {
                names.EXECUTION: execution,
                names.ATTEMPT: environment.get("RAINBOW_ATTEMPT", ""),
                names.ENDPOINT: options.endpoint,
            },
        },
        "spec": {
            # A pod that fails is not replaced, nor one that is still ending: another attempt is the admin's to start.
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed" if pods > 1 else "NonIndexed",
            **({"suspend": True} if "kueueQueue" in queue else {}),
            "template": {
                "metadata": {"labels": {**_labels(task), **labels}, "annotations": _annotations(task)},
                "spec": _pod(task, options, queue, selector or {}),
            },
        },
    }


def _pod(task: Task, options: Options, queue: Mapping[str, Any], selector: Selector) -> dict[str, Any]:
    outputs = list(task.job.get("outputs") or [])
    directory = work_directory(task)
    is_own = directory is not None and directory.startswith(WORK)
    account = service_account(task) or options.service_account
    placing = placing_of(task, options)
    image = str(task.job.get("image") or options.image)
    mounts = [{"name": "work", "mountPath": WORK}] if is_own else []
    main: dict[str, Any] = {
        "name": MAIN,
        "image": image,
        "env": _variables(task, directory),
        "resources": _resources(task.job, options),
        **({"command": [_literal(word) for word in task.job["command"]]} if task.job.get("command") else {}),
        **({"workingDir": directory} if directory else {}),
        **({"volumeMounts": mounts} if mounts else {}),
        **({"imagePullPolicy": options.image_pull_policy} if options.image_pull_policy else {}),
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _grace_seconds(task, options),
        "containers": [main],
        **({"serviceAccountName": account} if account else {}),
        **({"priorityClassName": queue["priorityClass"]} if "priorityClass" in queue else {}),
        **({"volumes": [{"name": "work", "emptyDir": {}}]} if is_own else {}),
    }
    if task.time_limit_seconds is not None:
        # Of the pod, not of the Job: its logs outlive it.
        pod["activeDeadlineSeconds"] = max(1, math.ceil(task.time_limit_seconds))
    if outputs:
        # It starts before the command and is told to end after it, so that it sees what the command left.
        sidecar = {
            "name": OUTPUTS,
            "image": options.outputs_image or image,
            "restartPolicy": "Always",
            "command": ["sh", "-c", OUTPUTS_COMMAND, "outputs", *(_literal(path) for path in outputs)],
            "workingDir": directory,
            "volumeMounts": mounts,
            # It requests nothing, so that it fits where the job does; in full, for a namespace may have defaults.
            "resources": {"requests": {"cpu": "0", "memory": "0"}, "limits": {"cpu": "100m", "memory": "64Mi"}},
        }
        if options.image_pull_policy:
            sidecar["imagePullPolicy"] = options.image_pull_policy
        pod["initContainers"] = [sidecar]
    if placing.get("tolerations"):
        pod["tolerations"] = placing["tolerations"]
    several = {label: values for label, values in selector.items() if len(values) > 1}
    if affinity := _with_nodes(_affinity(task, placing.get("affinity") or {}), several):
        pod["affinity"] = affinity
    fixed = {label: values[0] for label, values in selector.items() if len(values) == 1}
    if selected := {**fixed, **placing.get("nodeSelector", {})}:
        pod["nodeSelector"] = selected
    nodes = count(task.job, "nodes")
    if nodes > 1:
        pod["topologySpreadConstraints"] = [
            {
                "topologyKey": _HOST,
                "maxSkew": tasks_on_node(task.job),
                "minDomains": nodes,
                # A node that no pod of the job may go to would otherwise count as one that has none of them yet.
                "nodeTaintsPolicy": "Honor",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {names.KEY: task.key}},
            }
        ]
    return pod


def _affinity(task: Task, configured: Mapping[str, Any]) -> Mapping[str, Any]:
    """The affinity of the options, and that the tasks of several nodes go to no more of them than they need."""
    if count(task.job, "nodes") == 1 or tasks_on_node(task.job) == 1:
        return configured
    together = {"labelSelector": {"matchLabels": {names.KEY: task.key}}, "topologyKey": _HOST}
    pods = dict(configured.get("podAffinity") or {})
    rule = "preferredDuringSchedulingIgnoredDuringExecution"
    pods[rule] = [*(pods.get(rule) or ()), {"weight": 100, "podAffinityTerm": together}]
    return {**configured, "podAffinity": pods}


def _with_nodes(affinity: Mapping[str, Any], selector: Selector) -> Mapping[str, Any]:
    """An affinity that requires labels as well, each with one of several values."""
    if not selector:
        return affinity
    expressions = [
        {"key": label, "operator": "In", "values": sorted(values)} for label, values in sorted(selector.items())
    ]
    nodes = dict(affinity.get("nodeAffinity") or {})
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    # One of the terms is enough, so that each of them needs the labels.
    terms = nodes.get(rule, {}).get("nodeSelectorTerms") or [{}]
    nodes[rule] = {
        "nodeSelectorTerms": [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), *expressions]} for term in terms
        ]
    }
    return {**affinity, "nodeAffinity": nodes}


def _grace_seconds(task: Task, options: Options) -> int:
    """The time between SIGTERM and SIGKILL; short enough for a guarded job to have ended when its lease is over."""
    if task.lease_seconds is None:
        return math.ceil(options.grace_seconds)
    # Of a lease two thirds at most are left here, so that this is less than what is left after them.
    return max(1, math.floor(min(options.grace_seconds, task.lease_seconds / 3)))


def placing_of(task: Task, options: Options) -> Mapping[str, Any]:
    """The tolerations, affinity and node selector of the options for a task."""
    is_interruptible = bool(task.config.get("interruptible") and options.interruptible)
    return options.interruptible if is_interruptible else options.not_interruptible


def work_directory(task: Task) -> str | None:
    """Where the command works: in the image, in a directory of the pod's own, or where the image says (None)."""
    named = str(task.job.get("working_directory") or "")
    if named.startswith("/"):
        return named
    if named or task.job.get("outputs"):
        return f"{WORK}/{named}".rstrip("/")
    return None


def service_account(task: Task) -> str:
    """The service account that the effective settings, or the job, name; empty if they name none."""
    for security in (task.config.get("security_context"), {"run_as": task.job.get("identity")}):
        run_as = (security or {}).get("run_as")
        if isinstance(run_as, Mapping) and run_as.get("k8s_service_account"):
            return str(run_as["k8s_service_account"])
    return ""


def _labels(task: Task) -> dict[str, str]:
    return {**_values(task.config.get("labels")), **task.labels}


def _annotations(task: Task) -> dict[str, str]:
    return {**_values(task.config.get("annotations")), **(task.job.get("annotations") or {})}


def _values(field: Any) -> dict[str, str]:
    """Labels or annotations of the execution config, which has them below `values`."""
    values = field.get("values", field) if isinstance(field, Mapping) else {}
    return {str(name): str(value) for name, value in values.items()}


def _variables(task: Task, directory: str | None) -> list[dict[str, Any]]:
    variables: list[dict[str, Any]] = [
        {"name": name, "value": _literal(value)} for name, value in task.environment.items() if name != "RAINBOW_TASK"
    ]
    if "RAINBOW_KEY" not in task.environment:
        variables.append({"name": "RAINBOW_KEY", "value": task.key})
    if count(task.job, "tasks") > 1:
        return [*variables, {"name": "RAINBOW_TASK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}]
    return [*variables, {"name": "RAINBOW_TASK", "value": "0"}]


def _resources(job: Mapping[str, Any], options: Options) -> dict[str, Any]:
    written = job.get("resources", {})
    parts = {part: dict(written.get(part) or {}) for part in ("requests", "limits")}
    # Kubernetes takes the same number of gpus for both, and shares none.
    gpus = parts["requests"].get("gpu", parts["limits"].get("gpu"))
    resources = {
        part: {_RESOURCES[name]: str(amount) for name, amount in amounts.items() if name in _RESOURCES}
        for part, amounts in parts.items()
    }
    if gpus is not None and str(gpus) != "0":
        for amounts in resources.values():
            amounts[options.gpu_resource] = str(gpus)
    return {part: amounts for part, amounts in resources.items() if amounts}


def _literal(text: str) -> str:
    """A text in which Kubernetes replaces no variable."""
    return str(text).replace("$", "$$")
