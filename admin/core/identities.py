"""Identities: who calls, and how that was proven."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from admin.core.narrowing import Narrowing

#: Who calls with the token that all operators share, once there are users.
SHARED_TOKEN_USER = "shared-token"


class Proof(StrEnum):
    """How a caller's name was proven."""

    NONE = "none"  # nobody asked: a loopback admin without users
    SHARED_TOKEN = "shared-token"
    TOKEN = "token"  # a token of the user
    OPENID = "openid"
    AGENT = "agent"  # a cluster's token


def agent_name(cluster: str) -> str:
    """What the agent of a cluster is called."""
    return f"cluster/{cluster}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who calls, and how that was proven."""

    user: str
    groups: frozenset[str] = frozenset()
    proof: Proof = Proof.NONE
    cluster: str | None = None  #: of an agent
    #: The prefix of the token of a user, or the name of a login, of which neither is a secret. It says nothing of who.
    token: str | None = field(default=None, compare=False)
    more_tokens: tuple[str, ...] = field(default=(), compare=False)  #: the prefixes of the others of the same request
    #: When the token of an OpenID provider was issued, in seconds since the epoch.
    issued_at: float | None = field(default=None, compare=False)
    narrowed: Narrowing | None = None  #: what the token is good for, where that is less than what the user may do
    administrator: str | None = None  #: who acts as the user, and was proven

    @property
    def proven_user(self) -> str:
        """Who was proven: the user, or who acts as the user."""
        return self.administrator or self.user
