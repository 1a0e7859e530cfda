"""The forms of a noun."""

from __future__ import annotations

import pytest

from ctl.client.nouns import FLEET, collection, find_noun, json_key, noun_of, plural, row_kind


def test_a_noun_of_two_words_has_a_form_for_each_place() -> None:
    noun = "spare-part"
    assert (plural(noun), json_key(noun), collection(noun)) == ("spare-parts", "spare_part", "spare_parts")
    assert (row_kind(noun), noun_of(row_kind(noun))) == ("SPARE_PART", noun)


@pytest.mark.parametrize(
    ("word", "noun"), [("pool", "pool"), ("Pools", "pool"), ("CLUSTER", "cluster"), ("labels", "label"), ("x", None)]
)
def test_a_part_of_the_fleet_is_named_in_singular_and_plural(word: str, noun: str | None) -> None:
    assert find_noun(word, FLEET) == noun


@pytest.mark.parametrize("word", ["spare-part", "spare_parts", "sparePart", "SPARE_PART"])
def test_a_noun_is_found_in_any_spelling(word: str) -> None:
    assert find_noun(word, [*FLEET, "spare-part"]) == "spare-part"
