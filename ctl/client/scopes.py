"""Scopes: places in the hierarchy, their level and their path in the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ctl.client.errors import InvalidInput
from ctl.client.nouns import json_key
from ctl.client.words import listed

#: Levels from the broadest to the most specific, with the flags that name a scope of each.
LEVEL_FLAGS = {
    "platform": "",
    "domain": "-d DOMAIN",
    "project": "-p PROJECT",
    "project-domain": "-p PROJECT -d DOMAIN",
    "workflow": "-p PROJECT -d DOMAIN WORKFLOW",
    "launch-plan": "-p PROJECT -d DOMAIN WORKFLOW --launchplan NAME",
}

#: Keys of a scope in documents and files, in the order they are written.
KEYS = ("project", "domain", "workflow", "launch_plan")

#: The level of what a launch plan's definition says.
DEFINITION = "launch-plan-definition"
#: Origins that are more specific than every level, of one execution.
BEYOND = {"request": "the request", DEFINITION: "the launch plan's definition"}

#: Levels by the keys that name a scope of each.
_LEVELS = {
    (): "platform",
    ("domain",): "domain",
    ("project",): "project",
    ("project", "domain"): "project-domain",
    ("project", "domain", "workflow"): "workflow",
    KEYS: "launch-plan",
}


def describe_keys(keys: Mapping[str, str]) -> str:
    """Some keys of a scope in words, which need not be a scope together."""
    return ", ".join(f"{key.replace('_', ' ')} {name}" for key, name in keys.items())


@dataclass(frozen=True, kw_only=True)
class Scope:
    """A place in the hierarchy; without any key it is the platform."""

    project: str | None = None
    domain: str | None = None
    workflow: str | None = None
    launch_plan: str | None = None

    def __post_init__(self) -> None:
        for key, name in self.document().items():
            check_name(key, name)
        if self.workflow is not None and not (self.project and self.domain):
            raise InvalidInput(f"workflow {self.workflow} needs a project and a domain beside it.")
        if self.launch_plan is not None and not self.workflow:
            raise InvalidInput(f"launch plan {self.launch_plan} needs its workflow beside it.")

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Scope:
        """The scope named by the scope keys of a document, whatever else it holds."""
        return cls(**{key: document[key] for key in KEYS if document.get(key)})

    @property
    def level(self) -> str:
        """How specific this scope is: one of the levels of the hierarchy."""
        return _LEVELS[tuple(self.document())]

    @property
    def path(self) -> str:
        """The path of this scope's attributes, below the base of the API."""
        if self.level == "platform":
            raise InvalidInput("The platform's values are set in the admin's configuration, not here.")
        prefix = f"{json_key(self.level)}_attributes"
        return "/".join([prefix, *(quote(name, safe="") for name in self.document().values())])

    def document(self) -> dict[str, str]:
        """The scope keys that are set, in the order they are written."""
        return {key: name for key in KEYS if (name := getattr(self, key)) is not None}

    def describe(self) -> str:
        """The scope in words: `project flyteexamples, domain development`."""
        return describe_keys(self.document()) or "the platform"

    def name(self, noun: str) -> str:
        """
        The name `-o name` prints: `execution-cluster-label/flyteexamples/development`.

        A domain without a project is `…/-/development`; no project can be called `-`.
        """
        names = list(self.document().values())
        return "/".join([noun, "-", *names] if self.level == "domain" else [noun, *names])


#: Nouns whose names are one part of a path.
_WITHOUT_SLASH = ("cluster", "pool", "label")


def check_name(key: str, name: str) -> None:
    """Refuse names no URL can carry: empty ones, and those that URL libraries fold away."""
    label = key.replace("_", " ")
    if not name:
        raise InvalidInput(f"The {label} is empty: name one, or leave it out.")
    if not name.isprintable():
        raise InvalidInput(f"The {label} {name!r} holds characters that no name can have.")
    if name in {".", ".."} or ("/" in name and key in _WITHOUT_SLASH):
        article = "an" if label[0] in "aeio" else "a"
        raise InvalidInput(f"{name!r} cannot be the name of {article} {label}.")


def check_level(scope: Scope, noun: str, allowed: Iterable[str]) -> None:
    """Refuse a scope whose level the kind does not have, naming the levels it has."""
    if scope.level not in (levels := list(allowed)):
        raise InvalidInput(
            f"{noun} cannot be set at {level_label(scope.level)}: its levels are {listed(levels)}."
            if scope.level != "platform"
            else f"{noun} needs a scope: {listed((LEVEL_FLAGS[level] for level in levels), 'or')}."
        )


def level_label(level: str) -> str:
    """`workflow level`, `launch plan level`."""
    return f"{level.replace('launch-plan', 'launch plan')} level"


def describe_origin(origin: Mapping[str, Any], here: Scope) -> str:
    """Where a value comes from, as seen from one scope."""
    if origin.get("level") == "platform" or origin.get("level") in BEYOND:
        return describe_place(origin)
    scope = Scope.from_document(origin)
    if scope == here:
        return f"here{_version(origin)}"
    return f"inherited from {scope.describe()}"


def describe_place(origin: Mapping[str, Any]) -> str:
    """Where a value comes from, the same from wherever it is seen."""
    if origin.get("level") == "platform":
        key = origin.get("key")
        return f"configuration ({key})" if key else "configuration"
    if origin.get("level") in BEYOND:
        return BEYOND[origin["level"]]
    return f"{Scope.from_document(origin).describe()}{_version(origin)}"


def _version(origin: Mapping[str, Any]) -> str:
    return f" (version {origin['version']})" if origin.get("version") else ""
