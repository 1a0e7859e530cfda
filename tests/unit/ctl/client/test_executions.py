from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ctl.client.errors import InvalidInput
from ctl.client.executions import Execution, ExecutionId, parse_id, parse_phase, parse_state

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
ID = ExecutionId(project="p", domain="d", name="a1")


@pytest.mark.parametrize(
    ("text", "project", "domain"),
    [
        ("a1", "p", "d"),
        ("p/d/a1", None, None),
        ("execution/p/d/a1", None, None),
        ("p/d/a1", "p", "d"),
    ],
)
def test_an_execution_is_named_in_three_ways(text: str, project: str | None, domain: str | None) -> None:
    assert parse_id(text, project, domain) == ID


@pytest.mark.parametrize(
    ("text", "project", "domain", "message"),
    [
        ("a1", "p", None, "needs a project and a domain"),
        ("a1", None, None, "needs a project and a domain"),
        ("d/a1", "p", "d", "names no execution"),
        ("a/b/c/d", None, None, "names no execution"),
        ("p/d/a1", "q", "d", "is in project p, the command line says q"),
        ("p//a1", None, None, "The domain is empty"),
        ("p/d/..", None, None, "cannot be the name of an execution"),
    ],
)
def test_anything_else_is_refused(text: str, project: str | None, domain: str | None, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_id(text, project, domain)
    assert message in refused.value.message


def test_an_id_is_written_as_a_path_a_resource_and_flags() -> None:
    odd = ExecutionId(project="p", domain="d", name="a b")
    assert odd.path == "executions/p/d/a%20b"
    assert ID.resource == "execution/p/d/a1"
    assert parse_id(ID.resource, None, None) == ID
    assert ID.flags == "a1 -p p -d d"


def test_phases_and_states_are_read_in_any_spelling() -> None:
    assert parse_phase("timed-out", "--phase") == "TIMED_OUT"
    assert parse_state("EXECUTION_ARCHIVED", "--state") == "ARCHIVED"
    assert parse_state("0", "--state") == "ACTIVE"
    assert parse_state("all", "--state", may_be_all=True) == "ALL"
    with pytest.raises(InvalidInput, match="there is no state 'all': choose ACTIVE or ARCHIVED"):
        parse_state("all", "--state")


def execution(**closure: Any) -> Execution:
    return Execution.from_document({"id": ID.document(), "closure": {"created_at": "2026-03-02T11:00:00Z", **closure}})


@pytest.mark.parametrize(
    ("closure", "expected"),
    [
        ({"phase": "QUEUED"}, "1 h"),
        ({"phase": "RUNNING", "started_at": "2026-03-02T11:57:30Z"}, "2 min 30 s"),
        ({"phase": "SUCCEEDED", "started_at": "2026-03-02T11:57:30Z", "duration": 12.7}, "12 s"),
        ({"phase": "ABORTED", "finished_at": "2026-03-02T11:00:05Z"}, "5 s"),
        ({"phase": "QUEUED", "created_at": "2026-03-02T12:00:09Z"}, "0 s"),
        ({"phase": "QUEUED", "created_at": ""}, ""),
    ],
)
def test_how_long_it_ran_or_waits(closure: dict[str, Any], expected: str) -> None:
    assert execution(**closure).elapsed(NOW) == expected


def test_what_was_launched_is_the_launch_plan_or_the_workflow_itself() -> None:
    workflow = {"name": "train", "version": "v1"}
    assert Execution.from_document({"id": ID.document(), "workflow": workflow}).launched == "train (workflow)"
    both = Execution.from_document({"id": ID.document(), "workflow": workflow, "launch_plan": {"name": "nightly"}})
    assert (both.launched, both.version) == ("nightly", "v1")
    assert execution().launched == ""


def test_a_summary_is_the_phase_where_and_why() -> None:
    reason = {"code": "ASSIGNED", "message": "Waits for its cluster."}
    queued = Execution.from_document(
        {"id": ID.document(), "cluster": "a", "closure": {"phase": "QUEUED", "reason": reason}}
    )
    assert queued.summary() == "QUEUED on a (ASSIGNED: Waits for its cluster)"
    assert execution(phase="SUCCEEDED").summary() == "SUCCEEDED"


@pytest.mark.parametrize(
    ("message", "silence", "shown"),
    [
        ("enough", "", "enough"),
        ("enough", "It is silent.", "enough. It is silent."),
        ("enough!", "It is silent.", "enough! It is silent."),
        ("It is silent. Wait.", "It is silent.", "It is silent. Wait."),
        ("", "It is silent.", "It is silent."),
    ],
)
def test_a_message_says_once_that_the_cluster_is_silent(message: str, silence: str, shown: str) -> None:
    document = {"id": ID.document(), "closure": {"reason": {"message": message}}, "silence": silence}
    assert Execution.from_document(document).message == shown


def test_an_older_admin_counts_leases_alone() -> None:
    assert Execution.from_document({"id": ID.document(), "attempt": 3}).attempt_number == 3
    assert Execution.from_document({"id": ID.document(), "attempt": 3, "attempt_number": 1}).attempt_number == 1
