"""Flux jobs whose agent is gone, or was stopped for longer than their leases."""

from __future__ import annotations

import signal

import pytest

from tests.robustness.test_silence import (
    admin,
    check_that_a_guarded_job_is_ended,
    test_a_job_that_waits_goes_on_without_an_agent_and_its_result_counts,
    test_an_agent_that_was_stopped_past_its_lease_ends_nothing_that_waits,
)
from tests.support.agent_processes import Site

__all__ = [
    "admin",
    "test_a_job_that_waits_goes_on_without_an_agent_and_its_result_counts",
    "test_an_agent_that_was_stopped_past_its_lease_ends_nothing_that_waits",
]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_guarded_job_is_ended_on_its_node_when_there_is_no_agent(site: Site, end: signal.Signals) -> None:
    check_that_a_guarded_job_is_ended(site, end)
