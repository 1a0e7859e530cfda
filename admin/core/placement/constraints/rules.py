"""Rules: what a pool's definition or a request says of how to choose, checked when it is stored and prepared once."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from admin.core.fields.compounds import DictOf, ListOf, Record
from admin.core.fields.leaves import Boolean, Choice, Text
from admin.core.json_text import JsonObject, json_value
from admin.core.placement.constraints.expressions import (
    FUNCTIONS,
    MOST_CHARACTERS,
    Evaluator,
    Expression,
    ExpressionError,
    Value,
    WrongType,
    divides_by_zero,
    misplaces_list,
    read_expression,
    type_of,
)
from admin.core.placement.constraints.facts import (
    BOOLEAN,
    CLUSTER_FACTS,
    LABELS,
    NUMBER,
    PARAMETERS,
    PROPERTIES,
    TEXT,
    TYPES,
    property_of,
)
from admin.core.problems import Path, Problem, dotted, unknown_problem

FILTER, CALCULATE, SORT, PICK = "filter", "calculate", "sort", "pick"
FIRST, WEIGHTED, RANDOM = "first", "weighted", "random"
MOST_RULES = 20
MOST_CALCULATED = 10

_EXPRESSION = Text(max_length=MOST_CHARACTERS, description="An expression over the cluster and the job.")
RULES = ListOf(
    unique=False,
    max_items=MOST_RULES,
    description="What clusters are filtered and sorted by, in this order, for constraint.",
    item=Record(
        fields={
            FILTER: _EXPRESSION,
            CALCULATE: DictOf(
                key=Text(pattern=r"[a-z_][a-z0-9_]*", rule="a word of a-z, 0-9 and _", max_length=64),
                value=_EXPRESSION,
                max_entries=MOST_CALCULATED,
                description="Names for values that later rules use.",
            ),
            SORT: _EXPRESSION,
            "descending": Boolean(description="Whether the largest of a sort is best; false."),
            PICK: Choice(words=(FIRST, WEIGHTED, RANDOM), description="Which of the best is taken; weighted."),
        }
    ),
)


class Step(NamedTuple):
    """One expression of the rules."""

    number: int  #: of its rule, from 1
    kind: str
    name: str  #: of what is calculated; "" for the others
    expression: Expression
    descending: bool = False

    @property
    def field(self) -> Path:
        """Where it stands in the list of rules."""
        return (str(self.number - 1), self.kind, *([self.name] if self.name else []))


@dataclass(frozen=True)
class Rules:
    """Rules that were read: never changed, so that decisions share them."""

    document: Sequence[JsonObject]  #: as they were given
    steps: tuple[Step, ...]
    pick: str

    @cached_property
    def sorts(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind == SORT)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What they look at of clusters and jobs."""
        named = itertools.chain.from_iterable(step.expression.names for step in self.steps)
        calculated = {step.name for step in self.steps}
        return tuple(dict.fromkeys(name for name in named if name not in calculated))

    @cached_property
    def job_names(self) -> tuple[str, ...]:
        """What they look at of the job."""
        return tuple(name for name in self.names if name.startswith("job."))

    @property
    def looks_at_load(self) -> bool:
        """Whether they look at something that changes with every job."""
        return any(name in CLUSTER_FACTS and CLUSTER_FACTS[name].is_load for name in self.names)


@lru_cache(maxsize=1024)
def prepared_rules(text: str) -> Rules:
    """The rules of a JSON text that was checked when it was stored; equal texts are prepared once."""
    document: list[JsonObject] = json_value(text)
    steps, problems = _read_steps(document)
    if problems:  # a stored text passed the checks of the version that stored it
        raise ValueError("; ".join(str(problem) for problem in problems))
    pick = next((rule[PICK] for rule in document if PICK in rule), WEIGHTED)
    return Rules(document, tuple(steps), pick)


def rule_problems(rules: Sequence[JsonObject], path: Path) -> Iterator[Problem]:
    """What is wrong with rules, whatever clusters there are."""
    for number, rule in enumerate(rules, 1):
        kinds = [kind for kind in (FILTER, CALCULATE, SORT, PICK) if kind in rule]
        if len(kinds) != 1:
            yield _problem(path, number, (), "give one of filter, calculate, sort and pick")
        elif "descending" in rule and kinds != [SORT]:
            yield _problem(path, number, ("descending",), "is for a sort alone: leave it out")
        elif kinds == [CALCULATE] and not rule[CALCULATE]:
            yield _problem(path, number, (CALCULATE,), "is empty: give names and expressions")
        elif kinds == [PICK] and number < len(rules):
            yield _problem(path, number, (PICK,), "only the last rule may pick: move it to the end")
    steps, problems = _read_steps(rules, path)
    yield from problems
    if not problems:
        yield from _name_problems(steps, path)


