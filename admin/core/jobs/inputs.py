"""Inputs of workflows: what a workflow declares, and the values that one execution gives to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from admin.core import names
from admin.core.jobs.input_types import InputText, InputType, read_type
from admin.core.jobs.literals import LITERALS
from admin.core.problems import Path, Problem, add_problem, dotted, quoted, raise_problems, shorten, unknown_problem

INPUT_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
INPUT_NAME_RULE = "letters, digits and '_', at most 63, not starting with a digit"

_MOST_INPUTS = 1024
_LONGEST_DESCRIPTION = 4096


class Missing(Enum):
    """The default of an input that has none."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


@dataclass(frozen=True, kw_only=True)
class Input:
    """One declared input of a workflow."""

    name: str
    type: InputType
    default: Any = MISSING
    description: str = ""

    @property
    def required(self) -> bool:
        """Whether an execution has to give it a value."""
        return self.default is MISSING

    def payload(self) -> dict[str, Any]:
        """The input as it is stored; reading it gives the same input."""
        payload = self.type.payload()
        if not self.required:
            payload["default"] = self.default
        return payload | {"description": self.description} if self.description else payload


def read_declarations(document: Any, path: Path, problems: list[Problem]) -> dict[str, Input]:
    """The inputs that a workflow declares, by name; whatever is wrong with them is added to the problems."""
    if not isinstance(document, Mapping):
        add_problem(problems, path, f"{quoted(document)} is not a mapping of input names to their types.")
        return {}
    if len(document) > _MOST_INPUTS:
        add_problem(problems, path, f"has {len(document)} inputs; the most is {_MOST_INPUTS}.")
        return {}
    declared: dict[str, Input] = {}
    for name, declaration in document.items():
        where = (*path, shorten(name))
        if not isinstance(name, str) or not names.matches(INPUT_NAME, name):
            reason = f"'{shorten(name)}' is not allowed as the name of an input: use {INPUT_NAME_RULE}."
            add_problem(problems, where, reason)
        elif name == LITERALS:
            add_problem(problems, where, f"'{LITERALS}' cannot be the name of an input: choose another.")
        else:
            input_ = _read_declaration(name, declaration, where, problems)
            declared |= {name: input_} if input_ is not None else {}
    return declared


def _read_declaration(name: str, document: Any, path: Path, problems: list[Problem]) -> Input | None:
    input_type = read_type(document, path, problems, beside=("default", "description"))
    entries = document if isinstance(document, Mapping) else {}
    description = _read_description(entries.get("description", ""), (*path, "description"), problems)
    if input_type is None:
        return None
    default = entries.get("default", MISSING)
    if default is None:
        reason = "null is no value: give one, or leave out 'default' to require the input."
        add_problem(problems, (*path, "default"), reason)
    elif default is not MISSING:
        default = input_type.read(default, (*path, "default"), problems)
    return Input(name=name, type=input_type, default=default, description=description)


def _read_description(value: Any, path: Path, problems: list[Problem]) -> str:
    if value is None:
        add_problem(problems, path, "null is not text: put it in quotes.")
    elif isinstance(value, str) and len(value) > _LONGEST_DESCRIPTION:
        add_problem(problems, path, f"has {len(value)} characters; the most is {_LONGEST_DESCRIPTION}.")
    else:
        return InputText().read(value, path, problems) or ""
    return ""


def bind(
    declared: Mapping[str, Input],
    values: Any,
    *,
    defaults: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    path: Path = ("inputs",),
) -> dict[str, Any]:
    """The inputs of one execution: its own values, else the launch plan's defaults, else the workflow's.

    Invalid with every problem. The launch plan's fixed inputs may be repeated, but only with the same value.
    """
    problems: list[Problem] = []
    checked = check_values(declared, values, path, problems)
    refused = set(values) - set(checked) if isinstance(values, Mapping) else set()
    bound = {name: input_.default for name, input_ in declared.items() if not input_.required}
    bound |= check_values(declared, defaults or {}, path, problems)
    fixed = check_values(declared, fixed or {}, path, problems)
    for name in checked.keys() & fixed.keys():
        if checked[name] != fixed[name]:
            reason = f"the launch plan fixes it to {quoted(fixed[name])}: leave it out, or use another launch plan."
            add_problem(problems, (*path, name), reason)
    bound |= checked | fixed
    for name, input_ in declared.items():
        if name not in bound and name not in refused:
            add_problem(problems, (*path, name), f"is missing: give '{name}', {input_.type.leaf.phrase}.")
    raise_problems(problems)
    return {name: bound[name] for name in declared}


def check_values(declared: Mapping[str, Input], values: Any, path: Path, problems: list[Problem]) -> dict[str, Any]:
    """The normal forms of the valid values; unknown names and wrong types are added to the problems."""
    if not isinstance(values, Mapping):
        add_problem(problems, path, f"{quoted(values)} is not a mapping of input names to values.")
        return {}
    checked: dict[str, Any] = {}
    for name, value in values.items():
        input_ = declared.get(name)
        if input_ is None:
            problems.append(unknown_problem(dotted((*path, shorten(name))), "input", str(name), declared))
            continue
        before = len(problems)
        normal = input_.type.read(value, (*path, name), problems)
        if len(problems) == before:
            checked[name] = normal
    return checked
