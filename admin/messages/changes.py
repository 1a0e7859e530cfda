"""Changes of many rows: what they did, or would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from admin.core.fields import dotted
from admin.core.settings.effects import Effect
from admin.messages.pages import token_of
from admin.messages.shared import Answer, Json, ScopeAnswer, WarningAnswer, keys_of, one_of
from admin.services.changes import Changed, ChangedRow


class RowAnswer(ScopeAnswer):
    index: int | None = None
    name: Annotated[str | None, Meta(description="Of a cluster, pool or label.")] = None
    action: Annotated[str, one_of("create", "update", "delete", "unchanged")]
    resource_type: str
    level: str
    before: Json | None = None
    after: Json | None = None
    version: int | None = None

    @classmethod
    def from_row(cls, row: ChangedRow) -> RowAnswer:
        change = row.change
        return cls(
            **keys_of(change.scope),
            index=row.index,
            name=change.name or None,
            action=change.action,
            resource_type=change.kind,
            level=change.scope.level.value,
            before=change.before,
            after=change.after,
            version=row.version,
        )


class CountsAnswer(Answer):
    create: int
    update: int
    delete: int
    unchanged: int


class EffectAnswer(ScopeAnswer):
    resource_type: str
    level: str
    field: str
    before: Any = None  # a leaf's value, of whatever type the kind gives it
    after: Any = None

    @classmethod
    def from_effect(cls, effect: Effect) -> EffectAnswer:
        return cls(
            **keys_of(effect.scope),
            resource_type=effect.kind.name,
            level=effect.scope.level.value,
            field=dotted(effect.path),
            before=effect.before,
            after=effect.after,
        )


class EffectsAnswer(Answer):
    count: int
    scopes: int
    by_kind: dict[str, int]
    changes: list[EffectAnswer]
    token: str | None = None

    @classmethod
    def from_effects(cls, effects: Sequence[Effect], *, start: int, limit: int) -> EffectsAnswer:
        page = effects[start : start + limit]
        end = start + len(page)
        return cls(
            count=len(effects),
            scopes=len({effect.scope for effect in effects}),
            by_kind=dict(Counter(effect.kind.name for effect in effects)),
            changes=[EffectAnswer.from_effect(effect) for effect in page],
            token=token_of((str(end),)) if end < len(effects) else None,
        )


class ChangedAnswer(Answer):
    rows: list[RowAnswer]
    counts: CountsAnswer
    revision: int
    changed: bool
    dry_run: bool
    warnings: list[WarningAnswer]
    effective: EffectsAnswer | None = None

    @classmethod
    def from_changed(cls, changed: Changed, *, start: int, limit: int) -> ChangedAnswer:
        """`start` and `limit` are the page of effects that a plan shows."""
        counts = Counter(row.change.action for row in changed.rows)
        effective = EffectsAnswer.from_effects(changed.effects, start=start, limit=limit) if changed.dry_run else None
        return cls(
            rows=[RowAnswer.from_row(row) for row in sorted(changed.rows, key=lambda row: row.index or 0)],
            counts=CountsAnswer(
                create=counts["create"],
                update=counts["update"],
                delete=counts["delete"],
                unchanged=counts["unchanged"],
            ),
            revision=changed.revision,
            changed=changed.is_change,
            dry_run=changed.dry_run,
            warnings=[WarningAnswer.from_warning(warning) for warning in changed.warnings],
            effective=effective,
        )
