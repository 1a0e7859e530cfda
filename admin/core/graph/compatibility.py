"""Compatibility: what an image needs of the machine that runs it, as requirements on the machine's description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from admin.core.problems import Path, Problem, add_problem, dotted, quoted, shorten, unknown_fields

#: Annotations of images whose names tell a subsystem and its field: `org.supercontainers.mpi.implementation`.
ANNOTATION_PREFIX = "org.supercontainers."
#: What nodes may have of these.
_EXAMPLES = {"arch": "x86_64", "os": "linux"}
#: What annotations of images, and the entries of `compatibility`, say of the node itself, by the fields of a node.
_OF_NODE = {"architecture": "arch", "os": "os"}
_NODE_ANNOTATIONS = {f"org.opencontainers.image.{name}": field for name, field in _OF_NODE.items()}
_CONDITIONS = ("match", "min", "max")


def compatibility_entries(job: Mapping[str, Any], path: Path, problems: list[Problem]) -> list[tuple[Any, Path]]:
    """The requirements that follow from the compatibility of a job's image, each with where it stands."""
    entries = [*_annotated(job.get("annotations") or {}, (*path, "annotations"), problems)]
    return [*entries, *_given(job.get("compatibility"), (*path, "compatibility"), problems)]


def _annotated(annotations: Any, path: Path, problems: list[Problem]) -> Iterator[tuple[Any, Path]]:
    if not isinstance(annotations, Mapping):
        return
    for name, value in annotations.items():
        if name in _NODE_ANNOTATIONS:
            yield from _of_node(_NODE_ANNOTATIONS[name], value, (*path, name), problems)
        elif name.startswith(ANNOTATION_PREFIX):
            subsystem, dot, field = name.removeprefix(ANNOTATION_PREFIX).partition(".")
            if not subsystem or not dot or not field:
                reason = f"'{shorten(name)}' names no field: write {ANNOTATION_PREFIX}SUBSYSTEM.FIELD."
                add_problem(problems, (*path, shorten(name)), reason)
            else:
                yield {"name": subsystem, "field": field, "match": value}, (*path, name)


def empty_problems(compatibility: Any, path: Path) -> list[Problem]:
    """A problem for each null or empty part of a new job's compatibility; stored ones are left out."""
    if not isinstance(compatibility, Mapping):
        return []
    problems: list[Problem] = []
    for name, needs in compatibility.items():
        if needs is None:
            add_problem(problems, (*path, shorten(str(name))), "is null: say what is needed, or leave it out.")
        elif needs == {}:
            add_problem(problems, (*path, shorten(str(name))), "asks for nothing: say what is needed, or leave it out.")
        problems += empty_problems(needs, (*path, shorten(str(name))))
    return problems


def null_requirements(job: Any, path: Path) -> list[Problem]:
    """A problem for each `requires` of a new job or jobspec that is left empty, which would say nothing."""
    problems: list[Problem] = []
    waiting: list[tuple[Any, Path]] = [(job, path)]
    while waiting:
        value, where = waiting.pop()
        parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        for name, part in parts:
            inner = (*where, shorten(str(name)))
            if name == "requires" and part is None:
                add_problem(problems, inner, "is left empty: say what is required, or leave it out.")
            waiting.append((part, inner))
    return problems


def _given(compatibility: Any, path: Path, problems: list[Problem]) -> Iterator[tuple[Any, Path]]:
    if compatibility is None:
        return
    if not isinstance(compatibility, Mapping):
        add_problem(
            problems, path, f"{quoted(compatibility)} is not a mapping: give architecture, libraries and so on."
        )
        return
    for name, needs in compatibility.items():
        if name in _OF_NODE:
            yield from _of_node(_OF_NODE[name], needs, (*path, name), problems)
        elif not isinstance(needs, Mapping):
            reason = f"{quoted(needs)} is not a mapping: give fields of the subsystem '{shorten(name)}'."
            add_problem(problems, (*path, shorten(name)), reason)
        else:
            for field, needed in needs.items():
                where = (*path, name, str(field))
                if isinstance(needed, Mapping) and needed:
                    unknown = [str(key) for key in needed if key not in _CONDITIONS]
                    problems += unknown_fields(unknown, _CONDITIONS, dotted((*path, shorten(name), shorten(field))))
                    needed = {key: value for key, value in needed.items() if key in _CONDITIONS}
                    if unknown and not needed:
                        continue
                condition = needed if isinstance(needed, Mapping) else {"match": needed}
                yield {"name": name, "field": field, **condition}, where


def _of_node(field: str, value: Any, path: Path, problems: list[Problem]) -> Iterator[tuple[Any, Path]]:
    if isinstance(value, str) and value:
        yield {"name": "cluster", "field": field, "match": value}, path
    else:
        add_problem(problems, path, f"{quoted(value)} is not text: give one name, such as {_EXAMPLES[field]}.")
