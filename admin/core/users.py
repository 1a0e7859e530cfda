"""Users: people and service accounts, who are known by tokens of their own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from admin.core import names
from admin.core.changes import ANONYMOUS, UNKNOWN
from admin.core.fields.branches import Section
from admin.core.fields.leaves import Boolean, Text
from admin.core.identities import SHARED_TOKEN_USER
from admin.core.problems import Problem, raise_problems
from admin.core.settings.kinds import Payload

#: What a user's row is called in revisions.
USER = "USER"
#: The author of the definition of a cluster that registers.
REGISTRATION = "registration"
#: Names that the admin gives to callers itself.
RESERVED = frozenset({ANONYMOUS, UNKNOWN, SHARED_TOKEN_USER, REGISTRATION})

DEFINITION = Section(
    fields={
        "service_account": Boolean(nullable=False, description="Whether it is a program, not a person; false."),
        "description": Text(nullable=False, max_length=1000, description="For people."),
    }
)


@dataclass(frozen=True, kw_only=True)
class User:
    """A person or a service account."""

    name: str
    service_account: bool = False
    description: str | None = None
    created_at: datetime
    updated_at: datetime
    version: int  #: number of the last revision that changed it

    @property
    def payload(self) -> Payload:
        """The fields that people set, as revisions store them."""
        return _payload(self.service_account, self.description)


def read_user(name: str, payload: object) -> Payload:
    """A user's definition in its normal form; Invalid with every problem in it."""
    problems: list[Problem] = []
    normal = DEFINITION.read(payload, (), problems)
    if not names.is_user_name(name):
        problems.append(Problem(field="name", reason=f"is not a user's name: use {names.USER_NAME_RULE}."))
    elif name in RESERVED:
        problems.append(Problem(field="name", reason=f"'{name}' is a name that the admin itself uses; choose another."))
    raise_problems(problems)
    return _payload(normal.get("service_account", False), normal.get("description"))


def _payload(service_account: bool, description: str | None) -> Payload:
    """What is false or absent is left out, so that a definition reads as people write it."""
    fields = {"service_account": service_account or None, "description": description}
    return {key: value for key, value in fields.items() if value is not None}