def _read_steps(rules: Sequence[JsonObject], path: Path = ()) -> tuple[list[Step], list[Problem]]:
    """Every expression of some rules that can be read, and what is wrong with the others."""
    steps: list[Step] = []
    problems: list[Problem] = []
    for number, rule in enumerate(rules, 1):
        texts = {**{("", kind): rule[kind] for kind in (FILTER, SORT) if rule.get(kind) is not None}}
        texts |= {(name, CALCULATE): text for name, text in (rule.get(CALCULATE) or {}).items() if text is not None}
        for (name, kind), text in texts.items():
            where = (kind, name) if name else (kind,)
            try:
                steps.append(Step(number, kind, name, read_expression(text), bool(rule.get("descending"))))
            except ExpressionError as error:
                problems.append(_problem(path, number, where, str(error)))
    return steps, problems


def _problem(path: Path, number: int, field: Path, reason: str) -> Problem:
    return Problem(field=dotted((*path, str(number - 1), *field)), reason=f"rule {number}: {reason}.")


def _name_problems(steps: Sequence[Step], path: Path) -> Iterator[Problem]:
    """Names that mean nothing at any site, or something else; and what has the wrong type for certain."""
    calculated: dict[str, str | None] = {}  #: the type of each, as far as it is known
    for step in steps:
        field = (step.kind, step.name) if step.name else (step.kind,)
        unknown = [name for name in step.expression.names if "." in name and not _may_be_known(name)]
        for name in unknown:
            problem = unknown_problem(dotted((*path, *step.field)), "name", name, [*TYPES, *calculated])
            yield Problem(field=problem.field, reason=f"rule {step.number}: {problem.reason}", closest=problem.closest)
        if misplaces_list(step.expression):
            yield _problem(path, step.number, field, "a list stands on the right of `in` alone")
        kind = None
        if not unknown:
            try:
                kind = _type(step, calculated)
                if divides_by_zero(step.expression):  # also where no sample comes to it
                    raise ExpressionError("division by zero")
            except ExpressionError as error:
                yield _problem(path, step.number, field, str(error))
        if step.kind == CALCULATE:
            if step.name in TYPES or step.name in calculated or step.name in _TAKEN:
                yield _problem(path, step.number, field, f"'{step.name}' has a meaning already: choose another name")
            calculated[step.name] = kind


def _may_be_known(name: str) -> bool:
    prefixes = (PROPERTIES, LABELS, PARAMETERS)
    return name in TYPES or any(name.startswith(prefix) and name != prefix for prefix in prefixes)


#: Words that have a meaning in expressions.
_TAKEN = (*FUNCTIONS, "job", "properties", "true", "false")
_SAMPLES: Mapping[str, Value] = {NUMBER: 1, TEXT: "a", BOOLEAN: True}
#: Names of unknown types for which every type is tried.
_MOST_TRIED = 4


def _type(step: Step, calculated: Mapping[str, str | None]) -> str | None:
    """The type of an expression, None where that depends on the site; ExpressionError where no types can be right."""
    types = {name: calculated[name] if name in calculated else TYPES.get(name) for name in step.expression.names}
    open_names = [name for name, kind in types.items() if kind is None]
    if len(open_names) > _MOST_TRIED:
        return None
    results, evaluator = set[str](), Evaluator()
    error: ExpressionError | None = None
    for tried in itertools.product(_SAMPLES, repeat=len(open_names)):
        by_name = {**types, **dict(zip(open_names, tried, strict=True))}
        values = {name: _SAMPLES[kind or NUMBER] for name, kind in by_name.items()}
        try:
            results.add(_sample_type(step, values, evaluator))
        except WrongType as wrong:
            error = error or wrong
        except ExpressionError:
            if not types:
                raise
            return None  # of these samples alone, such as a division by zero
    if not results and error is not None:
        raise error
    return results.pop() if len(results) == 1 else None


def _sample_type(step: Step, values: Mapping[str, Value | None], evaluator: Evaluator) -> str:
    evaluate = evaluator.truth if step.kind == FILTER else evaluator.value
    value = evaluate(step.expression, values)
    return {"a number": NUMBER, "text": TEXT}.get(type_of(value), BOOLEAN)


def unknown_properties(
    rules: Rules, properties: Collection[str], path: Path, *, is_told: bool = True
) -> Iterator[Problem]:
    """The names in rules that are neither built in nor a property of any cluster, with the closest names.

    With its prefix a property may be named before a cluster has it; and by who is not told which properties there are.
    """
    calculated: list[str] = []
    for step in rules.steps:
        for name in step.expression.names:
            if "." in name or name in calculated or property_of(name) is None or name in properties:
                continue
            known = [*TYPES, *calculated, *filter(str.isidentifier, properties)]  # others need brackets
            problem = unknown_problem(dotted((*path, *step.field)), "name", name, known, most=0)
            reason = problem.reason.removesuffix(" Known: , ….")
            remedy = f"Give a cluster the property, or write `{PROPERTIES}{name}` where one will have it."
            if not is_told:
                remedy = f"Write `{PROPERTIES}{name}` for a property of clusters."
            yield Problem(field=problem.field, reason=f"rule {step.number}: {reason} {remedy}", closest=problem.closest)
        calculated += [step.name] if step.name else []
