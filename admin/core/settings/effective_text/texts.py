"""Effective values as text, filled into templates that are built once for rows of the same shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from admin.core.fields.leaves import Leaves
from admin.core.json_text import json_text, json_value
from admin.core.memos import Memo
from admin.core.settings.effective_text.parts import SCOPE, VALUE, VERSION, Part, Slot, Source, build_part, scope_texts
from admin.core.settings.effective_text.shapes import WIDTH, PackedRows, Shape, with_known_shapes
from admin.core.settings.kinds import Kind, Kinds
from admin.core.settings.platform import PlatformValues
from admin.core.settings.scopes import Scope

#: What slots are filled from: the revision, the scopes of the chain, the packed rows of each, and mixed values.
_Pool = list[Any]
_REVISION = 0
_FIRST_SCOPE = 1


class EffectiveTexts:
    """Writes the effective values at scopes, on one platform."""

    def __init__(self, kinds: Kinds, platform: PlatformValues) -> None:
        self._kinds = kinds
        self._platform = platform
        self._templates: Memo[_Template] = Memo(2048)
        self._parts: Memo[Part] = Memo(2048)
        self._leaves: Memo[Leaves] = Memo(2048)

    def write(self, scope: Scope, rows: Sequence[PackedRows], revision: int, only: Kind | None = None) -> bytes:
        """Every kind's effective value, its origins and its trail, or those of one kind.

        `rows` has the rows of each scope of the chain, in its order.
        """
        shapes = [scope_rows[::WIDTH] for scope_rows in rows]
        key = scope.domain, scope.level, only and only.name, *shapes
        template = self._templates.find(key, lambda: self._build_template(scope, shapes, only))
        if template is _UNKNOWN:
            rows = [with_known_shapes(scope_rows) for scope_rows in rows]
            template = self._build_template(scope, [scope_rows[::WIDTH] for scope_rows in rows], only)
        pool: _Pool = [revision, *scope_texts(scope)]
        for scope_rows in rows:
            pool += scope_rows
        for mixture in template.mixtures:
            pool.append(self._mix(mixture, pool))
        filled: bytes = template.text % template.pick(pool)
        return filled

    def _mix(self, mixture: _Mixture, pool: _Pool) -> bytes:
        kind, sources = mixture

        def leaves(payload: bytes) -> Leaves:
            return self._leaves.find((kind.name, payload), lambda: kind.leaves(json_value(payload)))

        return json_text(
            kind.nest({path: value if at is None else leaves(pool[at])[path] for path, at, value in sources})
        )

    def _build_template(self, scope: Scope, shapes: Sequence[Sequence[Shape]], only: Kind | None) -> _Template:
        if any(shape.sample is None for scope_shapes in shapes for shape in scope_shapes):
            return _UNKNOWN
        layout = _Layout(shapes)
        texts: list[bytes] = []
        indexes: list[int] = []
        mixtures: list[_Mixture] = []
        for kind in self._kinds if only is None else (only,):
            part = self._part(kind, scope, layout.shapes.get(kind.name, {}))
            texts.append(part.text)
            indexes += [
                layout.end + len(mixtures) if slot.field == VALUE else layout.index(kind, slot) for slot in part.slots
            ]
            if part.sources:
                mixtures.append(_Mixture(kind, [layout.placed(kind, source) for source in part.sources]))
        text = b'{"values":[%b],"revision":%%d}\n' % b",".join(texts)
        return _Template(text, itemgetter(*indexes, _REVISION), mixtures)

    def _part(self, kind: Kind, scope: Scope, shapes: dict[int, Shape]) -> Part:
        return self._parts.find(
            (kind.name, scope.level, scope.domain, *shapes.items()),
            lambda: build_part(kind, scope.level, shapes, self._platform.at(kind, scope.domain)),
        )


class _Layout:
    """Where in the pool rows of given shapes are."""

    def __init__(self, shapes: Sequence[Sequence[Shape]]) -> None:
        self.shapes: dict[str, dict[int, Shape]] = {}  #: by kind name and place in the chain
        self.end = _FIRST_SCOPE + len(shapes)  #: of the rows, where mixed values begin
        self._rows: dict[tuple[str, int], int] = {}
        for at, scope_shapes in enumerate(shapes):
            for shape in scope_shapes:
                self.shapes.setdefault(shape.kind.name, {})[at] = shape
                self._rows[shape.kind.name, at] = self.end
                self.end += WIDTH

    def index(self, kind: Kind, slot: Slot) -> int:
        """Where the scope, or the version or payload of a row, is that fills a slot."""
        if slot.field == SCOPE:
            return _FIRST_SCOPE + slot.at
        return self._rows[kind.name, slot.at] + (1 if slot.field == VERSION else 2)

    def placed(self, kind: Kind, source: Source) -> Source:
        """A source whose row is given by the index of its payload."""
        return source if source.at is None else source._replace(at=self._rows[kind.name, source.at] + 2)


class _Mixture(NamedTuple):
    """A value made of leaves from several rows."""

    kind: Kind
    sources: Sequence[Source]


class _Template(NamedTuple):
    """The text of an answer, with slots that are filled from a pool."""

    text: bytes
    pick: Callable[[_Pool], Any]  #: what fills the slots: a tuple, or the only thing
    mixtures: Sequence[_Mixture]


#: Stands for the template of rows whose shapes are not known and have to be computed first.
_UNKNOWN = _Template(b"", list, ())
