"""`place --fleet`, `--whyNot` and what a cluster's engine ignores: text, JSON and REST tell the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from admin.testing import running_admin
from ctl.main import run

HERE = "-p flytesnacks -d development"
Rainbowctl = Callable[..., str]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_admin() as address:
        yield address


@pytest.fixture
def rainbowctl(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Rainbowctl:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("RAINBOW_ENDPOINT", url)

    def call(line: str, status: int = 0) -> str:
        capsys.readouterr()
        ended = run(line.split())
        printed = capsys.readouterr()
        assert ended == status, printed.err
        return printed.err if status else printed.out

    return call


def rest(url: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"{url}/api/v1/{path}", data, {"Content-Type": "application/json"})) as response:
        return json.load(response)


@pytest.fixture
def fleet(rainbowctl: Rainbowctl, tmp_path: Path) -> Rainbowctl:
    """A pool of one small cluster, a large one and a cordoned one, and one of which nothing is known."""
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "{kind: cluster, name: birch, capacity: {cpu: 2, memory: 8Gi}}\n---\n"
        "{kind: cluster, name: oak, capacity: {cpu: 64, memory: 256Gi}}\n---\n"
        "{kind: cluster, name: elm, capacity: {cpu: 64, memory: 256Gi}}\n---\n"
        "{kind: cluster, name: ash}\n---\n"
        "{kind: pool, name: trees, members: {birch: 1}}\n"
    )
    rainbowctl(f"apply -f {file}")
    state = tmp_path / "state.yaml"
    for name, cpu in (("birch", 2), ("oak", 64), ("elm", 64)):
        state.write_text(f"engine: slurm\ncapacity: {{cpu: {cpu}, memory: 8Gi}}\nfree: {{cpu: {cpu}, memory: 8Gi}}\n")
        rainbowctl(f"update cluster-state {name} --file {state}")
    rainbowctl("cordon elm --reason disks")
    rainbowctl("update task-resource-attribute -d development --set limits.cpu=64")
    return rainbowctl


def rows_of(text: str) -> dict[str, list[str]]:
    """The rows of the table of clusters, unfolded, by their first words."""
    table = re.sub(r"\n {10,}", " ", text.partition("\n\n")[2])
    cells = [re.split(r"  +", line) for line in table.splitlines() if "  " in line]
    return {row[0]: row[1:] for row in cells}


def test_every_cluster_says_when_it_could_run_it_in_text_json_and_rest(fleet: Rainbowctl, url: str) -> None:
    line = f"place e {HERE} --clusterPool trees --cpu 4 --memory 1Gi --fleet"
    refusal = fleet(line.replace(" --fleet", "") + " -- true", status=2)
    assert "'birch' is too small: 2 cpu in all" in refusal
    text = fleet(f"{line} -- true")
    assert [row for row in text.splitlines() if len(row) > 100] == []
    opening = re.sub(r"\s+", " ", text.partition("\n\n")[0])
    assert "flytesnacks/development/e would be refused: No cluster of pool 'trees' is able: 'birch' is too" in opening
    body = {
        "project": "flytesnacks",
        "domain": "development",
        "name": "e",
        "spec": {
            "job": {"command": ["true"], "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}},
            "cluster_assignment": {"cluster_pool_name": "trees"},
        },
        "fleet": True,
    }
    answer, printed = rest(url, "placements", body), json.loads(fleet(f"{line} -o json -- true"))
    age = re.compile(r"\b[0-9]+ s ago")
    assert age.sub("", json.dumps(printed)) == age.sub("", json.dumps(answer))
    rows = rows_of(text)
    assert rows["CLUSTER"] == ["CANDIDATE", "COULD RUN IT", "WHY NOT"]
    entries = {entry["cluster"]: entry for entry in (*answer["candidates"], *answer["not_candidates"])}
    assert {name.removesuffix(" (expected)"): row[1] for name, row in rows.items() if name != "CLUSTER"} == {
        name: entry["could_run"] for name, entry in entries.items()
    }
    assert {name: entries[name]["could_run"] for name in ("birch", "oak", "elm", "ash")} == {
        "birch": "never",
        "oak": "now",
        "elm": "later",
        "ash": "unknown",
    }
    assert rows["oak"][2].startswith("is not in pool 'trees' as defined, revision ")
    assert rows["elm"][2].startswith("is cordoned, event ")
    assert rows["elm"][2].count("is cordoned") == 1
    unknown = rows["ash (expected)"][2]
    assert unknown.startswith("how much cpu and memory it has is not known; is not in pool 'trees' as defined, ")
    assert unknown.endswith("; is expected: no agent of it has ever been seen")
    assert rows["birch"] == ["yes", "never", "is too small: 2 cpu in all, 4 wanted"]
    number = answer["fleet"]["all"]["clusters"]
    assert opening.endswith("of its 1 candidate 1 never could.")
    assert f"Of {number} clusters 1 could run it now, 1 could later, 1 never could and " in opening


def test_as_many_as_a_limit_says_are_shown_and_the_others_counted(fleet: Rainbowctl) -> None:
    line = f"place e {HERE} --clusterPool trees --fleet"
    number = len(rows_of(fleet(f"{line} -- true"))) - 1
    text = fleet(f"{line} --limit 2 -- true")
    assert list(rows_of(text)) == ["CLUSTER", "birch", "oak"]
    assert f"\n{number - 2} clusters more; `-o wide` shows all, `--limit N` as many.\n" in text
    assert len(json.loads(fleet(f"{line} --limit 2 -o json -- true"))["not_candidates"]) == 2
    assert "--limit" in fleet(f"{line} --limit 0 -- true", status=2)
    refusal = fleet(f"place e {HERE} --limit 2 -- true", status=2)
    assert "--limit goes with --fleet" in refusal


def test_where_every_cluster_is_a_candidate_they_are_counted_once(fleet: Rainbowctl) -> None:
    opening = re.sub(r"\s+", " ", fleet(f"place e {HERE} --fleet -- true").partition("\n\n")[0])
    assert opening.endswith("; all are candidates.")


def test_why_not_one_cluster_is_said_first(fleet: Rainbowctl) -> None:
    fleet(f"create execution placed {HERE} --clusterPool trees --cpu 1 --memory 1Gi -- true")
    for line, sentence in (
        (
            f"place e {HERE} --clusterPool trees --cpu 1 --memory 1Gi --whyNot oak -- true",
            "oak' is not a candidate: is",
        ),
        (f"explain execution placed {HERE} --whyNot oak", "oak' was not a candidate. As the fleet is now: is"),
    ):
        text = re.sub(r"\s+", " ", fleet(line).partition("\n\n")[0] + fleet(line).partition("\n\n")[2])
        assert f"luster '{sentence} not in pool 'trees' as defined, revision " in text
        assert "It could run it now if it were a candidate." in text
        flags = line.replace(" -- true", " -o json -- true") if " -- true" in line else f"{line} -o json"
        assert json.loads(fleet(flags))["why_not"]["candidate"] is False
    assert "Did you mean 'oak'?" in fleet(f"explain execution placed {HERE} --whyNot oakk", status=3)
    for line in ("explain all -d development --whyNot oak", "explain access ada executions.read --whyNot oak"):
        assert "--whyNot goes with `rainbowctl explain execution NAME`" in fleet(line, status=2)


def test_a_cluster_shows_which_fields_of_settings_its_engine_ignores(fleet: Rainbowctl, url: str) -> None:
    answer = rest(url, "clusters/oak")["ignored_settings"]
    assert json.loads(fleet("get cluster oak -o json"))["ignored_settings"] == answer
    number = sum(map(len, answer.values()))
    assert f"ignores       {number} fields of settings; `-o wide` lists them\n" in fleet("get cluster oak")
    wide = fleet("get cluster oak -o wide")
    assert re.search(r"\nITS ENGINE IGNORES +FIELD +WHAT BECOMES OF IT\n", wide)
    for field, effect in (
        ("overwrite_cache", "passed to agents; no engine of Rainbow reads it"),
        ("interruptible", "is for jobs of Kubernetes"),
    ):
        assert re.search(rf"\nworkflow-execution-config +{field} +{effect}\n", wide)
    assert re.search(r"\nplugin-override +overrides +decides which clusters may run a job; ", wide)
    assert "execution-queue-attribute" not in wide  # queues are Slurm's partitions
    assert "ignored_settings" not in rest(url, "clusters/ash")
    assert "ignores" not in fleet("get cluster ash")
