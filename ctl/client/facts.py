"""
What the admin knows and the client needs without asking: phases, fields of selectors, schemas of documents.

`facts.json` is written by `make facts`; a test fails where it is not what the admin says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ctl.client.kinds import Schema

_FACTS: Mapping[str, Any] = json.loads(Path(__file__).with_name("facts.json").read_text(encoding="utf-8"))

PHASES: tuple[str, ...] = tuple(_FACTS["phases"])
FINISHED_PHASES: frozenset[str] = frozenset(_FACTS["finished_phases"])
#: The categories of what ends an execution without success.
CAUSES: tuple[str, ...] = tuple(_FACTS["causes"])
#: The rungs that may decide where an execution goes, the most specific first.
ORIGINS: tuple[str, ...] = tuple(_FACTS["origins"])
#: Of executions and of projects, where the position is Flyte's number, and of clusters.
EXECUTION_STATES: tuple[str, ...] = tuple(_FACTS["execution_states"])
PROJECT_STATES: tuple[str, ...] = tuple(_FACTS["project_states"])
CLUSTER_STATES: tuple[str, ...] = tuple(_FACTS["cluster_states"])
#: What executions can be selected by: `text`, `time`, `number`, `whole number` or `quantity` by the name of the field.
SELECTOR_FIELDS: Mapping[str, str] = _FACTS["selector_fields"]
#: Other names of these fields, most of them Flyte's.
SELECTOR_ALIASES: Mapping[str, str] = _FACTS["selector_aliases"]
#: The most terms of a selector, and the most characters of it as the API takes it.
MOST_TERMS: int = _FACTS["most_terms"]
MOST_FILTER_LENGTH: int = _FACTS["most_filter_length"]
#: What lists of executions can be sorted by.
SORT_FIELDS: tuple[str, ...] = tuple(_FACTS["sort_fields"])
#: What executions can be counted by.
GROUPS: tuple[str, ...] = tuple(_FACTS["groups"])
#: Those of them that are days, of which the newest come first.
DAYS: tuple[str, ...] = tuple(_FACTS["days"])
#: How leases end that never started.
NOT_BEGUN: tuple[str, ...] = tuple(_FACTS["not_begun"])
#: Executions ahead of one in line that the admin counts; one more stands for any number above.
MOST_AHEAD: int = _FACTS["most_ahead"]
#: The types of the events, registrations and ends of the timeline.
TIMELINE_TYPES: tuple[str, ...] = tuple(_FACTS["timeline_types"])
#: The nouns of all that is defined under a name.
DEFINED_NOUNS: tuple[str, ...] = tuple(_FACTS["defined_nouns"])
#: The filters that ask what operators and its agent have made of a cluster.
STATE_FILTERS: tuple[str, ...] = tuple(_FACTS["state_filters"])
#: The filter that asks for the weight of a cluster.
WEIGHT_FILTER: str = _FACTS["weight_filter"]
#: The kinds of settings that a job itself may override.
OVERRIDABLE_KINDS: tuple[str, ...] = tuple(_FACTS["overridable_kinds"])
#: Types of a workflow's inputs.
INPUT_TYPES: tuple[str, ...] = tuple(_FACTS["input_types"])
#: Fields of Flyte's launch plans and executions that have no meaning here, each with the reason.
REFUSED_FIELDS: Mapping[str, str] = _FACTS["refused_fields"]
#: `job`, `retry`, `cluster`, `pool`, `label`, `user` and `cluster_state`, which an agent reports.
SCHEMAS: Mapping[str, Schema] = _FACTS["schemas"]
