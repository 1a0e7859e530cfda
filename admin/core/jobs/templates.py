"""Templates: texts of a job in which the inputs of an execution are filled in, argument by argument."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from admin.core.fields import Path, add_problem
from admin.core.problems import Problem, closest, shorten, unknown_word

#: `{{ … }}` with no brace between them, so that JSON in an argument is left alone and searching takes one pass.
_EXPRESSION = re.compile(r"\{\{([^{}]*)\}\}")
#: What may stand between them; the dot before "inputs" is how Flyte writes it.
_INPUT = re.compile(r"\s*\.?inputs\.([A-Za-z_][A-Za-z0-9_]*)\s*")

_RULE = "only {{ inputs.NAME }} is filled in"


def fill(template: str, inputs: Mapping[str, Any]) -> str:
    """The text with every `{{ inputs.x }}` replaced by the value of x; values are never expanded again."""

    def value(found: re.Match[str]) -> str:
        name = _input_name(found.group(1))
        return found.group(0) if name is None or name not in inputs else as_text(inputs[name])

    return _EXPRESSION.sub(value, template)


def as_text(value: Any) -> str:
    """A value as an argument: strings as they are, everything else as compact JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def references(template: str) -> list[str]:
    """The names of the inputs that a template uses, each once, in the order of their first use."""
    used = (_input_name(expression) for expression in _EXPRESSION.findall(template))
    return list(dict.fromkeys(name for name in used if name is not None))


def faults(template: str, known: Collection[str], path: Path, problems: list[Problem]) -> None:
    """Note what could not be filled in: inputs that nobody declares, and everything that is no input."""
    for expression in dict.fromkeys(_EXPRESSION.findall(template)):
        name = _input_name(expression)
        if name is None:
            add_problem(problems, path, f"'{{{{{shorten(expression)}}}}}' is not known: {_RULE}.")
        elif name not in known:
            add_problem(problems, path, unknown_word("input", name, known), closest(name, known))


def _input_name(expression: str) -> str | None:
    found = _INPUT.fullmatch(expression)
    return found.group(1) if found else None


def fill_job(job: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The job with its inputs filled in, wherever a job may use them; the rest is as it was."""
    return dict(job) | {
        field: _filled(job[field], lambda text: fill(text, inputs)) for field in _TEMPLATED if field in job
    }


def job_faults(job: Mapping[str, Any], known: Collection[str], path: Path, problems: list[Problem]) -> None:
    """Note what could not be filled in, of every text of a job that may use inputs."""
    for field in _TEMPLATED:
        for where, text in _texts(job.get(field), (*path, field)):
            faults(text, known, where, problems)
    for field in job.keys() - set(_TEMPLATED):
        for where, text in _texts(job[field], (*path, field)):
            if references(text):
                places = ", ".join(_TEMPLATED)
                add_problem(problems, where, f"inputs are not filled in here; they are in {places}.")


#: The fields of a job that may use inputs: a text, a list of them, or a mapping to them.
_TEMPLATED = ("command", "environment", "working_directory", "outputs")


def _filled(value: Any, filled: Callable[[str], str]) -> Any:
    match value:
        case str():
            return filled(value)
        case list() | tuple():
            return [_filled(item, filled) for item in value]
        case Mapping():
            return {key: _filled(item, filled) for key, item in value.items()}
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
