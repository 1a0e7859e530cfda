"""Which nodes of Slurm a job may use, by what it requires of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.engines.requirements import is_equal, required_fields, required_properties

_GPU = re.compile(r"(?:^|,)gpu:([^:,()]+):\d+")
#: An argument of sbatch that gives a constraint, and its value if that is not the next argument.
_CONSTRAINT = re.compile(r"(?:--constraint(?:=|$)|-C=?)(.*)")


@dataclass(frozen=True)
class NodeChoice:
    """The features that all nodes of a job must have, and the model of its gpus; empty where any will do."""

    features: tuple[str, ...] = ()
    gpu_model: str = ""


ANY_NODES = NodeChoice()


def choose_nodes(job: Mapping[str, Any], nodes: Iterable[Mapping[str, str]]) -> NodeChoice:
    """What of a job's requirements Slurm can choose nodes by: features, and models of gpus, that its nodes have."""
    features: set[str] = set()
    models: set[str] = set()
    for node in nodes:
        features.update(node.get("AvailableFeatures", "").split(","))
        models.update(_GPU.findall(node.get("Gres", "")))
    required = [name for name, match in required_properties(job).items() if name in features and is_equal(True, match)]
    model = str(required_fields(job).get("model", ""))
    return NodeChoice(tuple(sorted(required)), model if model in models else "")


def with_features(words: Sequence[str], features: Sequence[str]) -> list[str]:
    """Arguments of sbatch with features added to their constraint; one that counts nodes stays as it is."""
    if not features:
        return list(words)
    expressions, others, rest = [], [], list(words)
    while rest:
        word = rest.pop(0)
        match = _CONSTRAINT.fullmatch(word)
        if match is None:
            others.append(word)
        else:
            expressions.append(match.group(1) or (rest.pop(0) if rest else ""))
    if not expressions:
        return [f"--constraint={'&'.join(features)}", *others]
    if re.search(r"[\[*]", expressions[-1]):
        return list(words)
    return [f"--constraint=({expressions[-1]})&{'&'.join(features)}", *others]
