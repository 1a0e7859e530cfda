from __future__ import annotations

import pytest

from admin.core.problems import closest, list_first


@pytest.mark.parametrize(
    ("word", "names", "near"),
    [
        ("e-2", ["e-1", "train"], ("e-1",)),
        ("e2", ["e1", "f2", "train"], ("e1", "f2")),
        ("jab", ["job", "train"], ("job",)),
        ("ain", ["nightly-training-of-models"], ("nightly-training-of-models",)),
        ("tr", ["train", "xtr-long-name"], ("train",)),
        ("e9", ["train"], ()),
        ("zzz", ["e-1", "job"], ()),
        ("x", ["y", "xyz"], ()),
    ],
)
def test_short_words_have_close_ones_too(word: str, names: list[str], near: tuple[str, ...]) -> None:
    assert closest(word, names) == near


def test_the_first_of_many_are_listed_and_the_others_counted() -> None:
    assert list_first(["a", "b", "c"], 3) == "a, b, c"
    assert list_first(["a", "b", "c"], 1) == "a and 2 more"
    assert list_first(["a", "b"], 5, count=6, separator="; ") == "a; b and 4 more"
    assert list_first([], 2) == ""
