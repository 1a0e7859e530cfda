"""Documents of settings, as `rainbowctl apply` reads them from files: what changes they ask REST for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

from admin.configuration.yaml_files import read_documents
from admin.console.setting_forms import check_length
from admin.core.problems import invalid
from admin.core.settings.scopes import SCOPE_KEYS
from admin.services.changeable.registry import DEFINITION_FIELDS

#: The field of a form that holds documents.
FIELD = "documents"
#: What the admin decides, and a file may hold as it was exported.
_LEFT_OUT = ("kind", "version")
_SCOPE_WORDS = {**{key: key for key in SCOPE_KEYS}, "launchPlan": "launch_plan", "launchplan": "launch_plan"}


class Asked(NamedTuple):
    """A change, and what it is called where something is wrong with it."""

    change: dict[str, Any]
    title: str


def read_changes(text: str) -> list[Asked]:
    """The changes that a text asks for: documents of YAML or JSON, or a body of REST with `changes`."""
    try:
        check_length(text)
    except ValueError as error:
        raise invalid(FIELD, str(error)) from None
    try:
        documents = read_documents(text.replace("\r\n", "\n"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise invalid(FIELD, f"is neither YAML nor JSON{where}: {error.problem}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise invalid(FIELD, "is neither YAML nor JSON that can be read.") from error
    entries = [entry for document in documents for entry in (document if isinstance(document, list) else [document])]
    if not entries:
        raise invalid(FIELD, "is empty: paste or choose a file with documents, as `rainbowctl apply -f` takes them.")
    asked: list[Asked] = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise invalid(FIELD, f"holds something that is no document: number {number} is not a mapping.")
        if isinstance(entry.get("changes"), list):
            asked += [Asked(change, f"change {index}") for index, change in enumerate(entry["changes"], 1)]
        else:
            asked.append(_change(entry, number))
    return asked


def _change(document: Mapping[str, Any], number: int) -> Asked:
    word = document.get("kind")
    if not isinstance(word, str):
        reason = "lacks kind: write `kind: pool`, `kind: execution-cluster-label` or another, as `rainbowctl get kind`"
        raise invalid(FIELD, f"document {number} {reason} lists them.")
    rest = {key: value for key, value in document.items() if key not in _LEFT_OUT}
    field = f"{word.strip().lower().replace('-', '_')}_definition"
    if field in DEFINITION_FIELDS:
        name = document.get("name") or document.get("id") or ""
        return Asked({field: _with_members(rest)}, f"document {number}, {word} {name}".rstrip())
    scope = {_SCOPE_WORDS[key]: value for key, value in rest.items() if key in _SCOPE_WORDS}
    payload = {key: value for key, value in rest.items() if key not in _SCOPE_WORDS}
    where = "/".join(str(scope[key]) for key in ("project", "domain", "workflow", "launch_plan") if key in scope)
    change = {"resource_type": word, **scope, "payload": payload}
    return Asked(change, f"document {number}, {word} at {where or 'no scope'}")


def _with_members(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Members may be written as a mapping from their ids to their weights."""
    members = definition.get("members")
    if not isinstance(members, dict):
        return dict(definition)
    listed = [{"id": id, "weight": 1 if weight is None else weight} for id, weight in members.items()]
    return {**definition, "members": listed}
