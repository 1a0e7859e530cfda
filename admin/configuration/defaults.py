"""The configuration that neither the file, the environment nor the command line sets."""

from __future__ import annotations

from typing import Any

from admin.configuration.keys import CONFIGURATION
from admin.core.fields.branches import Section

#: Of keys that are no single values, which have their defaults in `keys`.
_VALUES: dict[str, Any] = {
    "domains": [
        {"id": "development", "name": "development"},
        {"id": "staging", "name": "staging"},
        {"id": "production", "name": "production"},
    ],
    "projects": [
        {"id": "flyteexamples", "name": "flyteexamples", "description": "The documentation's examples."},
        {"id": "flytesnacks", "name": "flytesnacks", "description": "Small workflows to learn from."},
    ],
    "task_resources": {
        "defaults": {"cpu": "2", "memory": "200Mi"},
        "limits": {"cpu": "2", "memory": "1Gi", "gpu": "1"},
    },
    "workflow_execution_config": {"max_parallelism": 25},
    "clusters": {
        "labelClusterMap": {"mycluster": [{"id": "local", "weight": 1}]},
        "clusterConfigs": [{"name": "local", "enabled": True}],
    },
    "kinds": {
        "WORKFLOW_PRIORITY": {
            "number": 10,
            "description": "How important the executions of a scope are to each other; the larger goes first.",
            "levels": "all",
            "merge": "replace",
            "fields": {
                "priority": {
                    "type": "int",
                    "minimum": 0,
                    "maximum": 100,
                    "default": 50,
                    "description": "From 0 to 100.",
                }
            },
        }
    },
}


def default_document() -> dict[str, Any]:
    """Every default, in the order of the keys."""
    single = single_values(CONFIGURATION)
    return {
        name: {**single[name], **_VALUES.get(name, {})} if name in single else _VALUES[name]
        for name in CONFIGURATION.fields
        if name in single or name in _VALUES
    }


def single_values(section: Section) -> dict[str, Any]:
    """The defaults that `keys` gives the single values of a section."""
    values: dict[str, Any] = {}
    for name, field in section.fields.items():
        value = single_values(field) if isinstance(field, Section) else getattr(field, "default", None)
        if value not in (None, {}):
            values[name] = value
    return values
