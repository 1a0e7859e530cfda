"""Scopes: places in the hierarchy, how specific they are, and origins: where a leaf comes from."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from admin.core import names
from admin.core.problems import Problem, Setting, raise_problems, shorten


class Level(Enum):
    """How specific a scope is; the value is the word used in the API, the CLI and the docs."""

    PLATFORM = "platform"  # the admin's own configuration
    DOMAIN = "domain"  # every project in one domain
    PROJECT = "project"  # one project, in every domain
    PROJECT_DOMAIN = "project-domain"  # one project in one domain
    WORKFLOW = "workflow"  # one workflow of a project in one domain
    LAUNCH_PLAN = "launch-plan"  # one launch plan of a workflow

    @property
    def specificity(self) -> int:
        """The larger wins."""
        return _SPECIFICITY[self]

    @property
    def keys(self) -> tuple[str, ...]:
        """The scope keys that a scope of this level has."""
        return _KEYS[self]


_SPECIFICITY = {
    Level.PLATFORM: 0,
    Level.DOMAIN: 1,
    Level.PROJECT: 5,
    Level.PROJECT_DOMAIN: 10,
    Level.WORKFLOW: 100,
    Level.LAUNCH_PLAN: 1000,
}
#: The keys of a scope in the order of lists, tables and indexes.
SCOPE_KEYS = ("project", "domain", "workflow", "launch_plan")
_KEYS: dict[Level, tuple[str, ...]] = {
    Level.PLATFORM: (),
    Level.DOMAIN: ("domain",),
    Level.PROJECT: ("project",),
    Level.PROJECT_DOMAIN: ("project", "domain"),
    Level.WORKFLOW: ("project", "domain", "workflow"),
    Level.LAUNCH_PLAN: SCOPE_KEYS,
}
_SHAPE_OF_LEVEL = {
    level: tuple(key in keys for key in ("domain", "project", "workflow", "launch_plan"))
    for level, keys in _KEYS.items()
}
_LEVEL_OF_SHAPE = {shape: level for level, shape in _SHAPE_OF_LEVEL.items()}

#: The levels whose rows are stored, broadest first.
STORED_LEVELS = tuple(level for level in Level if level is not Level.PLATFORM)


class Scope(NamedTuple):
    """A place in the hierarchy; an empty key means "any"."""

    domain: str = ""
    project: str = ""
    workflow: str = ""
    launch_plan: str = ""

    @property
    def level(self) -> Level:
        """The scope's level; KeyError for a combination of keys that is none, which `check_scope` refuses."""
        return _LEVEL_OF_SHAPE[tuple(map(bool, self))]

    def keys(self) -> dict[str, str]:
        """The keys that are set, in the order domain, project, workflow, launch plan."""
        return {key: value for key, value in zip(self._fields, self, strict=True) if value}

    def at(self, level: Level) -> Scope:
        """The part of this scope that a broader level sees."""
        return Scope(*(value if kept else "" for value, kept in zip(self, _SHAPE_OF_LEVEL[level], strict=True)))

    def chain(self) -> tuple[Scope, ...]:
        """The stored scopes whose settings apply here, broadest first, this one last."""
        return _chain(self)

    @property
    def sort_key(self) -> tuple[str, str, str, str]:
        """The values of SCOPE_KEYS."""
        domain, project, workflow, launch_plan = self
        return project, domain, workflow, launch_plan

    @property
    def path(self) -> str:
        """All keys as one text; names have no slashes."""
        domain, project, workflow, launch_plan = self
        return f"{project}/{domain}/{workflow}/{launch_plan}"

    def paths(self) -> tuple[str, ...]:
        """The paths of the chain, cheaper than building its scopes."""
        domain, project, workflow, launch_plan = self
        if not (domain and project):
            return (self.path,) if domain or project else ()
        broad = (f"/{domain}//", f"{project}///", f"{project}/{domain}//")
        if not workflow:
            return broad
        flow = f"{project}/{domain}/{workflow}/"
        return (*broad, flow, flow + launch_plan) if launch_plan else (*broad, flow)

    def __str__(self) -> str:
        if self.level is Level.PLATFORM:
            return "platform"
        return f"{self.level.value} " + "/".join(self.keys()[key] for key in self.level.keys)


PLATFORM = Scope()


@lru_cache(maxsize=4096)
def _chain(scope: Scope) -> tuple[Scope, ...]:
    domain, project, workflow, launch_plan = scope
    if not (domain and project):
        return (scope,) if domain or project else ()
    broad = (Scope(domain), Scope("", project), Scope(domain, project))
    if not workflow:
        return broad
    return (*broad, Scope(domain, project, workflow), scope) if launch_plan else (*broad, scope)


def check_scope(*, domain: str = "", project: str = "", workflow: str = "", launch_plan: str = "") -> Scope:
    """A scope from its keys, or Invalid with every key that is missing or ill-formed.

    Whether the project and domain exist is not asked here.
    """
    scope = Scope(domain=domain, project=project, workflow=workflow, launch_plan=launch_plan)
    raise_problems([*_ill_formed(scope), *_missing(scope)])
    return scope


def _ill_formed(scope: Scope) -> Iterator[Problem]:
    for key, name in (("domain", scope.domain), ("project", scope.project)):
        if name and not names.matches(names.DNS_LABEL, name):
            yield Problem(field=key, reason=f"'{shorten(name)}' is not a {key} id: use {names.DNS_LABEL_RULE}.")
    for key, name in (("workflow", scope.workflow), ("launch_plan", scope.launch_plan)):
        if name and not names.is_entity_name(name):
            noun = key.replace("_", " ")
            reason = f"'{shorten(name)}' is not a {noun} name: use {names.ENTITY_NAME_RULE} (not '.' or '..')."
            yield Problem(field=key, reason=reason)


def _missing(scope: Scope) -> Iterator[Problem]:
    if tuple(map(bool, scope)) in _LEVEL_OF_SHAPE:
        return
    present = scope.keys()
    needed = {"workflow": ("project", "domain"), "launch_plan": ("project", "domain", "workflow")}
    for key, others in needed.items():
        absent = [other for other in others if other not in present]
        if key in present and absent:
            yield Problem(field=absent[0], reason=f"a {key.replace('_', ' ')} needs its {' and '.join(absent)} too.")
            return


class Origin(NamedTuple):
    """Where a leaf comes from."""

    scope: Scope
    version: int | None = None  #: of the row, None for the platform
    key: str = ""  #: the configuration key, for the platform
    layer: str = ""  #: the layer over every row: a launch plan's definition or a request

    @property
    def level(self) -> Level:
        return self.scope.level

    def setting(self, kind: str, field: str) -> Setting | None:
        """The field of the row that it names; None where no row is stored."""
        return Setting(kind, self.scope, self.version, field) if self.version else None

    def __str__(self) -> str:
        """As it stands after `set`: `at domain development`, `in configuration (task_resources)`, `by the request`."""
        if self.layer:
            return f"by the {self.layer.replace('-', ' ')}"
        return f"in configuration ({self.key})" if self.level is Level.PLATFORM else f"at {self.scope}"
