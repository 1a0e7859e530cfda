"""Templates: texts of a job with `{{ inputs.x }}`, filled in argument by argument."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from admin.core.problems import Path, Problem, add_problem, dotted, shorten, unknown_problem

#: `{{ … }}` with no brace between them, so that JSON in an argument is left alone and searching takes one pass.
_EXPRESSION = re.compile(r"\{\{([^{}]*)\}\}")
#: What may stand between them; the dot before "inputs" is how Flyte writes it.
_INPUT = re.compile(r"\s*\.?inputs\.([A-Za-z_][A-Za-z0-9_]*)\s*")

_RULE = "only {{ inputs.NAME }} is filled in"


def fill(template: str, inputs: Mapping[str, Any]) -> str:
    """The text with every `{{ inputs.x }}` replaced by the value of x; values are never expanded again."""

    def value(match: re.Match[str]) -> str:
        name = _input_name(match.group(1))
        return match.group(0) if name is None or name not in inputs else as_text(inputs[name])

    return _EXPRESSION.sub(value, template)


def as_text(value: Any) -> str:
    """A value as an argument: strings as they are, everything else as compact JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def references(template: str) -> list[str]:
    """The names of the inputs that a template uses, each once, in the order of their first use."""
    used = (_input_name(expression) for expression in _EXPRESSION.findall(template))
    return list(dict.fromkeys(name for name in used if name is not None))


def check_template(template: str, inputs: Collection[str], path: Path, problems: list[Problem]) -> None:
    """Report expressions that cannot be filled in: undeclared inputs, and whatever is not an input."""
    for expression in dict.fromkeys(_EXPRESSION.findall(template)):
        name = _input_name(expression)
        if name is None:
            add_problem(problems, path, f"'{{{{{shorten(expression)}}}}}' is not known: {_RULE}.")
        elif name not in inputs:
            problems.append(unknown_problem(dotted(path), "input", name, inputs))


def _input_name(expression: str) -> str | None:
    match = _INPUT.fullmatch(expression)
    return match.group(1) if match else None


def fill_job(job: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The job with inputs filled in wherever a job may use them."""
    return dict(job) | {field: _fill_texts(job[field], inputs) for field in _TEMPLATED if field in job}


def check_job_templates(job: Mapping[str, Any], inputs: Collection[str], path: Path, problems: list[Problem]) -> None:
    """Report expressions of a job that cannot be filled in."""
    for field in _TEMPLATED:
        for where, text in _texts(job.get(field), (*path, field)):
            check_template(text, inputs, where, problems)
    for field in job.keys() - set(_TEMPLATED):
        for where, text in _texts(job[field], (*path, field)):
            if references(text):
                places = ", ".join(_TEMPLATED)
                add_problem(problems, where, f"inputs are not filled in here; they are in {places}.")


#: The fields of a job that may use inputs: a text, a list of them, or a mapping to them.
_TEMPLATED = ("command", "environment", "working_directory", "outputs")


def _fill_texts(value: Any, inputs: Mapping[str, Any]) -> Any:
    match value:
        case str():
            return fill(value, inputs)
        case list() | tuple():
            return [_fill_texts(item, inputs) for item in value]
        case Mapping():
            return {key: _fill_texts(item, inputs) for key, item in value.items()}
    return value


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    match value:
        case str():
            yield path, value
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _texts(item, (*path, str(index)))
        case Mapping():
            for key, item in value.items():
                yield from _texts(item, (*path, shorten(key)))
