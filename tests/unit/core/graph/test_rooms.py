"""What is free of a machine node by node, and who has a place there."""

from __future__ import annotations

from typing import Any

from admin.core.graph.descriptions import read_description
from admin.core.graph.job_requests import request_of
from admin.core.graph.machines import Machines
from admin.core.graph.memory import MemoryBackend
from admin.core.graph.request_texts import read_request, write_request
from admin.core.graph.rooms import Room, asked_in, asked_key
from tests.support.descriptions import pooled


def asks(cpu: str, **resources: Any) -> str:
    return write_request(request_of({"resources": {**resources, "requests": {"cpu": cpu}}}))


def room(nodes: int, cores: int, **reported: dict[str, Any]) -> Room:
    machines = Machines(MemoryBackend())
    return Room(machines.add("a", read_description(pooled(nodes, cores))), reported)


def test_a_job_has_a_place_beside_those_that_were_assigned() -> None:
    free = room(3, 4, n1={"cpu": "1"}, n2={"closed": True}, n9={"cpu": "0"})
    assert free.lacks({}, asks("4")) == ""
    assert free.lacks({asks("4"): 1}, asks("1")) == ""
    nothing = "cores: needs 1 on one node, the most free on one node is none"
    assert free.lacks({asks("4"): 1, asks("1"): 1}, asks("1")) == nothing
    assert free.lacks({}, asks("5")) == "cores: needs 5 on one node, the most free on one node is 4"
    assert free.lacks({asks("4"): 2}, asks("1")).startswith("what was assigned there")


def test_jobs_are_packed_anew_where_their_order_was_unlucky() -> None:
    two = room(2, 4)
    # One by one, 2 and 2 may come to lie on two nodes; 4 needs them on one.
    assert two.lacks({asks("2"): 2}, asks("4")) == ""
    assert two.lacks({asks("2"): 2, asks("4"): 1}, asks("1")) != ""


def test_what_has_the_fewest_places_gets_one_first() -> None:
    document = pooled(2, 4)
    document["graph"]["nodes"]["n2-core"]["metadata"]["size"] = 2
    machines = Machines(MemoryBackend())
    two = Room(machines.add("a", read_description(document)), {"n1": {"cpu": "3"}})
    alone = asks("1", exclusive=True)
    # A core for the other lies on n2, where less is free, unless the exclusive job takes n2, the only idle node.
    assert two.lacks({asks("1"): 1}, alone) == ""
    assert two.lacks({alone: 1}, asks("3")) == ""
    assert two.lacks({alone: 1}, alone) != ""


def test_an_answer_is_given_though_another_thread_forgets_all_meanwhile() -> None:
    class Forgotten(dict[Any, Any]):
        """As if all were forgotten right after something was kept."""

        def __setitem__(self, key: Any, value: Any) -> None:
            free._left = {}

    graph = read_description(pooled(1, 4))
    backend = MemoryBackend()
    backend.put("a", Machines(backend).add("a", graph).graph)
    free = backend.free("a", {}, [])
    free._left = Forgotten(free._left)
    assert free.shortages(read_request(asks("4")), {}) == ()


def test_what_jobs_ask_for_is_counted_beside_amounts() -> None:
    taken = {"cpu": 2000, asked_key("x"): 2, asked_key("y"): 0}
    assert asked_in(taken) == {"x": 2}
