"""What is free on the nodes of a Slurm cluster, as jobs start and end."""

from __future__ import annotations

import pytest

from agent.engines.slurm.commands import NativeJob
from agent.engines.slurm.nodes import Room

NODE = {"State": "IDLE", "CPUTot": "8", "RealMemory": "16384", "Gres": "gpu:a100:2", "CPUAlloc": "0", "AllocMem": "0"}
EMPTY = {"cpu": "16", "memory": "32768Mi", "gpu": "4", "nodes": 2}


@pytest.fixture
def room() -> Room:
    room = Room()
    assert room.free() is None
    capacity, free = room.show([{**NODE, "NodeName": "n1"}, {**NODE, "NodeName": "n2"}])
    assert capacity == free == EMPTY
    return room


def start(room: Room, id: str, allocated: str, *nodes: str) -> None:
    room.note(NativeJob(id, "k", "RUNNING", allocated=allocated), nodes, is_running=True)


def test_what_started_since_the_nodes_were_shown_is_not_free(room: Room) -> None:
    start(room, "1", "cpu=4,mem=2G,node=1,billing=4,gres/gpu=1", "n1")
    assert room.free() == {"cpu": "12", "memory": "30720Mi", "gpu": "3", "nodes": 1}
    start(room, "1", "cpu=4,mem=2G,node=1,billing=4,gres/gpu=1", "n1")
    start(room, "2", "cpu=2,mem=512M,node=1", "n1")
    assert room.free() == {"cpu": "10", "memory": "30208Mi", "gpu": "3", "nodes": 1}
    room.note(NativeJob("1", "k", "COMPLETED"), ("n1",), is_running=False)
    room.forget("2")
    room.forget("never")
    assert room.free() == EMPTY


def test_gpus_that_are_counted_by_type_alone_are_not_free_either(room: Room) -> None:
    start(room, "1", "cpu=1,mem=1G,node=1,gres/gpu:a100=2,gres/gpu:v100=1", "n1")
    start(room, "2", "cpu=1,mem=1G,node=1,gres/gpu=1,gres/gpu:a100=1", "n1")
    free = room.free()
    assert free is not None
    assert free["gpu"] == "0"


def test_what_ran_when_the_nodes_were_shown_counts_once(room: Room) -> None:
    start(room, "1", "cpu=8,mem=16G,node=1", "n1")
    taken = {**NODE, "NodeName": "n1", "State": "ALLOCATED", "CPUAlloc": "8", "AllocMem": "16384"}
    _, free = room.show([taken, {**NODE, "NodeName": "n2"}])
    assert room.free() == free == {"cpu": "8", "memory": "16384Mi", "gpu": "4", "nodes": 1}


@pytest.mark.parametrize(
    ("memory", "left"), [("1.50G", 31232), ("1T", 0), ("1536K", 32766), ("100", 32668), ("", 32768), ("odd", 32768)]
)
def test_memory_is_read_in_each_unit_of_slurm(room: Room, memory: str, left: int) -> None:
    start(room, "1", f"cpu=1,mem={memory},node=1", "n1")
    free = room.free()
    assert free is not None
    assert (free["cpu"], free["memory"]) == ("15", f"{left}Mi")
