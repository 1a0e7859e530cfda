"""Values of variables: what fills the templates of one namespace, and where each of it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from admin.core.problems import Path
from admin.core.quantities import parse_quantity
from admin.core.settings.resolution import EffectiveValue
from admin.core.settings.scopes import Origin, Scope

#: Variables that are made of the effective task resources, by the section and field of each.
TASK_VARIABLES: Mapping[str, Path] = {
    "taskDefaultCpu": ("defaults", "cpu"),
    "taskDefaultMemory": ("defaults", "memory"),
    "taskDefaultEphemeralStorage": ("defaults", "ephemeral_storage"),
    "taskLimitCpu": ("limits", "cpu"),
    "taskLimitMemory": ("limits", "memory"),
    "taskLimitGpu": ("limits", "gpu"),
    "taskLimitEphemeralStorage": ("limits", "ephemeral_storage"),
}
#: What is shown in place of a value that comes from an environment variable or a file.
HIDDEN = "(hidden)"


@dataclass(frozen=True, kw_only=True)
class ExternalValue:
    """A value that configuration takes from an environment variable or a file; it is not shown to anyone."""

    source: str  #: "environment variable X", "file /x"
    text: str | None = None
    problem: str = ""  #: why there is none


#: Values from outside of configuration, by their configuration keys.
ExternalValues = Mapping[str, ExternalValue]


class Value(NamedTuple):
    """The value of one variable."""

    text: str
    origin: Origin | None = None  #: None for what the platform fills in
    kind: str = ""  #: the kind whose leaf it is
    source: str = ""  #: the environment variable or file that it comes from; it is hidden then

    @property
    def shown(self) -> str:
        return HIDDEN if self.source else self.text

    @property
    def origin_text(self) -> str:
        """Where it comes from, in words."""
        if self.origin is None:
            return "the platform"
        version = f", revision {self.origin.version}" if self.origin.version else ""
        source = f" from the {self.source}" if self.source else ""
        kind = f"{self.kind} " if self.kind else ""
        return f"{kind}{self.origin}{version}{source}"


def collect_values(
    scope: Scope, namespace: str, resources: EffectiveValue, tasks: EffectiveValue, external: ExternalValues
) -> tuple[dict[str, Value], dict[str, str]]:
    """The values of the variables at a scope, by name; and why others that are configured have none.

    `resources` and `tasks` are the effective CLUSTER_RESOURCE and TASK_RESOURCE. What the platform fills in counts
    over any stored key of its name.
    """
    values: dict[str, Value] = {}
    absent: dict[str, str] = {}
    for name, text in resources.value.get("attributes", {}).items():
        origin = resources.origins["attributes", name]
        outside = external.get(origin.key) if origin.key else None
        if outside is None:
            values[name] = Value(text, origin, "CLUSTER_RESOURCE")
        elif outside.text is None:
            absent[name] = f"{origin.key}: {outside.problem}"
        else:
            values[name] = Value(outside.text, origin, "CLUSTER_RESOURCE", outside.source)
    values.update(_task_values(tasks))
    values["namespace"] = Value(namespace)
    values["project"] = Value(scope.project)
    values["domain"] = Value(scope.domain)
    return values, absent


def _task_values(tasks: EffectiveValue) -> dict[str, Value]:
    """The values made of the effective task resources; a default above its limit is capped, as for executions."""
    values = {}
    for name, (section, field) in TASK_VARIABLES.items():
        text = tasks.value.get(section, {}).get(field)
        limit = tasks.value.get("limits", {}).get(field)
        if text is None:
            continue
        path = (section, field)
        if limit is not None and parse_quantity(text) > parse_quantity(limit):
            text, path = limit, ("limits", field)
        values[name] = Value(text, tasks.origins[path], "TASK_RESOURCE")
    return values
