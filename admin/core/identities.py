"""Identities: who calls, and how that was proven."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Proof(StrEnum):
    """How a caller's name was proven."""

    NONE = "none"  # nobody asked: a loopback admin without users
    SHARED_TOKEN = "shared-token"
    TOKEN = "token"  # a token of the user
    OPENID = "openid"
    AGENT = "agent"  # a cluster's token


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who calls, and how that was proven."""

    user: str
    groups: frozenset[str] = frozenset()
    proof: Proof = Proof.NONE
    cluster: str | None = None  #: of an agent
