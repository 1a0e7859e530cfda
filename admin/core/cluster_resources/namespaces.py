"""Namespaces: the name that a project and domain have on Kubernetes, by one pattern for all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from admin.core import names
from admin.core.cluster_resources.texts import FilledText, read_text
from admin.core.problems import list_first
from admin.core.settings.scopes import Scope

#: The longest name of a namespace that Kubernetes takes.
LONGEST = 63
DEFAULT_PATTERN = "{{ project }}-{{ domain }}"


@dataclass(frozen=True)
class NamespacePattern:
    """How namespaces are named: `{{ project }}-{{ domain }}`."""

    text: str = DEFAULT_PATTERN

    @cached_property
    def _text(self) -> FilledText:
        return read_text(self.text)

    def problem(self) -> str | None:
        """Why no namespace could be named by it; None where they can."""
        try:
            variables = self._text.variables
        except ValueError as error:
            return str(error)
        unknown = [name for name in variables if name not in ("project", "domain")]
        if unknown:
            return f"'{{{{ {unknown[0]} }}}}' is not known here: namespaces are named by project and domain."
        if "project" not in variables:
            return "leaves out {{ project }}, so that all projects would have one namespace."
        if not names.matches(r"[a-z0-9-]*", "".join(piece for piece in self._text.pieces if isinstance(piece, str))):
            return "may have lower-case letters, digits and '-' besides {{ project }} and {{ domain }}."
        return None

    def name(self, scope: Scope) -> str:
        """The namespace of a project and domain, whether Kubernetes would take the name or not."""
        return self._text.fill({"project": scope.project, "domain": scope.domain})

    def name_problem(self, scope: Scope) -> str | None:
        """Why Kubernetes would not take the name; None where it does."""
        name = self.name(scope)
        if len(name) > LONGEST:
            return (
                f"the namespace '{name}' has {len(name)} characters, and Kubernetes takes {LONGEST}: use a shorter "
                "project id, or a shorter namespace_mapping.template."
            )
        if not names.matches(names.DNS_LABEL, name):
            return f"'{name}' is no name of a namespace: use {names.DNS_LABEL_RULE}."
        return None


#: Whether one may be told of a project.
Knows = Callable[[str], bool]


def collisions(
    pattern: NamespacePattern, scopes: Iterable[Scope], knows: Knows = lambda _project: True
) -> dict[Scope, str]:
    """Why scopes that share the name of their namespace with others cannot have it."""
    by_name: defaultdict[str, list[Scope]] = defaultdict(list)
    for scope in scopes:
        by_name[pattern.name(scope)].append(scope)
    return {
        scope: _shared_name(name, [other for other in sharing if other != scope], knows)
        for name, sharing in by_name.items()
        if len(sharing) > 1
        for scope in sharing
    }


def _shared_name(name: str, others: Sequence[Scope], knows: Knows) -> str:
    """That others would have the same namespace."""
    told = [f"{other.project}/{other.domain}" for other in others if knows(other.project)]
    listed = list_first(told[:3], 3, count=len(others)) if told else "another project"
    return f"the namespace '{name}' is also that of {listed}: change namespace_mapping.template, so that names differ."
