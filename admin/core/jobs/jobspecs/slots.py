"""Slots: the resources of a jobspec as nodes, slots over all of them, and the amounts that each slot holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from admin.core.graph.requirements import read_requirement
from admin.core.graph.units import BYTE_UNITS, TYPE, byte_suffix, meant_type
from admin.core.jobs.job import MOST_NODES, MOST_TASKS
from admin.core.jobs.jobspecs.counts import read_count
from admin.core.jobs.jobspecs.documents import (
    optional_text,
    read_fields,
    read_mapping,
    without_unsupported,
)
from admin.core.problems import Path, Problem, add_problem, dotted, quoted, shorten, unknown_problem
from admin.core.quantities import LARGEST, parse_quantity

#: The types of resource that a slot holds, and a job's names for them.
_AMOUNTS = {"core": "cpu", "gpu": "gpu", "memory": "memory", "storage": "ephemeral_storage"}
_TYPES = ("node", "slot", *_AMOUNTS)
#: Levels around nodes, which hold something wherever they are named.
_OUTER_LEVELS = ("cluster", "rack")
#: The levels that Flux knows around slots, and inside them.
_LEVELS = (*_OUTER_LEVELS, "node", "socket")
#: What to do with fields of a group that stand on a resource inside it.
GROUP_REMEDIES = dict.fromkeys(("attributes", "schedule"), "it belongs to a group as a whole")
_MEASURED = ("memory", "ephemeral_storage")
_FIELDS = ("type", "count", "unit", "with", "label", "exclusive")


class _Amount(NamedTuple):
    """How much of one resource each slot holds."""

    number: int
    suffix: str  #: of the quantity
    path: Path

    def with_more(self, other: _Amount) -> _Amount:
        """Both together, where a slot holds the same resource in several places."""
        if other.suffix == self.suffix:
            return self._replace(number=self.number + other.number)
        both = sum(amount.number * parse_quantity(f"1{amount.suffix}") for amount in (self, other))
        return self._replace(number=int(both), suffix="")


@dataclass
class Slots(ABC):
    """The slots that a jobspec asks for; reading them adds whatever is wrong to the problems."""

    problems: list[Problem]
    path: Path  #: of the outermost resource
    nodes: int | None = None
    exclusive: bool = False  #: whether the nodes are for this job alone
    count: int = 1  #: over all nodes
    amounts: dict[str, _Amount] = field(default_factory=dict)  #: in each slot, by the job's name of the resource

    @abstractmethod
    def read(self, resource: Any) -> None:
        """Read the outermost resource."""

    @abstractmethod
    def _is_other(self, type_: object) -> bool:
        """Whether a type may be asked for that engines do not know, of the cluster's graph alone."""

    def resources(self, tasks: int, duration: str | None) -> dict[str, Any]:
        """The resources of the job when so many tasks run in the slots; those that outnumber them share them."""
        resources: dict[str, Any] = {} if self.nodes is None else {"nodes": self.nodes}
        resources["tasks"] = tasks
        for name, most in (("nodes", MOST_NODES), ("tasks", MOST_TASKS)):
            if resources.get(name, 0) > most:
                reason = f"asks for {shorten(f'{resources[name]:,}')} {name} in all, and a job has {most:,} at most."
                add_problem(self.problems, self.path, reason)
                break
        if self.exclusive:
            resources["exclusive"] = True
        requests = {name: self._per_task(name, tasks) for name in _AMOUNTS.values() if name in self.amounts}
        if requests:
            resources["requests"] = requests
        return resources | {"duration": duration} if duration else resources

    def _per_task(self, resource: str, tasks: int) -> str:
        number, suffix, path = self.amounts[resource]
        if number * parse_quantity(f"1{suffix}") > LARGEST:
            reason = f"{shorten(number)}{suffix} in each slot is larger than any machine: the most is 2^63-1."
            add_problem(self.problems, path, reason)
            return "1"
        share = Fraction(number * self.count, max(tasks, self.count))
        if share.denominator == 1:
            return f"{share}{suffix}"
        small = share * 1000 if resource == "cpu" else share * parse_quantity(f"1{suffix}")
        if resource == "gpu" or small.denominator != 1:
            reason = f"{number} in each of {self.count} slots cannot be divided evenly among {tasks} tasks."
            add_problem(self.problems, path, reason)
        return f"{small}m" if resource == "cpu" else f"{small}"

    def _read_fields(self, resource: Any, path: Path, more: tuple[str, ...] = ()) -> dict[str, Any]:
        resource = read_mapping(resource, path, self.problems)
        if resource.get("type") == "node" and resource.get("exclusive") is True:
            self.exclusive = True
            del resource["exclusive"]
        fields = without_unsupported(
            resource,
            {"exclusive": "only nodes can be exclusive"},
            path,
            self.problems,
            harmless={"exclusive": False},
        )
        fields = read_fields(fields, (*_FIELDS, *more), path, self.problems)
        if fields.get("with") == []:
            add_problem(self.problems, (*path, "with"), "is empty: give what is inside, or remove it.")
        return fields

    def _read_number(self, fields: Mapping[str, Any], path: Path) -> int:
        """How many nodes or slots there are: so many times the count as there are replicas."""
        if fields.get("unit", "") != "":  # Flux writes an empty one
            add_problem(self.problems, (*path, "unit"), f"a {fields['type']} has no unit: remove it.")
        count = read_count(fields.get("count", 1), (*path, "count"), self.problems)
        return count * self._read_replicas(fields, path)

    def _read_replicas(self, fields: Mapping[str, Any], path: Path) -> int:
        return read_count(fields.get("replicas", 1), (*path, "replicas"), self.problems)

    def _read_with(self, fields: Mapping[str, Any], path: Path) -> list[Any]:
        """The resources inside a node or slot."""
        inner = fields.get("with", [])
        if not isinstance(inner, list):
            add_problem(self.problems, (*path, "with"), f"{quoted(inner)} is not a list of resources.")
            return []
        if fields.get("type") == "slot" and not inner:
            self._missing((*path, "with"), "is missing: say what is inside a slot, such as cores.")
        return inner

    def _read_amounts(self, resources: list[Any], path: Path, times: int = 1) -> None:
        for index, resource in enumerate(resources):
            where = (*path, "with", str(index))
            fields = self._read_fields(resource, where)
            if self._is_other(fields.get("type")):
                if fields.get("with"):
                    number = self._read_number(fields, where)
                    self._read_amounts(self._read_with(fields, where), where, times * number)
                else:
                    self._read_other(fields, where)
                continue
            self._read_amount(fields, where, times * self._read_replicas(fields, where))

    def _read_amount(self, fields: Mapping[str, Any], path: Path, times: int = 1) -> None:
        """Read the cores, GPUs, memory or storage of each slot, which has so many vertices that hold them."""
        type_ = fields.get("type")
        if not isinstance(type_, str) or type_ not in _AMOUNTS:
            self._wrong_type(fields, path, tuple(_AMOUNTS))
            return
        if fields.get("with"):
            add_problem(self.problems, (*path, "with"), f"a {type_} holds no other resource: remove it.")
        resource = _AMOUNTS[type_]
        number = read_count(fields.get("count", 1), (*path, "count"), self.problems)
        amount = _Amount(number * times, self._read_suffix(fields, resource, (*path, "unit")), path)
        known = self.amounts.get(resource)
        self.amounts[resource] = amount if known is None else known.with_more(amount)

    def _read_other(self, fields: Mapping[str, Any], path: Path) -> int:
        """Read an amount of a type that engines do not know; returns its replicas."""
        read_count(fields.get("count", 1), (*path, "count"), self.problems)
        return self._read_replicas(fields, path)

    def _read_suffix(self, fields: Mapping[str, Any], resource: str, path: Path) -> str:
        unit = fields.get("unit")
        if resource not in _MEASURED:
            if unit:  # Flux writes an empty one
                add_problem(self.problems, path, f"a {fields['type']} has no unit: remove it.")
        elif not isinstance(unit, str):
            add_problem(self.problems, path, "is missing: say what is counted, such as GB.")
        elif (suffix := byte_suffix(unit)) is None:
            self.problems.append(unknown_problem(dotted(path), "unit", unit, BYTE_UNITS))
        else:
            return suffix
        return ""

    def _wrong_type(self, fields: Mapping[str, Any], path: Path, types: tuple[str, ...]) -> None:
        where, type_ = (*path, "type"), fields.get("type")
        if "type" not in fields:
            self._missing(where, f"is missing: give one of {', '.join(types)}.")
        elif type_ in _TYPES:
            add_problem(self.problems, where, f"a {type_} cannot stand here: give one of {', '.join(types)}.")
        else:
            word = str(type_)
            self.problems.append(unknown_problem(dotted(where), "resource type", word, types, meant=meant_type(word)))

    def _missing(self, path: Path, reason: str) -> None:
        """Report that something is missing, unless a problem with it or what is around it was reported before."""
        if not {dotted(path), dotted(path[:-1])} & {problem.field for problem in self.problems}:
            add_problem(self.problems, path, reason)


