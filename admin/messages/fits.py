"""Fits: the clusters that were no candidates, and how many of the fleet could run a job."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.core.placement.fits import CouldRun, FleetFits
from admin.messages.shared import Answer, Json, described_as, one_of


class NonCandidateAnswer(Answer):
    """A cluster of the fleet that was no candidate."""

    cluster: str
    expected: Annotated[bool | None, Meta(description="True where no agent of it has been seen.")] = None
    why_not: str
    provenance: Annotated[Json | None, described_as("ProvenanceAnswer")] = None
    reasons: Annotated[
        list[Json] | None,
        Meta(description="What `why_not` says: each `reason`, and the `provenance` of those that have one."),
    ] = None
    could_run: Annotated[
        str | None,
        one_of(*(could_run.value for could_run in CouldRun)),
        Meta(
            description="With `fleet`, as of candidates too, and of the cluster of `why_not`: when it could run the "
            "job if it were a candidate. `later` where something keeps it from taking it now, `unknown` where nobody "
            "says how much it has of `unknown_resources`, `never` where it is too small, has no place for it or lacks "
            "the plugin."
        ),
    ] = None
    obstacles: Annotated[
        list[Json] | None,
        Meta(description="Why it would not take it now: each `filter` that it does not pass, and the `reason`."),
    ] = None
    unknown_resources: Annotated[
        list[str] | None, Meta(description="What the job wants and nobody says how much it has of.")
    ] = None


class FitCountsAnswer(Answer):
    """How many of some clusters could run a job, by `could_run`."""

    clusters: int
    now: int
    later: int
    unknown: int
    never: int


class FleetFitsAnswer(Answer):
    """How many of the clusters that the asker may be told of could run a job."""

    all: FitCountsAnswer
    candidates: FitCountsAnswer

    @classmethod
    def from_fits(cls, fits: FleetFits) -> FleetFitsAnswer:
        return cls(**{name: FitCountsAnswer(**counts._asdict()) for name, counts in fits._asdict().items()})


class ClusterQuestionAnswer(Answer):
    """Why something does not go to one cluster."""

    cluster: str
    candidate: Annotated[
        bool | None, Meta(description="Whether the route leads to it; left out of a cluster that you may not use.")
    ] = None
    chosen: bool
    message: Annotated[str, Meta(description="Why not, and whether it could run it now.")]
    then: Annotated[
        str | None, Meta(description="Of a candidate that a decision did not choose: why, as of that decision.")
    ] = None
    now: Annotated[str | None, Meta(description="And whether it could run it now.")] = None
