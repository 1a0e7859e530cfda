"""The types of executions have the fields of the table, in the order that creation relies on."""

from __future__ import annotations

from admin.core.executions.selectors import FIELDS, SORT_FIELDS
from admin.store.execution_fields import stored_columns
from admin.store.execution_tables import executions
from admin.store.executions import Execution, ListedExecution, WaitingExecution


def test_an_execution_has_every_column() -> None:
    assert set(Execution._fields) == set(executions.c.keys())


def test_listed_and_waiting_executions_have_some_of_the_columns() -> None:
    assert set(ListedExecution._fields) < set(Execution._fields)
    assert set(WaitingExecution._fields) < set(Execution._fields)


def test_fields_with_defaults_come_last() -> None:
    defaults = list(Execution._field_defaults)
    assert list(Execution._fields[-len(defaults) :]) == defaults


def test_lists_read_every_field_that_they_select_and_sort_by() -> None:
    computed = {"cause", "origin", "origin_scope"}  # from phase and reason, and from the decision
    computed |= {"silent", "unconfirmed"}  # from since when it is silent, and from what is said of its end
    computed |= {"node", "decided_at"}  # from all of its nodes, and from the decision
    computed |= {"backoff", "waited"}  # from the time of its next attempt, and of its creation, start and end
    computed |= {
        "cpu",
        "memory",
        "gpu",
        "image",
        "on_lost",
        "time_limit",
        "queue",
    }  # from what is stored of its job and settings
    computed |= {"requested_cluster"}  # from its route
    # By these lists select first, and then read what they show.
    shown = computed - {"image", "on_lost", "queue", "requested_cluster"}
    assert {name for field in shown for name in stored_columns(field)} - computed <= set(ListedExecution._fields)
    assert {*FIELDS, *SORT_FIELDS, "phase", "reason"} - computed <= set(ListedExecution._fields)
