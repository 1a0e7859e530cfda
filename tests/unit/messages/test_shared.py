"""Answers are built from the attributes of values."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from admin.core.settings.scopes import Scope
from admin.messages.shared import Answer, ScopeAnswer, encode


@dataclass(frozen=True, kw_only=True)
class Value:
    name: str
    size: int | None = None
    scope: Scope | None = None


class SizeAnswer(Answer):
    name: str
    size: int | None = None
    changed: bool


class PlaceAnswer(ScopeAnswer):
    name: str


def test_fields_are_attributes_by_the_same_names_but_for_those_that_are_given() -> None:
    answer = SizeAnswer.from_attributes(Value(name="a", size=3), size=4, changed=True)
    assert answer == SizeAnswer(name="a", size=4, changed=True)
    assert encode(SizeAnswer.from_attributes(Value(name="a"), changed=False)) == b'{"name":"a","changed":false}\n'


def test_a_field_that_the_value_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match="changed"):
        SizeAnswer.from_attributes(Value(name="a"))


def test_the_keys_of_a_scope_are_those_of_the_value() -> None:
    value = Value(name="a", scope=Scope(domain="development", project="p"))
    assert encode(PlaceAnswer.from_attributes(value)) == b'{"domain":"development","project":"p","name":"a"}\n'
