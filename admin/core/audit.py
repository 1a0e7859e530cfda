"""Audit events: who was denied, who logged in, and what was done with tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from admin.core.json_text import JsonObject


class AuditType(StrEnum):
    """What happened."""

    WRONG_TOKEN = "WRONG_TOKEN"
    FORBIDDEN = "FORBIDDEN"
    LOGIN = "LOGIN"
    TOKEN_CREATED = "TOKEN_CREATED"
    TOKEN_REVOKED = "TOKEN_REVOKED"
    SESSION_STARTED = "SESSION_STARTED"
    SESSION_ENDED = "SESSION_ENDED"
    NEW_ADDRESS = "NEW_ADDRESS"


#: Before the name of a user to whom something was done.
USER_TARGET = "user/"
#: Before the name of a cluster, the same.
CLUSTER_TARGET = "cluster/"
#: The target of denied requests that are too many to be noted apart.
OTHERS = "others"
#: Those of requests that were denied, which may be repeated without end.
DENIED = frozenset({AuditType.WRONG_TOKEN, AuditType.FORBIDDEN})


class RequestOrigin(NamedTuple):
    """Where a request came from, and what it was for."""

    address: str | None = None
    method: str | None = None
    route: str | None = None  #: of the API, not the path itself, which may hold what somebody pasted by mistake
    request_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class AuditEvent:
    """Something that happened; or several times in one minute, where a request was denied again and again."""

    at: datetime
    event: str
    user: str | None = None
    proof: str | None = None  #: how the user was proven; None where that failed, or nobody asked
    address: str | None = None
    method: str | None = None
    route: str | None = None
    request_id: str | None = None
    target: str | None = None  #: what it was done to, such as a token; `OTHERS` of different requests that were denied
    reason: str | None = None
    count: int = 1
    last_at: datetime | None = None  #: of the last time, where there were several
    number: int = 0

    @property
    def repeat_key(self) -> str | None:
        """What is the same for all that are counted as one event; None for those that are never repeated."""
        if self.event not in DENIED:
            return None
        parts = [minute_of(self.at), self.event, self.address or "-", self.user or "-", self.proof or "-"]
        return " ".join([*parts, self.target] if self.target else parts)

    @property
    def once_key(self) -> str | None:
        """What is the same for all that are noted once, by whichever worker; None for those that may happen again.

        A login is known by its name, and a user of an OpenID provider by each address. What is known of the addresses
        of a user's token is stored with it.
        """
        target = self.target or ""
        if self.event == AuditType.LOGIN and target:
            return f"{self.event} {target}"
        if self.event == AuditType.NEW_ADDRESS and target.startswith(USER_TARGET):
            return f"{self.event} {target} {self.address}"
        return None

    def and_again(self, later: AuditEvent) -> AuditEvent:
        """This event, with others that are counted with it."""
        return replace(self, count=self.count + later.count, last_at=later.last_at or later.at)

    def as_json(self) -> JsonObject:
        """All of it that is known, as answers show it."""
        shown = {name: _shown(value) for name, value in vars(self).items() if value is not None and name != "number"}
        return shown if self.count > 1 else {name: value for name, value in shown.items() if name != "count"}


def minute_of(time: datetime) -> str:
    """The minute in which events are counted as one."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def _shown(value: object) -> object:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
