"""Intents and the state directory: stored before the agent acts, loaded after a crash, by one agent at a time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.files import read_json, write_file
from agent.intents import Ending, Intent, Intents, Stage
from agent.state_directory import StateDirectory, StateError

LEASE: dict[str, Any] = {"id": {"project": "p", "domain": "d", "name": "n"}, "attempt": 2, "job": {"command": ["ü"]}}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    directory = StateDirectory(tmp_path / "state")
    yield directory
    directory.close()


def test_an_intent_is_read_as_it_was_written(state: StateDirectory) -> None:
    intent = Intent(
        lease=LEASE,
        stage=Stage.SUBMITTED,
        native_id="77",
        running_since=12.5,
        ending=Ending.CANCEL,
        ending_message="enough",
        events=[{"event": "e", "type": "RUNNING"}],
        log_offsets={"stdout": 7},
    )
    state.save(intent, is_durable=True)
    assert state.load_intents() == ([intent], [])
    intent.stage = Stage.ENDED
    state.save(intent, is_durable=True)
    assert state.load_intents() == ([intent], [])
    state.remove(intent)
    state.remove(intent)
    assert state.load_intents() == ([], [])


def test_an_intent_of_an_earlier_version_keeps_the_name_of_its_job(state: StateDirectory) -> None:
    intent = Intent(lease={**LEASE, "uid": "0123456789abcdef"}, stage=Stage.SUBMITTED, running_since=1.7e9)
    document = {**intent.to_document(), "format": 1}
    del document["boot"], document["key"]
    (state.path / "intents/rb-old.json").write_text(json.dumps(document))
    (read,), problems = state.load_intents()
    assert (read.key, read.boot, problems) == (Intent(lease=LEASE).key, "", [])
    assert Intents({read.key: read}).find({**LEASE, "uid": "0123456789abcdef"}) is read
    assert Intents({read.key: read}).find({**LEASE, "uid": "fedcba9876543210"}) is None


@pytest.mark.parametrize(
    ("limits", "slots", "seconds"),
    [
        ([600, 60], 2, 50),  # the first that ends
        ([600, 60], 1, 590),  # one more than there are slots
        ([600, 60], 3, 0),
        ([None, 60], 2, 50),
        ([None, 60], 1, 0),  # nobody knows
        ([None], 1, 0),
        ([5], 1, 0),  # over already
        ([], 1, 0),
    ],
)
def test_a_slot_is_free_when_the_time_limits_of_enough_are_over(
    limits: list[float | None], slots: int, seconds: float
) -> None:
    intents = Intents()
    for number, limit in enumerate(limits):
        lease = {**LEASE, "attempt": number, **({} if limit is None else {"time_limit_seconds": limit})}
        intents[str(number)] = Intent(lease=lease, stage=Stage.SUBMITTED, running_since=90.0)
    intents["ended"] = Intent(lease={**LEASE, "time_limit_seconds": 20}, stage=Stage.ENDED, running_since=90.0)
    assert intents.seconds_until_slot(slots, 100.0) == seconds


def test_a_directory_has_one_instance_for_ever(tmp_path: Path) -> None:
    instances = []
    for _ in range(2):
        directory = StateDirectory(tmp_path / "state")
        instances.append(directory.instance)
        directory.close()
    other = StateDirectory(tmp_path / "other")
    other.close()
    assert instances[0] == instances[1] != other.instance
    assert re.fullmatch("[0-9a-f]{16}", other.instance)


@pytest.mark.parametrize("content", [b"", b"x", b"\xff", b"0123456789abcdef0"])
def test_an_unreadable_instance_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "instance").write_bytes(content)
    directory = StateDirectory(tmp_path)
    directory.close()
    assert (tmp_path / "instance").read_text().strip() == directory.instance


@pytest.mark.parametrize("content", [None, "", "x", "x alpha", "12", "12 beta"])
def test_a_position_that_is_unreadable_or_of_another_cluster_is_none(
    state: StateDirectory, content: str | None
) -> None:
    if content is not None:
        (state.path / "position").write_text(content)
    assert state.load_position("alpha") == 0
    state.save_position("alpha", 12)
    assert state.load_position("alpha") == 12


def test_only_the_owner_may_read(state: StateDirectory) -> None:
    state.save(Intent(lease=LEASE), is_durable=True)
    for path in (state.path, *state.path.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"format": 99}', b"\xff"])
def test_an_unreadable_intent_is_renamed_and_reported(state: StateDirectory, content: bytes) -> None:
    intent = Intent(lease=LEASE)
    state.save(intent, is_durable=True)
    bad = state.path / "intents/rb-bad.json"
    bad.write_bytes(content)
    intents, problems = state.load_intents()
    assert intents == [intent]
    assert "rb-bad.json" in problems[0]
    assert state.load_intents() == ([intent], [])
    assert bad.with_suffix(".unreadable").exists()


def test_a_draft_that_a_crash_left_is_ignored(state: StateDirectory) -> None:
    intent = Intent(lease=LEASE)
    state.save(intent, is_durable=True)
    (state.path / f"intents/.{intent.key}.json.new").write_text("half of")
    assert state.load_intents() == ([intent], [])
    state.save(intent, is_durable=True)
    assert state.load_intents() == ([intent], [])


SECOND = """
import sys
from pathlib import Path
from agent.state_directory import StateDirectory, StateError
try:
    StateDirectory(Path(sys.argv[1]))
except StateError as error:
    print(error)
"""


def second_agent(path: Path) -> str:
    """What another process prints when it opens the same directory."""
    return subprocess.run([sys.executable, "-c", SECOND, str(path)], capture_output=True, text=True, check=True).stdout


def test_only_one_agent_uses_a_state_directory(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    assert "another agent uses" in second_agent(tmp_path)
    with pytest.raises(StateError, match="another agent uses"):
        StateDirectory(tmp_path)
    state.close()
    assert second_agent(tmp_path) == ""


def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="stateDirectory"):
        StateDirectory(tmp_path / "file/state")


def test_renewals_count_within_one_boot(state: StateDirectory) -> None:
    assert state.load_renewal("boot") is None
    state.save_renewal("boot", 12.5, 60)
    assert state.load_renewal("boot") == (12.5, 60.0)
    assert state.load_renewal("other") is None


def test_a_durable_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, b"long content")
    write_file(path, b"{}", mode=0o640)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"{}", 0o640)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert read_json(path) == {}
    assert read_json(tmp_path / "absent") is None
