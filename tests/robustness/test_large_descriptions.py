"""Descriptions that are large and say nothing: refused, within a bounded amount of memory and time."""

from __future__ import annotations

import resource

import pytest

from admin.core.json_text import json_text
from admin.core.problems import Invalid
from admin.errors import BodyTooLarge, Busy
from admin.services import description_bodies
from tests.support.small_graphs import cluster_document


def test_one_that_is_small_as_text_and_large_in_memory_is_refused() -> None:
    """200 MiB of empty lists, of which each takes twenty times its text."""
    raw = b'{"graph":{"nodes":[' + b"[]," * (200 * 2**20 // 3) + b'[]],"edges":[]}}'
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with pytest.raises(BodyTooLarge, match=r"takes more than 2\.8 GiB of memory: give equal vertices once"):
        description_bodies.read_sent(raw, None, 1_000_000)
    assert max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) < 3 * 2**20  # KiB


def test_one_of_many_vertices_has_the_memory_that_it_needs() -> None:
    raw = json_text(cluster_document(1000, 64, 8))
    assert len(raw) > description_bodies.LARGE_BYTES
    sent = description_bodies.read_sent(raw, None, 1_000_000)
    assert sent.compiled.inventory["types"]["core"]["vertices"] == 64_000


def test_one_of_too_many_vertices_that_say_little_is_refused_for_their_number() -> None:
    nodes = {f"n{number}": {"metadata": {"type": "core"}} for number in range(400_000)}
    with pytest.raises(Invalid, match="400,000 vertices are more than 300,000"):
        description_bodies.read_sent(json_text({"graph": {"nodes": nodes, "edges": []}}), None, 300_000)


def test_one_that_takes_too_long_is_ended_and_others_wait_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = json_text(cluster_document(1000, 64, 8))
    monkeypatch.setattr(description_bodies, "_MOST_SECONDS", 0.2)
    with pytest.raises(BodyTooLarge, match=r"takes longer than 0\.2 s"):
        description_bodies.read_sent(raw, None, 1_000_000)
    with description_bodies._TURN, pytest.raises(Busy, match="Other large descriptions are being read"):
        description_bodies.read_sent(raw, None, 1_000_000)
