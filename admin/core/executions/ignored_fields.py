"""Ignored fields: which fields of settings the engine of a cluster does nothing with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from admin.core.executions.own_settings import FieldEffect, unread_fields
from admin.core.executions.plans import PRIORITY_KIND
from admin.core.problems import Path, dotted
from admin.core.settings import builtin_kinds as kinds
from admin.core.settings.kinds import Kind
from admin.core.settings.warnings import WarningCode


class _Ignored(NamedTuple):
    """A field that an engine ignores, though it reaches the cluster or decides about it."""

    kind: Kind
    path: Path
    effect: str  #: what becomes of it


_PLUGINS = _Ignored(
    kinds.PLUGIN_OVERRIDE,
    ("overrides",),
    "decides which clusters may run a job; the engine runs its command all the same",
)
_KUBERNETES = tuple(
    _Ignored(kinds.WORKFLOW_EXECUTION_CONFIG, path, "is for jobs of Kubernetes")
    for path in (("security_context", "run_as"), ("annotations",), ("interruptible",))
)
#: By engine, what it ignores beside what no engine of Rainbow reads.
_IGNORED_BY: Mapping[str, tuple[_Ignored, ...]] = {
    "local": (
        _Ignored(
            kinds.TASK_RESOURCE,
            ("defaults", "ephemeral_storage"),
            "counts where clusters are chosen; the engine sets no limit",
        ),
        _Ignored(kinds.EXECUTION_QUEUE, ("tags",), "chooses a queue; the engine has none"),
        _PLUGINS,
        _Ignored(kinds.WORKFLOW_EXECUTION_CONFIG, ("labels",), "kept with the execution; jobs of the engine have none"),
        *_KUBERNETES,
    ),
    "slurm": (_PLUGINS, *_KUBERNETES),
    "kubernetes": (_PLUGINS,),
    "flux": (_PLUGINS, *_KUBERNETES),
}


def ignored_fields(engine: str | None, registry: Iterable[Kind]) -> dict[str, list[FieldEffect]] | None:
    """By kind, the fields of settings that an engine ignores; None where that is not known.

    That is so before an agent has reported its engine, and of an engine that is not of Rainbow.
    """
    own = _IGNORED_BY.get(engine or "")
    if engine is None or own is None:
        return None
    ignored: dict[str, list[FieldEffect]] = {}
    for kind in registry:
        of_kind = [_effect_of(engine, entry) for entry in own if entry.kind.name == kind.name]
        is_passed_on = kind.declared and kind.name != PRIORITY_KIND
        unread = [(name,) for name in kind.payload.fields] if is_passed_on else kind.unread
        if effects := [*of_kind, *unread_fields(kind, unread)]:
            ignored[kind.name] = effects
    return ignored


def _effect_of(engine: str, ignored: _Ignored) -> FieldEffect:
    field = dotted(ignored.path)
    return FieldEffect(
        field=field,
        outcome=WarningCode.UNREAD_FIELD,
        effect=ignored.effect,
        message=f"The {engine} engine does nothing with {field}: it {ignored.effect}.",
    )
