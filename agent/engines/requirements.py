"""What a job requires of its nodes, for engines whose back end can choose nodes by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The nodes themselves, among the names of what requirements ask.
_MAIN = ("cluster", "containment")
_PROPERTY = "properties."
#: What of an image's compatibility is said of the node, by the field of the node.
_OF_IMAGES = {"architecture": "arch", "os": "os"}


def required_fields(job: Mapping[str, Any], subsystem: str = _MAIN[0]) -> dict[str, Any]:
    """What fields of the nodes, or of a subsystem, must equal; ranges are left out."""
    names = _MAIN if subsystem in _MAIN else (subsystem,)
    fields = {
        entry["field"]: entry["match"]
        for entry in job.get("requires") or ()
        if entry.get("name") in names and "match" in entry
    }
    return {**_of_image(job), **fields} if subsystem in _MAIN else fields


def required_properties(job: Mapping[str, Any]) -> dict[str, Any]:
    """The same of the properties of nodes, by their own names."""
    fields = required_fields(job).items()
    return {field.removeprefix(_PROPERTY): match for field, match in fields if field.startswith(_PROPERTY)}


def is_equal(value: Any, wanted: Any) -> bool:
    """Whether the value of a property, such as a label, is what a job wants, by the rules of requirements."""
    if value == "" and wanted is True:  # the property is there, without a value
        return True
    if isinstance(value, bool) or isinstance(wanted, bool):
        return str(value).lower() == str(wanted).lower()
    if isinstance(wanted, str):
        return str(value) == wanted
    try:
        return float(value) == float(wanted)
    except ValueError:
        return False


def _of_image(job: Mapping[str, Any]) -> dict[str, Any]:
    annotations, given = job.get("annotations") or {}, job.get("compatibility") or {}
    conditions = {name: annotations.get(f"org.opencontainers.image.{name}") for name in _OF_IMAGES}
    conditions |= {name: given[name] for name in _OF_IMAGES if name in given}
    values = {name: value.get("match") if isinstance(value, Mapping) else value for name, value in conditions.items()}
    return {_OF_IMAGES[name]: value for name, value in values.items() if value is not None}
