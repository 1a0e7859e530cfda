"""What an engine reports of a job that it ended because its lease was over."""

from __future__ import annotations

CLUSTER_LOST = "CLUSTER_LOST"
LEASE_OVER_MESSAGE = (
    "Its lease was not renewed in time, because its agent was away or could not reach the admin, and it was ended on "
    "its node: its policy is not on_lost: wait."
)
