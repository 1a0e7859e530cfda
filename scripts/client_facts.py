"""
Writes what the client knows of the admin without asking: `kinds.json` and `facts.json` in `ctl/client`.

    python -m scripts.client_facts
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from admin.core import cluster_groups, grants, use_grants, user_groups, users
from admin.core.all_definitions import NOUNS
from admin.core.executions.attempt_records import NOT_BEGUN
from admin.core.executions.lifecycle import Phase
from admin.core.executions.received import OVERRIDABLE
from admin.core.executions.retries import RETRY
from admin.core.executions.selectors import (
    ALIASES,
    DAYS,
    FIELDS,
    GROUPS,
    MOST_FILTER_LENGTH,
    MOST_TERMS,
    SORT_FIELDS,
    WORDS,
)
from admin.core.executions.spec import REFUSED
from admin.core.executions.starts import MOST_AHEAD
from admin.core.fleet.clusters import REPORT
from admin.core.fleet.documents import DEFINITIONS
from admin.core.jobs.input_types import TYPES
from admin.core.jobs.job import JOB
from admin.core.placement.filters import STATE_FILTERS, WEIGHT
from admin.core.projects import ProjectState
from admin.core.settings.builtin_kinds import BUILTIN_KINDS
from admin.core.token_pools import definitions as token_pools
from admin.messages.clusters import STATES
from admin.messages.service import KindAnswer
from admin.messages.shared import to_json
from admin.messages.timeline import ENTRY_TYPES

FOLDER = Path(__file__).parents[1] / "ctl/client"

#: What the client reads of a schema; the rest is for the admin to check.
_KEYS = ("enum", "minimum", "maximum", "required")
#: A larger maximum only guards against overflow: the client leaves it to the admin.
_LARGEST_MAXIMUM = 1000


def files() -> dict[str, str]:
    """The text of each file by its name."""
    kinds = {"kinds": [to_json(KindAnswer.from_kind(kind)) for kind in BUILTIN_KINDS]}
    return {"kinds.json": _text(kinds), "facts.json": _text(facts())}


def facts() -> dict[str, Any]:
    """What `ctl.client.facts` reads."""
    return {
        "phases": [phase.value for phase in Phase],
        "finished_phases": [phase.value for phase in Phase if phase.is_finished],
        "causes": list(WORDS["cause"]),
        "origins": list(WORDS["origin"]),
        "execution_states": list(WORDS["state"]),
        "project_states": [state.value for state in ProjectState],
        "cluster_states": list(STATES),
        "selector_fields": {name: kind.value for name, kind in FIELDS.items()},
        "selector_aliases": ALIASES,
        "most_terms": MOST_TERMS,
        "most_filter_length": MOST_FILTER_LENGTH,
        "sort_fields": list(SORT_FIELDS),
        "groups": list(GROUPS),
        "days": list(DAYS),
        "not_begun": list(NOT_BEGUN),
        "most_ahead": MOST_AHEAD,
        "timeline_types": list(ENTRY_TYPES),
        "defined_nouns": list(NOUNS),
        "state_filters": [filter_.name for filter_ in STATE_FILTERS],
        "weight_filter": WEIGHT.name,
        "overridable_kinds": list(OVERRIDABLE),
        "input_types": list(TYPES),
        "refused_fields": REFUSED,
        "schemas": {
            "job": plain(JOB.schema()),
            "retry": plain(RETRY.schema()),
            **{kind.noun: plain(section.schema()) for kind, section in DEFINITIONS.items()},
            "user": plain(users.DEFINITION.schema()),
            "group": plain(user_groups.DEFINITION.schema()),
            "grant": plain(grants.DEFINITION.schema()),
            "cluster-group": plain(cluster_groups.DEFINITION.schema()),
            "token-pool": plain(token_pools.DEFINITION.schema()),
            "use-grant": plain(use_grants.DEFINITION.schema()),
            "cluster_state": plain(REPORT.schema()),
        },
    }


def plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with what the client reads of it; without null, for these documents inherit nothing."""
    types = [name for name in _listed(schema["type"]) if name != "null"]
    document: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if "properties" in schema:
        document["properties"] = {name: plain(part) for name, part in schema["properties"].items()}
    if "items" in schema:
        document["items"] = plain(schema["items"])
    if extra := schema.get("additionalProperties"):
        document["additionalProperties"] = plain(extra) if isinstance(extra, Mapping) else extra
    document |= {key: schema[key] for key in _KEYS if key in schema}
    if "enum" in document:
        document["enum"] = [word for word in document["enum"] if word is not None]
    if document.get("maximum", 0) > _LARGEST_MAXIMUM:
        del document["maximum"]
    return document


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
