"""What a dry run says of executions that would be ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ctl.client.errors import ClientError, Conflict, NotFound
from ctl.client.executions import ExecutionId
from ctl.commands.executions.delete import _delete_named, _note_outcome, _note_silent


def dry_run(*answers: Any, give_up: bool = False) -> list[str]:
    """What is printed for the answers of an admin to dry runs, one for each execution."""
    notes: list[str] = []
    remaining = iter(answers)

    def terminate_execution(_: ExecutionId, *, dry_run: bool, **__: Any) -> Any:
        assert dry_run
        answer = next(remaining)
        if isinstance(answer, ClientError):
            raise answer
        return {"id": {"project": "p", "domain": "d", "name": "e"}, "dry_run": True, **answer}

    printer = SimpleNamespace(note=notes.append, machine_output=lambda *_: None)
    session: Any = SimpleNamespace(client=SimpleNamespace(terminate_execution=terminate_execution), printer=printer)
    ids = [ExecutionId(project="p", domain="d", name=f"e{number}") for number in range(len(answers))]
    try:
        _delete_named(session, ids, {"dry_run": True, "give_up": give_up, "force": False, "cause": None})
    finally:
        assert notes.pop(0) == "Dry run: nothing was ended."
    return notes


@pytest.mark.parametrize(
    ("answer", "effect"),
    [
        ({"phase": "QUEUED", "changed": True, "phase_after": "ABORTED"}, "would be ended."),
        (
            {"phase": "RUNNING", "changed": True, "phase_after": "ABORTING"},
            "would be ended: ABORTING until its agent confirms.",
        ),
        (
            {"phase": "RUNNING", "changed": True, "phase_after": "ABORTING", "message": "Silent since 9 s ago."},
            "would be ended: ABORTING until its agent confirms. Silent since 9 s ago.",
        ),
        ({"phase": "ABORTING", "changed": False}, "is being ended already."),
        (
            {"phase": "ABORTING", "changed": False, "message": "Silent since 9 s ago."},
            "is being ended already. Silent since 9 s ago.",
        ),
        ({"phase": "FAILED", "changed": False}, "has ended already."),
    ],
)
def test_a_dry_run_says_whether_an_agent_must_confirm_the_end(answer: dict[str, Any], effect: str) -> None:
    assert dry_run(answer) == [f"Execution p/d/e0 is {answer['phase']}: it {effect}"]


def test_a_dry_run_of_giving_up_says_what_the_admin_answers() -> None:
    [note] = dry_run({"phase": "RUNNING", "changed": True, "phase_after": "FAILED"}, give_up=True)
    assert "it would be given up, and FAILED, though nobody has confirmed" in note
    [note] = dry_run({"phase": "FAILED", "changed": False}, give_up=True)
    assert note == "Execution p/d/e0 is FAILED: it has ended already."
    with pytest.raises(Conflict, match="cannot be given up"):
        dry_run(Conflict("Execution 'e0' cannot be given up.", name="not_silent"), give_up=True)


def test_a_dry_run_tells_of_the_others_where_some_are_refused() -> None:
    with pytest.raises(NotFound) as refused:
        dry_run(NotFound("No execution is called 'e0'."), {"phase": "FAILED", "changed": False})
    assert refused.value.message == "1 of 2 executions could not be ended: No execution is called 'e0'."


@pytest.mark.parametrize(
    "silence", [{"silent_since": "2026-03-04T12:00:00Z", "message": "Silent."}, {"message": "Silent."}]
)
def test_an_agent_that_is_silent_is_not_said_to_have_been_asked(silence: dict[str, Any]) -> None:
    notes: list[str] = []
    session: Any = SimpleNamespace(printer=SimpleNamespace(note=notes.append))
    id = ExecutionId(project="p", domain="d", name="e")
    outcome: dict[str, Any] = {"phase": "ABORTING", "changed": True}
    _note_outcome(session, id, outcome, is_given_up=False)
    _note_outcome(session, id, {**outcome, **silence}, is_given_up=False)
    assert notes == [
        "Asked the agent that has execution p/d/e to end it: it is ABORTING until that confirms.",
        "Execution p/d/e is ABORTING: its agent is silent, and will be told to end it when it is heard again. Silent.",
    ]


@pytest.mark.parametrize(("number", "them"), [(0, None), (1, "its agent is"), (2, "their agents are")])
def test_of_many_those_with_silent_agents_are_counted(number: int, them: str | None) -> None:
    notes: list[str] = []
    session: Any = SimpleNamespace(printer=SimpleNamespace(note=notes.append))
    silent = [{"silent_since": "2026-03-04T12:00:00Z"}] * number
    _note_silent(session, [*silent, {"phase": "RUNNING"}], "would be told when heard again")
    then = "would be told when heard again; --giveUp ends such an execution without its agent."
    assert notes == ([] if them is None else [f"{number} of them: {them} silent, and {then}"])
