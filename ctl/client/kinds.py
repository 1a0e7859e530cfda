"""Kinds: what can be set. The built-in ones are known here; the platform team's own are asked of the admin."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ctl.client.nouns import plural
from ctl.client.words import fold

Schema = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One matchable resource type, as `GET /api/v1/kinds` describes it."""

    number: int
    name: str  #: EXECUTION_CLUSTER_LABEL
    noun: str  #: execution-cluster-label
    payload_key: str  #: the key its payload has in the API
    levels: tuple[str, ...]
    merge: str  #: leaf, replace or tightest
    declared: bool = False  #: declared by the platform team, not built in
    description: str = ""
    example: Mapping[str, Any]
    schema: Schema

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Kind:
        return cls(
            number=int(document["number"]),
            name=str(document["name"]),
            noun=str(document["noun"]),
            payload_key=str(document["payload_key"]),
            levels=tuple(document["levels"]),
            merge=str(document.get("merge", "replace")),
            declared=bool(document.get("declared", False)),
            description=str(document.get("description", "")),
            example=document.get("example") or {},
            schema=document["schema"],
        )

    @property
    def title(self) -> str:
        """The description without its full stop, for lists."""
        return self.description.rstrip(".")

    def is_called(self, word: str) -> bool:
        """Whether a word is this kind's number, or its noun, plural, name or payload key in any spelling."""
        plurals = [plural(self.noun), *([f"{self.noun[:-1]}ies"] if self.noun.endswith("y") else [])]
        return word == str(self.number) or fold(word) in map(fold, [self.noun, *plurals, self.name, self.payload_key])


@cache
def built_in() -> tuple[Kind, ...]:
    """The kinds every admin has, so that nouns and flags work without one."""
    text = Path(__file__).with_name("kinds.json").read_text(encoding="utf-8")
    return tuple(Kind.from_document(entry) for entry in json.loads(text)["kinds"])


def by_word(kinds: Iterable[Kind], word: str) -> Kind | None:
    """The kind meant by a noun, a name, a payload key or a number."""
    return next((kind for kind in kinds if kind.is_called(word)), None)
