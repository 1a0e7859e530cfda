"""Ranking: rules applied to the clusters that are able otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from admin.core.placement.candidates import Candidate, Workload
from admin.core.placement.constraints.expressions import Evaluator, Expression, ExpressionError, Value
from admin.core.placement.constraints.facts import Subject, read_facts, why_false
from admin.core.placement.constraints.rules import CALCULATE, FILTER, FIRST, SORT, Rules
from admin.core.problems import shorten
from admin.core.resources import Amounts

#: What stands before the values in the reason of a filter.
VALUES = ", where "
#: Names whose values are told beside a filter that a cluster does not pass.
_MOST_TOLD = 4


class Ranking(NamedTuple):
    """What rules make of candidates, by their positions."""

    dropped: Mapping[int, str]  #: why
    order: Mapping[int, float]  #: the rank of the others, the best first
    values: Mapping[int, Mapping[str, Value]]  #: what was calculated and sorted by


def rank(rules: Rules, candidates: Sequence[Candidate], workload: Workload, waiting: Mapping[str, Amounts]) -> Ranking:
    """Apply rules to candidates, each for itself; one that has no value for a rule is dropped with the reason."""
    names, dropped, evaluator = rules.names, dict[int, str](), Evaluator()
    values: dict[int, dict[str, Value]] = {}
    keys: dict[int, list[tuple[int, Value]]] = {}
    for candidate in candidates:
        subject = Subject(candidate, workload, waiting)
        facts = read_facts(names, subject)
        told: dict[str, Value] = {}
        sort_keys: list[tuple[int, Value]] = []
        for step in rules.steps:
            try:
                if step.kind == FILTER:
                    if not evaluator.truth(step.expression, facts):
                        shown = _values(step.expression, facts, subject)
                        dropped[candidate.position] = f"rule {step.number}: {step.expression.text} is false{shown}"
                        break
                    continue
                value = evaluator.value(step.expression, facts)
            except ExpressionError as error:
                what = f"{step.name}: " if step.kind == CALCULATE else ""
                dropped[candidate.position] = f"rule {step.number}: {what}{error}"
                break
            told[step.name or step.expression.text] = value
            if step.kind == CALCULATE:
                facts[step.name] = value
            elif step.kind == SORT:
                sort_keys.append((_TYPE_ORDER[type(value)], value))
        else:
            values[candidate.position], keys[candidate.position] = told, sort_keys
    return Ranking(dropped, _order(rules, keys), values)


#: Values of different types stand in this order.
_TYPE_ORDER: Mapping[type, int] = {bool: 0, int: 1, float: 1, str: 2}


def _values(expression: Expression, facts: Mapping[str, Value | None], subject: Subject) -> str:
    """The values by which a filter does not hold: `, where nodes_free is 0`."""
    told = [_told(name, facts.get(name), subject) for name in expression.names[:_MOST_TOLD]]
    return f"{VALUES}{' and '.join(told)}" if told else ""


def _told(name: str, value: Value | None, subject: Subject) -> str:
    reason = why_false(name, subject) if value is False else ""
    return f"it {reason}" if reason else f"{name} is {show_value(value)}"


def show_value(value: Value | None) -> str:
    """A value as messages show it."""
    match value:
        case None:
            return "not known"
        case bool():
            return "true" if value else "false"
        case str():
            return f"'{shorten(value, 40)}'"
    return f"{value:.6g}" if abs(value) < 1e15 else str(value)


def _order(rules: Rules, keys: Mapping[int, Sequence[tuple[int, Value]]]) -> dict[int, float]:
    """The rank of each position by its values of the sorts, the first of which counts most; equal ones share it."""
    ordered = sorted(keys)
    for index, step in reversed(list(enumerate(rules.sorts))):
        ordered.sort(key=lambda position: keys[position][index], reverse=step.descending)
    ranks: dict[int, float] = {}
    for place, position in enumerate(ordered):
        before = ordered[place - 1] if place else None
        is_equal = before is not None and keys[before] == keys[position] and rules.pick != FIRST
        ranks[position] = ranks[before] if is_equal and before is not None else float(place)
    return ranks
