"""The description of a cluster: what engines make of their machines, and when the agent sends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.matching import Matcher
from admin.core.graph.summaries import summarize
from agent.describer import Describer
from agent.engines.base import EngineUnavailable
from agent.engines.graphs import GraphBuilder
from agent.engines.safe import SafeEngine
from agent.engines.slurm.descriptions import describe
from agent.testing import FakeClock, FakeEngine
from ctl.client.errors import ClientError, NotFound, Unreachable

NODE = {
    "NodeName": "n1",
    "State": "IDLE",
    "CPUTot": "16",
    "CPUEfctv": "16",
    "Sockets": "2",
    "CoresPerSocket": "8",
    "RealMemory": "64000",
    "Gres": "gpu:a100:2(S:0),gpu:v100:1,shard:8",
    "AvailableFeatures": "avx512,ib",
    "Partitions": "all,gpu",
    "Arch": "x86_64",
}
PARTITIONS = [{"PartitionName": "all", "Default": "YES"}, {"PartitionName": "gpu", "Default": "NO"}]


def fits(description: dict[str, Any], requires: list[dict[str, Any]], **requests: str) -> bool:
    graph = read_description(description, description.get("subsystems"))
    return Matcher(request_of({"requires": requires, "resources": {"requests": requests}})).fits(graph)


def test_nodes_of_slurm_have_sockets_cores_memory_gpus_and_features() -> None:
    plain = {"NodeName": "n2", "State": "DOWN", "CPUTot": "3", "Sockets": "2", "RealMemory": "1000", "Gres": "(null)"}
    future = {"NodeName": "n3", "State": "FUTURE", "CPUTot": "3"}
    description = describe("red", [plain, NODE, future], PARTITIONS)
    assert description is not None
    summary = summarize(read_description(description, description["subsystems"]))
    assert summary.vertices == {"cluster": 1, "node": 2, "socket": 2, "core": 3, "memory": 2, "gpu": 2}
    assert (summary.totals["core"], summary.totals["gpu"], summary.totals["memory"]) == (19_000, 3, 65_000 << 20)
    assert fits(description, [{"name": "cluster", "field": "properties.avx512", "match": True}], cpu="16")
    assert fits(description, [{"name": "cluster", "field": "arch", "match": "x86_64"}], gpu="3")
    assert fits(description, [{"name": "partition", "field": "name", "match": "gpu"}], cpu="16")
    assert not fits(description, [{"name": "partition", "field": "name", "match": "none"}], cpu="1")
    assert describe("red", [future], PARTITIONS) is None


class Admin:
    """What an agent sends descriptions to."""

    def __init__(self) -> None:
        self.sent: list[Mapping[str, Any]] = []
        self.error: ClientError | None = None
        self.digest = "d1"

    def put(self, path: str, body: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        assert path == "clusters/red/description"
        if self.error is not None:
            raise self.error
        self.sent.append(body)
        return {"note": "The description that otto set stays.", "description": {"digest": self.digest}}


class DescribedEngine(FakeEngine):
    """An engine whose machines can change."""

    description: dict[str, Any] | None = None
    problem: EngineUnavailable | None = None

    def graph(self) -> dict[str, Any] | None:
        if self.problem is not None:
            raise self.problem
        return self.description


def describer(engine: DescribedEngine, admin: Admin, clock: FakeClock) -> Describer:
    return Describer("red", SafeEngine(engine), admin, clock=clock, run=lambda send: send())  # type: ignore[arg-type]


def test_a_description_is_sent_at_first_and_when_it_changes() -> None:
    engine, admin, clock = DescribedEngine(), Admin(), FakeClock()
    sender = describer(engine, admin, clock)
    sender.step()
    assert admin.sent == []
    engine.description = {"graph": 1}
    clock.advance(61)
    for _ in range(3):
        sender.step()
        clock.advance(61)
    assert admin.sent == [{"graph": 1}]
    engine.description = {"graph": 2}
    sender.step()
    assert admin.sent == [{"graph": 1}, {"graph": 2}]
    engine.problem = EngineUnavailable("down")
    clock.advance(61)
    sender.step()
    assert len(admin.sent) == 2


def test_a_description_that_is_the_same_is_compared_outside_the_loop() -> None:
    engine, admin, clock = DescribedEngine(), Admin(), FakeClock()
    engine.description = {"graph": 1}
    calls: list[Any] = []
    sender = Describer("red", SafeEngine(engine), admin, clock=clock, run=calls.append)  # type: ignore[arg-type]
    for number in range(3):
        sender.step()
        assert (len(calls), sender.is_busy, len(admin.sent)) == (number + 1, True, min(number, 1))
        sender.step()  # while that goes on
        calls[-1]()
        assert not sender.is_busy
        clock.advance(61)
    assert len(admin.sent) == 1


def test_pools_of_one_vertex_have_ids_of_their_own() -> None:
    graph = GraphBuilder("red")
    node = graph.add_node("n1", {})
    for model in ("a100", "v100", "t4"):
        graph.add_pool(node, "gpu", 1, model=model)
    graph.add_pool(node, "gpus", 1, model="none")
    graph.add_pool(node, "gpu", 0, model="k80")
    nodes = graph.document()["graph"]["nodes"]
    assert [id_.partition("/")[2] for id_ in nodes][2:] == ["gpu", "gpu1", "gpu2", "gpus"]


@pytest.mark.parametrize(
    ("error", "is_tried_again"),
    [(Unreachable("no answer"), True), (NotFound("no path", name="path_not_found", status=404), False)],
)
def test_a_description_that_was_not_stored_is_sent_again_but_not_to_an_older_admin(
    error: ClientError, is_tried_again: bool
) -> None:
    engine, admin, clock = DescribedEngine(), Admin(), FakeClock()
    engine.description = {"graph": 1}
    sender = describer(engine, admin, clock)
    admin.error = error
    sender.step()
    admin.error = None
    clock.advance(61)
    sender.step()
    assert bool(admin.sent) is is_tried_again


@pytest.mark.parametrize(
    ("stored", "sends"), [("", 2), ("d0", 2), ("d1", 1), (None, 1)], ids=["removed", "another", "same", "older admin"]
)
def test_a_description_is_sent_again_where_the_admin_has_another_or_none(stored: str | None, sends: int) -> None:
    engine, admin, clock = DescribedEngine(), Admin(), FakeClock()
    engine.description = {"graph": 1}
    sender = describer(engine, admin, clock)
    sender.step()
    sender.stored = stored
    clock.advance(61)
    sender.step()
    sender.stored = "d1" if stored is not None else None
    clock.advance(61)
    sender.step()
    assert len(admin.sent) == sends
