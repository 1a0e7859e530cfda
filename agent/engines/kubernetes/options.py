"""The options of the Kubernetes engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.engines.base import OptionError, parse_seconds, refuse_unknown
from agent.engines.kubernetes.names import unknown_variables
from agent.engines.limits import LOG_LIMIT_BYTES

DEFAULTS: Mapping[str, Any] = {
    "kubeconfig": "",  # the file to use instead of KUBECONFIG, the pod's service account or ~/.kube/config
    "context": "",
    "cluster": "",  # the agent's cluster, which the agent fills in
    "endpoint": "",  # of the admin, which the agent fills in
    "namespace": "{{ project }}-{{ domain }}",
    "leaseNamespace": "rainbow",  # where the agent's and the janitor's Lease are
    "image": "",  # of jobs that name none
    "imagePullPolicy": "",
    "imagePullSeconds": 120,
    "outputsImage": "",
    "serviceAccount": "",
    "gpuResource": "nvidia.com/gpu",
    "queues": {},
    "interruptible": {},
    "notInterruptible": {},
    "graceSeconds": 30,
    "keepSeconds": 3600,
    "logLimitBytes": LOG_LIMIT_BYTES,
    "timeoutSeconds": 10,
}
_TEXTS = (
    *("kubeconfig", "context", "cluster", "endpoint", "namespace", "leaseNamespace", "image", "imagePullPolicy"),
    *("outputsImage", "serviceAccount", "gpuResource"),
)
_PULL_POLICIES = ("", "Always", "IfNotPresent", "Never")
_PLACING = ("tolerations", "affinity", "nodeSelector")
_QUEUE = ("priorityClass", "kueueQueue")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options, checked."""

    kubeconfig: str
    context: str
    cluster: str
    endpoint: str
    namespace: str
    lease_namespace: str
    image: str
    image_pull_policy: str
    image_pull_seconds: float
    outputs_image: str
    service_account: str
    gpu_resource: str
    queues: Mapping[str, Mapping[str, str]]
    interruptible: Mapping[str, Any]
    not_interruptible: Mapping[str, Any]
    grace_seconds: float
    keep_seconds: float
    log_limit_bytes: int
    timeout_seconds: float


def read_options(given: Mapping[str, Any]) -> Options:
    """The options of an agent's configuration; OptionError for one that is unknown or invalid."""
    refuse_unknown(given, DEFAULTS)
    options = {**DEFAULTS, **given}
    for name in _TEXTS:
        if not isinstance(options[name], str):
            raise OptionError(f"engineOptions.{name}: must be a text")
    if unknown := unknown_variables(options["namespace"]):
        raise OptionError(f"engineOptions.namespace: there is no variable {unknown[0]}: use project and domain")
    if options["imagePullPolicy"] not in _PULL_POLICIES:
        raise OptionError("engineOptions.imagePullPolicy: must be Always, IfNotPresent or Never")
    limit = options["logLimitBytes"]
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise OptionError("engineOptions.logLimitBytes: must be a number of bytes, 0 or more")
    for name in ("interruptible", "notInterruptible"):
        _check_mapping(f"engineOptions.{name}", options[name], _PLACING)
    if not isinstance(options["queues"], Mapping):
        raise OptionError("engineOptions.queues: must be a mapping of queues to priorityClass or kueueQueue")
    for queue, value in options["queues"].items():
        _check_mapping(f"engineOptions.queues.{queue}", value, _QUEUE)
    return Options(
        kubeconfig=options["kubeconfig"],
        context=options["context"],
        cluster=options["cluster"],
        endpoint=options["endpoint"],
        namespace=options["namespace"],
        lease_namespace=options["leaseNamespace"],
        image=options["image"],
        image_pull_policy=options["imagePullPolicy"],
        image_pull_seconds=parse_seconds(options, "imagePullSeconds"),
        outputs_image=options["outputsImage"],
        service_account=options["serviceAccount"],
        gpu_resource=options["gpuResource"],
        queues=options["queues"],
        interruptible=options["interruptible"],
        not_interruptible=options["notInterruptible"],
        grace_seconds=parse_seconds(options, "graceSeconds"),
        keep_seconds=parse_seconds(options, "keepSeconds"),
        log_limit_bytes=limit,
        timeout_seconds=parse_seconds(options, "timeoutSeconds", least=1),
    )


def _check_mapping(field: str, value: Any, known: tuple[str, ...]) -> None:
    if not isinstance(value, Mapping) or not set(value) <= set(known):
        raise OptionError(f"{field}: must be a mapping with any of {', '.join(known)}")
