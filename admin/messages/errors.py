"""How every error is answered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.errors import RainbowError
from admin.messages.shared import Answer, ClaimedBy, Json, ProvenanceAnswer, ScopeAnswer, Time, described_as


class LaterRevision(Answer):
    """A revision that changed a row again; one that is no longer kept has its number alone."""

    revision: int
    author: str | None = None
    claimed_by: ClaimedBy = None
    at: Time | None = None
    message: str | None = None
    undone: Annotated[int | None, Meta(description="The revision that it rolled back.")] = None
    also_undone: Annotated[list[int] | None, Meta(description="Others that it rolled back too.")] = None
    restored: Annotated[int | None, Meta(description="The revision that it went back to.")] = None


class ErrorDetail(ScopeAnswer):
    """One field that is wrong, or one row that is not as expected."""

    index: Annotated[int | None, Meta(description="Position of the change, where there are many.")] = None
    name: Annotated[str | None, Meta(description="Of what belongs to no scope: a cluster, pool, user, grant …")] = None
    resource_type: str | None = None
    expected_version: int | None = None
    changed_by_revision: int | None = None
    rolled_back: Annotated[bool | None, Meta(description="Whether that revision was the rollback of this one.")] = None
    undone: Annotated[
        int | None, Meta(description="The revision that the only later one rolled back, where it is a rollback.")
    ] = None
    also_undone: Annotated[list[int] | None, Meta(description="Others that the only later one rolled back too.")] = None
    restored: Annotated[int | None, Meta(description="The revision that the only later one went back to.")] = None
    later: Annotated[
        list[LaterRevision] | None, Meta(description="The newest revisions that changed it again, where several did.")
    ] = None
    later_count: Annotated[int | None, Meta(description="How many those are in all.")] = None
    field: str | None = None
    reason: str | None = None
    closest: list[str] | None = None
    may_be_pruned: Annotated[
        bool | None, Meta(description="Of an unknown name: true where something of that name may have been pruned.")
    ] = None
    current_version: int | None = None
    provenance: Annotated[
        ProvenanceAnswer | None, Meta(description="Of the setting, row, state or later revision that refuses it.")
    ] = None
    executions: Annotated[list[str] | None, Meta(description="The first that stand in the way, by name.")] = None
    count: Annotated[int | None, Meta(description="Of what is in use: the users that this counts, if several.")] = None


#: Details as the services write them, in the order that reads best for each error.
Details = list[Annotated[Json, described_as("ErrorDetail")]]


class ErrorAnswer(Answer):
    """Every error."""

    code: Annotated[int, Meta(description="gRPC's number for this sort of error.")]
    error: Annotated[str, Meta(description="A stable name for programs.")]
    message: Annotated[str, Meta(description="What is wrong and how to mend it, for people.")]
    details: Details
    restorable: Annotated[
        Details | None, Meta(description="Of a revision that cannot be undone: the rows that could be.")
    ] = None
    request_id: str

    @classmethod
    def from_error(cls, error: RainbowError, request_id: str) -> ErrorAnswer:
        return cls.from_attributes(error, error=error.name, request_id=request_id)


class BatchError(Answer):
    """Why one of many was refused."""

    status: int
    code: int
    error: str
    message: str
    details: Details

    @classmethod
    def from_error(cls, error: RainbowError) -> BatchError:
        return cls.from_attributes(error, error=error.name)