@dataclass
class FluxSlots(Slots):
    """Slots of Flux V1, at any level: node > slot > core, slot > core, rack > node > socket > slot > core."""

    label: str | None = None

    def read(self, resource: Any) -> None:
        path = self.path
        fields, around = self._read_fields(resource, path), 1
        while (type_ := fields.get("type")) == "node" or self._is_other(type_):
            around *= self._read_number(fields, path)
            if type_ == "node":
                self._set_nodes(around, path)
            inner = self._read_with(fields, path)
            if len(inner) != 1:
                holds = "one slot" if type_ == "node" else "one resource here"
                self._missing((*path, "with"), f"a {type_} holds exactly {holds}: give it.")
                return
            path = (*path, "with", "0")
            fields = self._read_fields(inner[0], path)
        if type_ != "slot":
            levels = tuple(level for level in _LEVELS if level != "node" or self.nodes is None)
            self._wrong_type(fields, path, (*levels, "slot"))
            return
        self.label = optional_text(fields, "label", path, self.problems)
        if self.label is None:
            self._missing((*path, "label"), "is missing: name the slot, such as 'task'.")
        self.count = around * self._read_number(fields, path)
        inner = self._read_with(fields, path)
        if len(inner) == 1 and isinstance(inner[0], Mapping) and inner[0].get("type") == "node":
            path = (*path, "with", "0")
            fields = self._read_fields(inner[0], path)
            if self._read_number(fields, path) != 1:
                reason = "a slot is on one node: give node > slot for tasks on several, or count 1."
                add_problem(self.problems, (*path, "count"), reason)
            self._set_nodes(self.count, path)
            inner = self._read_with(fields, path)
        self._read_amounts(inner, path)

    def _set_nodes(self, number: int, path: Path) -> None:
        if self.nodes is not None:
            add_problem(self.problems, (*path, "type"), "a node cannot stand inside a node: remove one of them.")
        self.nodes = number

    def _is_other(self, type_: object) -> bool:
        return type_ != "node" and type_ in _LEVELS


