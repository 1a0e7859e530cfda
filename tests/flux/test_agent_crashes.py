"""Agents of a Flux instance killed at every step: the same tests that the other engines pass."""

from __future__ import annotations

from tests.robustness.test_agent_crashes import (
    test_a_cancel_while_the_agent_is_dead_is_carried_out_later,
    test_an_agent_that_crashes_at_every_step_in_turn,
    test_an_agent_without_its_intents_adopts_the_jobs_that_its_engine_knows,
    test_an_execution_that_ends_without_an_agent_is_reported_later,
    test_an_execution_that_neither_agent_nor_engine_knows_is_lost,
    test_each_execution_runs_exactly_once,
)

__all__ = [
    "test_a_cancel_while_the_agent_is_dead_is_carried_out_later",
    "test_an_agent_that_crashes_at_every_step_in_turn",
    "test_an_agent_without_its_intents_adopts_the_jobs_that_its_engine_knows",
    "test_an_execution_that_ends_without_an_agent_is_reported_later",
    "test_an_execution_that_neither_agent_nor_engine_knows_is_lost",
    "test_each_execution_runs_exactly_once",
]
