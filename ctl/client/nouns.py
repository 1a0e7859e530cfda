"""
The forms of a noun.

A noun of two words, say `spare-part`, is written so on the command line, in documents and in this code, `spare_part` in
JSON, `spare_parts` in paths, and `SPARE_PART` where an answer says of which kind a row is.
"""

from __future__ import annotations

from collections.abc import Iterable

from ctl.client.words import fold

PROJECT = "project"
USER = "user"
GROUP, GRANT = "group", "grant"
CLUSTER_GROUP, USE_GRANT = "cluster-group", "use-grant"
TOKEN_POOL = "token-pool"
#: The nouns of the fleet.
FLEET = ("cluster", "pool", "label")
#: The nouns whose rows have a name and no scope of their own.
NAMED = (*FLEET, USER, GROUP, GRANT, CLUSTER_GROUP, USE_GRANT, TOKEN_POOL)
#: Those of them whose names follow from the rest, so that documents have none.
NAMELESS = (GRANT, USE_GRANT)
#: Nouns of rows that are definitions rather than attributes.
DEFINED = (PROJECT, *NAMED)


def plural(noun: str) -> str:
    return f"{noun}s"


def json_key(noun: str) -> str:
    return noun.replace("-", "_")


def collection(noun: str) -> str:
    """The plural in paths and answers."""
    return json_key(plural(noun))


def row_kind(noun: str) -> str:
    return json_key(noun).upper()


def noun_of(row_kind: str) -> str:
    """The noun of a kind of rows that is not in the registry of kinds."""
    return row_kind.lower().replace("_", "-")


def find_noun(word: str, nouns: Iterable[str]) -> str | None:
    """The noun that a word means, in singular or plural and any spelling."""
    return next((noun for noun in nouns if fold(word) in {fold(noun), fold(plural(noun))}), None)
