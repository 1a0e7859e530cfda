"""Rendering: the Kubernetes objects of one namespace, or why there are none."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from admin.core.cluster_resources.templates import Filling, Template, TemplateSet
from admin.core.cluster_resources.values import HIDDEN, Value
from admin.core.json_text import json_text
from admin.core.problems import shorten
from admin.core.settings.scopes import Scope

#: What the API server takes as part of a path; the rules of each kind are its own to check.
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._:-]{1,253}")


@dataclass(frozen=True, kw_only=True)
class RenderedObject:
    """One Kubernetes object."""

    file: str
    line: int
    document: Mapping[str, Any]
    variables: tuple[str, ...]  #: that were filled in

    @property
    def identity(self) -> str:
        """Its kind and name, such as `ResourceQuota/project-quota`, with its group if it has one."""
        group, _, _ = self.document["apiVersion"].rpartition("/")
        kind = f"{self.document['kind']}.{group}" if group else self.document["kind"]
        return f"{kind}/{self.document['metadata']['name']}"


@dataclass(frozen=True, kw_only=True)
class Rendering:
    """The objects of one namespace; none where there are problems."""

    scope: Scope
    namespace: str
    values: Mapping[str, Value]
    templates: TemplateSet
    absent: Mapping[str, str]  #: why configured variables have no value
    name_problem: str | None  #: what is wrong with the namespace's name
    objects: tuple[RenderedObject, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def shown_objects(self) -> tuple[RenderedObject, ...]:
        """The objects as they may be shown: without the values that come from the environment or files."""
        if not any(value.source for value in self.values.values()) or self.problems:
            return self.objects
        shown = _shown(self.values)
        return tuple(
            entry for template in self.templates.templates for entry in _objects(Filling(template, shown, shown))
        )

    def is_made_of(
        self, templates: TemplateSet, values: Mapping[str, Value], absent: Mapping[str, str], name_problem: str | None
    ) -> bool:
        """Whether it would be the same if it were made again; where each value comes from counts too."""
        return self.templates is templates and (self.values, self.absent, self.name_problem) == (
            values,
            absent,
            name_problem,
        )

    @cached_property
    def digest(self) -> str:
        """Changes with any object; that of a namespace with problems is empty."""
        if self.problems:
            return ""
        documents = [entry.document for entry in self.objects]
        return hashlib.sha256(json_text([self.namespace, documents], sort_keys=True)).hexdigest()[:32]


def render(
    templates: TemplateSet,
    scope: Scope,
    namespace: str,
    values: Mapping[str, Value],
    absent: Mapping[str, str],
    name_problem: str | None = None,
) -> Rendering:
    """The objects of a namespace."""
    problems = [*templates.problems]
    if name_problem:
        problems.append(name_problem)
    objects: list[RenderedObject] = []
    texts, shown = {name: value.text for name, value in values.items()}, _shown(values)
    for template in templates.templates:
        filling = Filling(template, texts, shown)
        objects += _objects(filling)
        problems += [*filling.problems, *_missing(template, filling.missing, absent)]
    if not problems:
        hidden = {name for name, value in values.items() if value.source}
        problems += _object_problems(objects, namespace, hidden)
    return Rendering(
        scope=scope,
        namespace=namespace,
        values=values,
        templates=templates,
        absent=absent,
        name_problem=name_problem,
        objects=() if problems else tuple(objects),
        problems=tuple(dict.fromkeys(problems)),
    )


def _shown(values: Mapping[str, Value]) -> dict[str, str]:
    """The values as they may be shown."""
    return {name: value.shown for name, value in values.items()}


def _objects(filling: Filling) -> Iterator[RenderedObject]:
    for document, tree in filling.documents():
        used = tuple(sorted(name for name in document.variables if name in filling.values))
        yield RenderedObject(file=filling.template.file, line=document.line, document=tree, variables=used)


def _missing(template: Template, missing: list[tuple[int, str]], absent: Mapping[str, str]) -> Iterator[str]:
    for line, name in missing:
        reason = absent.get(name) or (
            "set it by a cluster-resource-attribute, or for all by cluster_resources.templateData"
        )
        yield f"{template.file}:{line}: the variable '{name}' has no value: {reason.rstrip('.')}."


def _object_problems(objects: list[RenderedObject], namespace: str, hidden: set[str]) -> Iterator[str]:
    """Names that a value made wrong, and objects that stand twice; a name that may be of a hidden value is not told."""
    places: dict[str, str] = {}
    for entry in objects:
        where, metadata = f"{entry.file}:{entry.line}", entry.document["metadata"]
        name, kind = metadata.get("name"), entry.document["kind"]
        shown = HIDDEN if hidden.intersection(entry.variables) else shorten(name)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"{where}: '{shown}' is no name of a Kubernetes object."
            continue
        if kind == "Namespace" and name != namespace:
            yield f"{where}: the namespace '{shown}' is not {namespace}: write name: '{{{{ namespace }}}}'."
        if entry.identity in places:
            identity = f"{kind}/{shown}" if shown == HIDDEN else entry.identity
            yield f"{where}: {identity} stands in {places[entry.identity]} as well."
        places[entry.identity] = where