@dataclass
class GroupSlots(Slots):
    """Slots of a next-generation group: nodes with or without slots, slots, or bare cores."""

    requires: list[dict[str, Any]] = field(default_factory=list)

    def read(self, resource: Any) -> None:
        path = self.path
        fields = self._read_fields(resource, path)
        while self._is_around(fields):
            self.count *= self._read_number(fields, path)
            if fields["type"] == "node":
                self.nodes = self.count
            inner = self._read_with(fields, path)
            if len(inner) != 1:
                if _count_slots(inner) > 1:
                    reason = (
                        f"a {fields['type']} holds slots that are given apart, and the tasks of a job are all alike: "
                        "give one slot with a count, or create one execution for each kind."
                    )
                elif self.nodes is None:
                    reason = f"a {fields['type']} holds exactly one resource here: give the nodes or slots in it."
                else:
                    reason = "a slot stands beside other resources: put them into the slot."
                self._missing((*path, "with"), reason)
                return
            path = (*path, "with", "0")
            fields = self._read_fields(inner[0], path)
        type_ = fields.get("type")
        if isinstance(type_, str) and type_ in _AMOUNTS:
            self.count *= self._read_replicas(fields, path)
            self._read_amount(fields, path)
        elif is_other(type_) and not fields.get("with"):
            self.count *= self._read_other(fields, path)
        elif type_ == "node" and self.nodes is not None:
            add_problem(self.problems, (*path, "type"), "a node cannot stand inside a node: remove one of them.")
        elif type_ in ("node", "slot") or is_other(type_):
            self.count *= self._read_number(fields, path)
            if type_ == "node":
                self.nodes = self.count
            self._read_amounts(self._read_with(fields, path), path)
        else:
            self._wrong_type(fields, path, (*_OUTER_LEVELS, *_TYPES))

    def _is_around(self, fields: Mapping[str, Any]) -> bool:
        """Whether a resource is a level around the nodes or slots that are asked for."""
        type_, inner = fields.get("type"), fields.get("with")
        if type_ == "node" and self.nodes is not None:
            return False
        if type_ != "node" and not is_other(type_):
            return False
        if type_ != "node" and self.nodes is None and ((type_ in _OUTER_LEVELS and not inner) or _holds_levels(inner)):
            return True
        return _holds_slots(inner, may_be_nodes=type_ != "node")

    def _read_fields(self, resource: Any, path: Path, more: tuple[str, ...] = ()) -> dict[str, Any]:
        resource = without_unsupported(
            read_mapping(resource, path, self.problems),
            GROUP_REMEDIES,
            path,
            self.problems,
            harmless={"schedule": True},
        )
        fields = super()._read_fields(resource, path, ("replicas", "requires", *more))
        self._read_requires(fields.get("requires", []), (*path, "requires"))
        return fields

    def _is_other(self, type_: object) -> bool:
        return is_other(type_)

    def _read_requires(self, requires: Any, path: Path) -> None:
        if not isinstance(requires, list):
            add_problem(self.problems, path, f"{quoted(requires)} is not a list of requirements.")
            return
        for index, entry in enumerate(requires):
            if read_requirement(entry, (*path, str(index)), self.problems) is not None and entry not in self.requires:
                self.requires.append(dict(entry))


