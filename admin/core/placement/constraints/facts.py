"""Facts: what expressions may name of a cluster and of the job that needs one, each with its type and unit.

docs/placement.md has the same tables; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from admin.core.fleet.clusters import eta_of
from admin.core.placement.candidates import Candidate, Workload
from admin.core.placement.constraints.expressions import LARGEST, Value
from admin.core.placement.filters import ROOM
from admin.core.quantities import parse_duration
from admin.core.resources import SHARED_NODES, Amounts

NUMBER, TEXT, BOOLEAN = "number", "text", "boolean"
#: Fields of a prefix that sites choose, such as `properties.zone`; their types are not known before.
PROPERTIES, LABELS, PARAMETERS = "properties.", "job.labels.", "job.parameters."
#: Units, as quantities have them.
CONSTANTS: Mapping[str, int] = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Subject(NamedTuple):
    """What facts are read of: a candidate, the job, and what waits at each cluster."""

    candidate: Candidate
    workload: Workload
    waiting: Mapping[str, Amounts]

    @property
    def taken(self) -> Amounts:
        """What is taken of the cluster by what waits there."""
        return self.waiting.get(self.candidate.cluster.name, {})

    @property
    def takes_work(self) -> bool:
        """Whether the cluster counts as free at all: a silent or unseen one never does."""
        cluster = self.candidate.cluster
        return cluster.is_able and not cluster.is_expected


class ClusterFact(NamedTuple):
    """Something that expressions may name of a cluster."""

    type: str
    meaning: str  #: with its unit
    read: Callable[[Subject], Value | None]  #: None where it is not known
    is_load: bool = False  #: whether it changes with every job
    why_false: Callable[[Subject], str] | None = None  #: says of the cluster why it is false; None for what needs none


class JobFact(NamedTuple):
    """Something that expressions may name of the job."""

    type: str
    meaning: str
    read: Callable[[Workload], Value | None]


def _amount(resource: str, amounts: Amounts | None) -> int | float | None:
    amount = (amounts or {}).get(resource)
    return amount if amount is None or resource != "cpu" else amount / 1000


def _total(resource: str) -> Callable[[Subject], Value | None]:
    def read(subject: Subject) -> Value | None:
        cluster = subject.candidate.cluster
        if resource in (cluster.capacity or {}) or cluster.machine is None:
            return _amount(resource, cluster.capacity)
        return _amount(resource, cluster.machine.totals)

    return read


def _free(resource: str) -> Callable[[Subject], Value | None]:
    def read(subject: Subject) -> Value | None:
        amount = _amount(resource, subject.candidate.free)
        return amount if amount is None or subject.takes_work else 0

    return read


def _free_nodes(subject: Subject) -> Value | None:
    """Free nodes less those that what waits there asks for, also where it shares them."""
    nodes = _free("nodes")(subject)
    shared = subject.taken.get(SHARED_NODES, 0)
    return max(0, nodes - shared) if shared and isinstance(nodes, int) else nodes


def _running(subject: Subject) -> Value | None:
    cluster = subject.candidate.cluster
    total, free = (_amount("executions", amounts) for amounts in (cluster.capacity, cluster.free))
    return None if total is None or free is None else max(0, total - free)


def _eta(subject: Subject) -> Value | None:
    eta = eta_of(subject.candidate.cluster.state.report, subject.candidate.free)
    return None if eta is None else float(parse_duration(eta, zero=True))


def _fits_now(subject: Subject) -> bool:
    return not _why_not_now(subject)


def _why_not_now(subject: Subject) -> str:
    """Why the job does not fit into what is free; "" where it does."""
    if not subject.takes_work:
        return "has no agent that is heard"
    return next(iter(ROOM.drop((subject.candidate,), subject.workload).values()), "")


_RESOURCES = {
    "nodes": "machines",
    "cpu": "cores",
    "memory": "bytes",
    "gpu": "GPUs",
    "ephemeral_storage": "bytes of scratch disk",
    "executions": "executions at once",
}
CLUSTER_FACTS: Mapping[str, ClusterFact] = {
    "name": ClusterFact(TEXT, "its name", lambda subject: subject.candidate.cluster.name),
    "weight": ClusterFact(NUMBER, "its weight in the pool or label", lambda subject: subject.candidate.weight),
    "position": ClusterFact(NUMBER, "its place in the list, from 0", lambda subject: subject.candidate.position),
    "cost": ClusterFact(NUMBER, "`cost` of its definition", lambda subject: subject.candidate.cluster.cost),
    **{name: ClusterFact(NUMBER, f"{unit} in all", _total(name)) for name, unit in _RESOURCES.items()},
    **{
        f"{name}_free": ClusterFact(NUMBER, f"{unit} that are free", _free(name), True)
        for name, unit in _RESOURCES.items()
    },
    "nodes_free": ClusterFact(
        NUMBER, "machines that are free, less those that what waits there asks for", _free_nodes, True
    ),
    "running": ClusterFact(NUMBER, "executions in use at its last report", _running, True),
    "waiting": ClusterFact(
        NUMBER, "executions that wait there", lambda subject: subject.taken.get("executions", 0), True
    ),
    "eta": ClusterFact(NUMBER, "seconds until new work would start, as reported", _eta, True),
    "fits_now": ClusterFact(
        BOOLEAN, "whether the job fits into what is free, as `room` asks", _fits_now, True, _why_not_now
    ),
    "expected": ClusterFact(
        BOOLEAN, "whether no agent of it has been seen", lambda subject: subject.candidate.cluster.is_expected
    ),
}


def _demand(resource: str) -> Callable[[Workload], Value | None]:
    return lambda workload: _amount(resource, workload.demand) or 0


def _parameter(name: str) -> Callable[[Workload], Value | None]:
    def read(workload: Workload) -> Value | None:
        value: Value | None = getattr(workload.job, name, None)
        return value

    return read


JOB_FACTS: Mapping[str, JobFact] = {
    "job.nodes": JobFact(NUMBER, "machines that it asks for", _demand("nodes")),
    "job.tasks": JobFact(NUMBER, "tasks over all nodes", _parameter("tasks")),
    "job.cpu": JobFact(NUMBER, "cores of all tasks together", _demand("cpu")),
    "job.memory": JobFact(NUMBER, "bytes of all tasks together", _demand("memory")),
    "job.gpu": JobFact(NUMBER, "GPUs of all tasks together", _demand("gpu")),
    "job.ephemeral_storage": JobFact(NUMBER, "bytes of scratch disk of all tasks", _demand("ephemeral_storage")),
    "job.duration": JobFact(NUMBER, "seconds that it may run; not known without a limit", _parameter("duration")),
    "job.exclusive": JobFact(BOOLEAN, "whether it has its nodes to itself", lambda workload: workload.exclusive),
    "job.priority": JobFact(NUMBER, "its priority, 50 by default", _parameter("priority")),
    "job.project": JobFact(TEXT, "its project", _parameter("project")),
    "job.domain": JobFact(TEXT, "its domain", _parameter("domain")),
    "job.workflow": JobFact(TEXT, "its workflow, empty for an ad hoc job", _parameter("workflow")),
    "job.launch_plan": JobFact(TEXT, "its launch plan, empty without one", _parameter("launch_plan")),
}
#: The types of all names that are the same at every site.
TYPES: Mapping[str, str] = {
    **{name: fact.type for name, fact in CLUSTER_FACTS.items()},
    **{name: fact.type for name, fact in JOB_FACTS.items()},
    **dict.fromkeys(CONSTANTS, NUMBER),
}


def property_of(name: str) -> str | None:
    """The property of clusters that a name stands for; None where it stands for something else."""
    if name.startswith(PROPERTIES):
        return name.removeprefix(PROPERTIES)
    return None if name in TYPES or "." in name else name


def read_facts(names: Iterable[str], subject: Subject) -> dict[str, Value | None]:
    """The values of some names for one candidate; None for what is not known."""
    return {name: _read(name, subject) for name in names}


def _read(name: str, subject: Subject) -> Value | None:
    fact = CLUSTER_FACTS.get(name)
    if fact is not None:
        return fact.read(subject)
    if name.startswith("job."):
        return _read_job(name, subject.workload)
    if name in CONSTANTS:
        return CONSTANTS[name]
    return _chosen_value(subject.candidate.cluster.properties.get(property_of(name) or ""))


def why_false(name: str, subject: Subject) -> str:
    """Why something is false of a candidate, in words about it; "" where its name says all."""
    fact = CLUSTER_FACTS.get(name)
    return "" if fact is None or fact.why_false is None else fact.why_false(subject)


def _chosen_value(value: object) -> Value | None:
    """A value that somebody chose, if expressions can calculate with it."""
    if isinstance(value, int | float) and not abs(value) <= LARGEST:
        return None
    return value if isinstance(value, bool | int | float | str) else None


def _read_job(name: str, workload: Workload) -> Value | None:
    job, fact = workload.job, JOB_FACTS.get(name)
    if fact is not None:
        return fact.read(workload)
    if job is None:
        return None
    if name.startswith(PARAMETERS):
        return _chosen_value(job.parameters.get(name.removeprefix(PARAMETERS)))
    return job.labels.get(name.removeprefix(LABELS))


def job_values(names: Collection[str], workload: Workload) -> tuple[Value | None, ...]:
    """What rules look at of a job, by which evaluations are told apart."""
    return tuple(_read_job(name, workload) for name in names)
