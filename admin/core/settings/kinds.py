"""Kinds: the registry of matchable resource types. The API, the command line and the docs follow from its entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from admin.core import names
from admin.core.fields.branches import Section, read
from admin.core.fields.leaves import Leaves
from admin.core.problems import Invalid, Path, invalid, shorten, unknown_problem
from admin.core.settings.scopes import STORED_LEVELS, Level

Payload = dict[str, Any]


class Merge(Enum):
    """How a more specific row joins the broader ones."""

    REPLACE = "replace"  # the most specific row is the whole value
    LEAF = "leaf"  # each leaf from the most specific row that mentions it
    TIGHTEST = "tightest"  # every row holds, each for all that is at and below its scope; the value is the smallest


class NameList(Enum):
    """The lists of names that a field of a payload may point into."""

    LABEL = "label"  # execution cluster labels
    POOL = "pool"  # cluster pools
    QUEUE_TAG = "queue tag"  # tags that some queue serves
    WORKFLOW = "workflow"  # workflows that are registered, in whatever project
    LAUNCH_PLAN = "launch plan"  # launch plans likewise
    TOKEN_POOL = "token pool"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One matchable resource type."""

    number: int
    name: str
    noun: str  #: what the command line calls it
    payload_key: str  #: what the API calls its payload
    payload: Section
    description: str
    example: Payload
    levels: tuple[Level, ...] = STORED_LEVELS
    merge: Merge = Merge.REPLACE
    #: Fields whose values are names of other things; of a branch with free keys, the keys are.
    refers_to: Mapping[Path, NameList] = field(default_factory=dict)
    overriding: tuple[Path, ...] = ()  #: leaves of a quota that more specific rows override all the same
    unread: tuple[Path, ...] = ()  #: fields, or whole branches, that no part of Rainbow reads; agents may get them
    declared: bool = False  #: by the platform team, in configuration

    def read(self, payload: Any) -> Payload:
        """A payload in its normal form, or Invalid with every problem in it."""
        try:
            normal: Payload = read(self.payload, payload)
        except Invalid as error:
            problems = (replace(problem, field=problem.field or self.payload_key) for problem in error.problems)
            raise Invalid(*problems) from None
        if not normal:
            names = ", ".join(self.payload.fields)
            reason = f"says nothing: give at least one of {names}, or delete the attribute to inherit."
            raise invalid(self.payload_key, reason)
        return normal

    def leaves(self, payload: Payload) -> Leaves:
        """A payload in normal form, leaf by leaf."""
        return dict(self.payload.leaves(payload))

    @property
    def is_quota(self) -> bool:
        """Whether its rows bound sums: they are read when something is granted, and not fixed at creation."""
        return self.merge is Merge.TIGHTEST

    def is_bound(self, path: Path) -> bool:
        """Whether a leaf holds in every row that has it, whatever more specific rows say."""
        return self.is_quota and path not in self.overriding

    def names_in(self, leaves: Leaves) -> Iterator[tuple[Path, NameList, str]]:
        """The names of other things among the leaves of a payload, each with its field and its list."""
        for path, name_list in self.refers_to.items():
            value = leaves.get(path) or []
            yield from ((path, name_list, name) for name in (value if isinstance(value, list) else [value]))
            yield from ((leaf, name_list, leaf[-1]) for leaf in leaves if leaf[:-1] == path)

    def unread_among(self, paths: Iterable[Path]) -> list[Path]:
        """Those of some leaves that no part of Rainbow reads."""
        return [path for path in paths if any(path[: len(start)] == start for start in self.unread)]

    def nest(self, leaves: Leaves) -> Payload:
        """The payload again, from its leaves."""
        return self.payload.nest(leaves)

    def worth(self, path: Path, value: Any) -> Any:
        """What a leaf is worth that has a value: `1Gi` is worth the same as `1024Mi`."""
        return self.payload.worth(value, path)

    def check_level(self, level: Level) -> None:
        """Invalid where this kind has no rows at a level."""
        if level not in self.levels:
            allowed = ", ".join(allowed.value for allowed in self.levels)
            raise invalid("resource_type", f"{self.name} has no {level.value} level; set it at one of: {allowed}.")


class Kinds:
    """Every kind of one admin, by number, name, noun or payload key."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._by_name = {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.number)}
        self._by_word = {word: kind for kind in self for word in (str(kind.number), kind.name.lower(), kind.noun)}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Kind:
        return self._by_name[name]

    def find(self, word: str) -> Kind:
        """The kind that a request names by number, name or noun; Invalid with the closest ones where there is none."""
        kind = self._by_word.get(word.strip().lower())
        if kind is None:
            raise Invalid(unknown_problem("resource_type", "kind", word, self._by_name))
        return kind

    def of_payload(self, matching_attributes: Any) -> tuple[Kind, Any]:
        """The kind that the only payload of a body belongs to, and that payload unchecked."""
        where, keys = "matching_attributes", [kind.payload_key for kind in self]
        if not isinstance(matching_attributes, dict) or not matching_attributes:
            raise invalid(where, f"is missing: give one payload, one of {', '.join(keys)}.")
        if len(matching_attributes) > 1:
            listed = shorten(", ".join(sorted(matching_attributes)), 200)
            raise invalid(where, f"holds several payloads ({listed}): send one at a time.")
        [(key, payload)] = matching_attributes.items()
        for kind in self:
            if key in (kind.payload_key, names.camel(kind.payload_key), kind.name):
                return kind, payload
        raise Invalid(unknown_problem(f"{where}.{shorten(key)}", "payload", key, keys))
