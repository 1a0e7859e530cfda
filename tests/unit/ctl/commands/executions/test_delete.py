"""What a dry run says of executions that would be ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ctl.client.errors import Conflict
from ctl.client.executions import Execution
from ctl.commands.executions.delete import _delete_named

ID = {"project": "p", "domain": "d", "name": "e"}
LEASE = "2026-03-01T12:00:00Z"


def dry_run(phase: str, *, give_up: bool = False, matched: int = 1, **fields: Any) -> list[str]:
    notes: list[str] = []
    document = {"id": ID, "closure": {"phase": phase}, **fields}
    client = SimpleNamespace(execution=lambda _: document, terminate_executions=lambda *_, **__: {"matched": matched})
    printer = SimpleNamespace(note=notes.append, machine_output=lambda *_: None)
    session: Any = SimpleNamespace(client=client, printer=printer)
    _delete_named(session, [Execution.from_document(document).id], {"dry_run": True, "give_up": give_up})
    assert notes.pop(0) == "Dry run: nothing was ended."
    return notes


@pytest.mark.parametrize(
    ("phase", "fields", "effect"),
    [
        ("QUEUED", {}, "would be ended."),
        ("RUNNING", {"lease_expires_at": LEASE}, "would be ended: ABORTING until its agent confirms."),
        (
            "RUNNING",
            {"lease_expires_at": LEASE, "silence": "Silent since 9 s ago."},
            "would be ended: ABORTING until its agent confirms (Silent since 9 s ago).",
        ),
        ("ABORTING", {"lease_expires_at": LEASE}, "is being ended already."),
        ("FAILED", {}, "has ended already."),
    ],
)
def test_a_dry_run_says_whether_an_agent_must_confirm_the_end(phase: str, fields: dict[str, Any], effect: str) -> None:
    assert dry_run(phase, **fields) == [f"Execution p/d/e is {phase}: it {effect}"]


def test_a_dry_run_of_giving_up_is_refused_where_the_command_is() -> None:
    with pytest.raises(Conflict, match="cannot be given up: its agent has a lease"):
        dry_run("RUNNING", give_up=True, matched=0, lease_expires_at=LEASE)
    with pytest.raises(Conflict, match="cannot be given up: no agent has it"):
        dry_run("QUEUED", give_up=True, matched=0)
    [note] = dry_run("RUNNING", give_up=True, lease_expires_at=LEASE)
    assert "it would be given up, and FAILED, though nobody has confirmed" in note
    assert dry_run("FAILED", give_up=True, matched=0) == ["Execution p/d/e is FAILED: it has ended already."]
