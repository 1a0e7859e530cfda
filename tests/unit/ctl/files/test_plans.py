from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctl.client.errors import InvalidFile
from ctl.files.plans import Plan, read_plan

PLAN = Plan(
    endpoint="http://127.0.0.1:8088",
    made_at="2026-03-01T12:00:00Z",
    made_by="ann",
    revision=12,
    changes=[
        {"resource_type": "TASK_RESOURCE", "domain": "d", "payload": {"limits": {"cpu": "2"}}, "expected_version": 3},
        {"project_definition": {"id": "p", "name": "Ä"}, "expected_absent": True},
    ],
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "week.plan"
    path.write_text(PLAN.text(), encoding="utf-8")
    return path


def test_a_plan_is_read_as_it_was_written(path: Path) -> None:
    assert read_plan(str(path)) == PLAN


def test_how_a_plan_is_laid_out_plays_no_part(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text())))
    assert read_plan(str(path)) == PLAN


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"cpu": "2"', '"cpu": "3"'),
        ('"expected_version": 3', '"expected_version": 4'),
        ("127.0.0.1:8088", "127.0.0.1:8089"),
        ('"revision": 12', '"revision": 12, "more": 1'),
        ('"sha256"', '"sha255"'),
    ],
)
def test_a_plan_changed_by_hand_is_refused(path: Path, before: str, after: str) -> None:
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(InvalidFile, match="changed after it was written"):
        read_plan(str(path))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_a_plan_that_was_cut_off_is_refused(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InvalidFile, match="is an incomplete plan"):
        read_plan(str(path))


@pytest.mark.parametrize("text", ["", "kind: project\nid: p\n", "{}", "[]"])
def test_what_is_no_plan_is_refused_with_the_way_to_apply_it(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(InvalidFile, match=r"is not a plan: documents are applied with `rainbowctl apply -f"):
        read_plan(str(path))


def test_a_plan_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="No such file"):
        read_plan(str(tmp_path / "no.plan"))
