from __future__ import annotations

import pytest

from ctl.client.words import did_you_mean, flags, fold, listed, nearest, parse_pair, spellings


@pytest.mark.parametrize("word", ["launch_plan", "launchPlan", "launch-plan", "LaunchPlan", "launchplan"])
def test_spellings_of_one_word_fold_to_the_same(word: str) -> None:
    assert fold(word) == "launchplan"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("value", ["value"]),
        ("cluster_pool_name", ["cluster_pool_name", "cluster-pool-name", "clusterPoolName"]),
        ("a_b.c_d", ["a_b.c_d", "a-b.c-d", "aB.cD"]),
    ],
)
def test_a_path_is_spelled_in_three_ways(path: str, expected: list[str]) -> None:
    assert spellings(path) == expected


def test_flags_in_camel_case_get_a_kebab_twin() -> None:
    assert flags("attrFile", "force") == ["--attrFile", "--attr-file", "--force"]


@pytest.mark.parametrize(
    ("word", "close"),
    [
        ("projetc", ["project"]),
        ("cluster-label", ["execution-cluster-label"]),
        ("prio", ["workflow-priority"]),
        ("zzz", []),
        ("", []),
    ],
)
def test_the_nearest_words_are_found(word: str, close: list[str]) -> None:
    assert nearest(word, ["project", "domain", "execution-cluster-label", "workflow-priority"]) == close


def test_nothing_is_suggested_where_nothing_is_close() -> None:
    assert did_you_mean("zzz", ["project"]) == ""
    assert did_you_mean("colour", ["cluster"]) == ""


@pytest.mark.parametrize(
    ("words", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_words_are_listed_as_in_a_sentence(words: list[str], text: str) -> None:
    assert listed(words) == text


@pytest.mark.parametrize("text", ["", "x", "=x"])
def test_a_pair_needs_a_key_and_an_equals_sign(text: str) -> None:
    with pytest.raises(ValueError, match="must be KEY=VALUE"):
        parse_pair(text)
