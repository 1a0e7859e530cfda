from __future__ import annotations

from itertools import pairwise

import pytest

from admin.core.graph.versions import Version, is_at_least, parse_version

#: Each line in its order, the lowest first.
ORDERED = [
    ["0.9", "0.10", "1", "1.0.1", "1.2", "1.10", "2.0.0.1"],
    ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1"],
    ["4.0", "4.1.0.dev2", "4.1.0a1", "4.1.0b2", "4.1.0rc1", "4.1.0rc2", "4.1.0rc10", "4.1", "4.1.0.post1", "4.1.1"],
    ["1.0~rc1-1", "1.0-1", "1.1"],
    ["1.1.1", "1.1.1a", "1.1.1w", "1.1.1.1"],
    ["9.2", "9.2p1", "9.2p2", "9.2p10", "9.3"],
    ["2.34-7.el9", "2.34-60.el9", "2.34-60.el9.1", "2.34-100.el9", "2.35-1.el9"],
    ["2.36-9+deb12u3", "2.36-10", "1:0.1-1"],
    ["5.15.0-91-generic", "5.15.0-101-generic"],
    ["1.0.0-SNAPSHOT", "1.0.0-alpha", "1.0.0-x.7", "1.0.0"],
    ["8u372", "8u1000", "11.0.20+8"],
    ["535.54.03", "535.104.05"],
]
EQUAL = [
    ("2", "2.0.0"),
    ("v2.0", "2.0"),
    ("V2.0", "2.0"),
    ("1.2.3+build5", "1.2.3"),
    ("1.2.3+build5", "1.2.3+build6"),
    ("2.34-60.el9", "2.34"),
    ("2.0.0-rc.1", "2.0rc1"),
    ("2.0.0-RC1", "2.0.0-rc.1"),
    ("1.0c2", "1.0rc2"),
    ("11.8", "11.8.0"),
    ("1.0", "1.0-1"),
]


def version(text: str) -> Version:
    parsed = parse_version(text)
    assert parsed is not None, text
    return parsed


@pytest.mark.parametrize("texts", ORDERED, ids=lambda texts: texts[0])
def test_versions_are_in_the_order_that_one_expects(texts: list[str]) -> None:
    for lower, higher in pairwise(texts):
        assert is_at_least(version(higher), version(lower)), (lower, higher)
        assert not is_at_least(version(lower), version(higher)), (lower, higher)


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_some_are_the_same(first: str, second: str) -> None:
    assert is_at_least(version(first), version(second))
    assert is_at_least(version(second), version(first))


@pytest.mark.parametrize(
    "text", ["", "v", "latest", "rc1", "1 2", "1..2", "1.2.x", "1.*", ".5", "a1.2", "1" * 300, "1:", "²"]
)
def test_what_is_no_version(text: str) -> None:
    assert parse_version(text) is None