def _count_slots(resources: list[Any]) -> int:
    """How many of some resources are slots, or hold some."""
    return sum(_holds_slots([resource], may_be_nodes=False) for resource in resources)


def is_other(type_: object) -> bool:
    """Whether a type is one that only the graph of a cluster may have: a level around or inside nodes, or an amount.

    Other names of those that jobs know, such as `cpu`, are none.
    """
    is_type = isinstance(type_, str) and TYPE.fullmatch(type_) is not None
    return is_type and type_ not in _TYPES and meant_type(str(type_)) is None


def _holds_levels(inner: Any) -> bool:
    """Whether there are levels with something in them right among resources."""
    return any(
        isinstance(resource, Mapping) and is_other(resource.get("type")) and resource.get("with")
        for resource in (inner if isinstance(inner, list) else ())
    )


def _holds_slots(inner: Any, *, may_be_nodes: bool) -> bool:
    """Whether there are slots, or nodes, among resources and in the levels among them.

    Replicas of an amount are slots of that amount.
    """
    waiting = list(inner) if isinstance(inner, list) else []
    while waiting:
        resource = waiting.pop()
        type_ = resource.get("type") if isinstance(resource, Mapping) else None
        if type_ == "slot" or (may_be_nodes and type_ == "node"):
            return True
        if isinstance(type_, str) and type_ in _AMOUNTS and "replicas" in resource:
            return True
        if is_other(type_) and isinstance(resource.get("with"), list):
            waiting += resource["with"]
    return False
