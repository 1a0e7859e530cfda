"""Effective values as JSON text, written straight from what rows say.

Which leaf is from where follows from the shapes of the rows alone, and there are few of those: for each combination a
template is made once, and rows are filled in. `trails.resolved(resolve(…))` says the same in many times the time; a
test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

from admin.core.fields import Leaves, Path, dotted
from admin.core.json_text import json_text, json_value
from admin.core.memos import Memo
from admin.core.settings.effective_text.shapes import WIDTH, Said, Shape, looked_at
from admin.core.settings.kinds import Kind, Kinds, Merge
from admin.core.settings.platform import PlatformDefaults, PlatformValues
from admin.core.settings.resolution import kept_levels
from admin.core.settings.scopes import Level, Scope
from admin.core.settings.trails import scope_with

#: What is filled into a text: the revision, the beginnings of objects that tell of a scope, broadest first, what the
#: rows say, and values that are mixed of several rows.
_Pool = list[Any]
_REVISION = 0
_FIRST_PLACE = 1
_MIXTURE = -1


class EffectiveTexts:
    """Writes what applies at scopes, on one platform."""

    def __init__(self, kinds: Kinds, platform: PlatformValues) -> None:
        self._kinds = kinds
        self._platform = platform
        self._templates: Memo[_Template] = Memo(2048)
        self._pieces: Memo[_Piece] = Memo(2048)
        self._leaves: Memo[Leaves] = Memo(2048)

    def write(self, scope: Scope, said: Sequence[Said], revision: int, only: Kind | None = None) -> bytes:
        """Every kind's effective value, its origins and its trail, or those of one kind.

        What is said is in the order of the scope's chain.
        """
        shapes = [rows[::WIDTH] for rows in said]
        key = scope.domain, scope.level, only and only.name, *shapes
        template = self._templates.find(key, lambda: self._template(scope, shapes, only))
        if template is _UNKNOWN:
            said = [looked_at(rows) for rows in said]
            template = self._template(scope, [rows[::WIDTH] for rows in said], only)
        pool: _Pool = [revision, *_places(scope)]
        for rows in said:
            pool += rows
        for mixture in template.mixtures:
            pool.append(self._mixed(mixture, pool))
        filled: bytes = template.text % template.pick(pool)
        return filled

    def _mixed(self, mixture: _Mixture, pool: _Pool) -> bytes:
        kind, leaves, payloads = mixture

        def said(payload: bytes) -> Leaves:
            return self._leaves.find((kind.name, payload), lambda: kind.leaves(json_value(payload)))

        winning = leaves.copy()
        for index in payloads:
            winning |= said(pool[index])
        return json_text(kind.nest({path: value for path, value in winning.items() if value is not None}))

    def _template(self, scope: Scope, shapes: Sequence[Sequence[Shape]], only: Kind | None) -> _Template:
        """The template of a combination of shapes: a piece for each kind, each of which many combinations share."""
        if any(shape.sample is None for there in shapes for shape in there):
            return _UNKNOWN
        by_kind: dict[str, list[tuple[int, Shape]]] = {}
        places = [*range(_FIRST_PLACE + len(shapes))]
        positions: dict[str, list[int]] = {}  # in the pool, of what is said of a kind
        end = len(places)
        for at, there in enumerate(shapes):
            for shape in there:
                by_kind.setdefault(shape.kind.name, []).append((at, shape))
                positions.setdefault(shape.kind.name, places.copy()).extend(range(end, end + WIDTH))
                end += WIDTH
        texts: list[bytes] = []
        slots: list[int] = []
        mixtures: list[_Mixture] = []
        for kind in self._kinds if only is None else (only,):
            piece = self._piece(kind, scope, len(shapes), by_kind.get(kind.name, []))
            mine = [*positions.get(kind.name, places), end + len(mixtures)]
            texts.append(piece.text)
            slots += [mine[slot] for slot in piece.slots]
            mixtures += [one._replace(payloads=[mine[slot] for slot in one.payloads]) for one in piece.mixtures]
        text = b'{"values":[%b],"revision":%%d}\n' % b",".join(texts)
        return _Template(text, itemgetter(*slots, _REVISION), mixtures)

    def _piece(self, kind: Kind, scope: Scope, length: int, shapes: Sequence[tuple[int, Shape]]) -> _Piece:
        def write() -> _Piece:
            first = _FIRST_PLACE + length
            rows = [_Row(at, first + WIDTH * number, shape) for number, (at, shape) in enumerate(shapes)]
            piece = _Piece()
            _write(piece, kind, scope.level, rows, self._platform.at(kind, scope.domain))
            return piece

        return self._pieces.find((kind.name, scope.level, scope.domain, *shapes), write)


class _Mixture(NamedTuple):
    """A value made of leaves from several rows."""

    kind: Kind
    leaves: Leaves  #: of the platform
    payloads: Sequence[int]  #: where they are in the pool


class _Template(NamedTuple):
    """The text of an answer, with slots for what a pool has."""

    text: bytes
    pick: Callable[[_Pool], Any]  #: what goes into the slots: a tuple, or the one thing
    mixtures: Sequence[_Mixture]


#: Stands for the template of shapes that have to be looked at first.
_UNKNOWN = _Template(b"", list, ())


class _Row(NamedTuple):
    """A row, as a piece sees it."""

    at: int  #: its scope's place in the chain
    begin: int  #: of what it says in the pool, where its shape is
    shape: Shape

    @property
    def place(self) -> int:
        return _FIRST_PLACE + self.at

    @property
    def version(self) -> int:
        return self.begin + 1

    @property
    def payload(self) -> int:
        return self.begin + 2


class _Piece:
    """The part of a template that tells of one kind; its slots are those of a pool that has only this kind."""

    def __init__(self) -> None:
        self.text = b""
        self.slots: list[int] = []
        self.mixtures: list[_Mixture] = []  #: one at the most

    def add(self, text: bytes) -> _Piece:
        self.text += text.replace(b"%", b"%%")
        return self

    def add_slot(self, index: int) -> _Piece:
        self.text += b"%b"
        self.slots.append(index)
        return self


def _write(piece: _Piece, kind: Kind, level: Level, rows: Sequence[_Row], ground: PlatformDefaults) -> None:
    """One kind's effective value, its origins and its trail."""
    kept = kept_levels(kind.levels, level)
    rows = [row for row in rows if kept[row.at]]
    replaces = kind.merge is Merge.REPLACE
    # Below a replacing row stay the defaults of a declared kind's fields, for the fields it leaves out.
    stays = not rows or not replaces or kind.declared
    counting = rows[-1:] if replaces else rows
    last: dict[Path, _Row | None] = dict.fromkeys(ground) if stays else {}  # None stands for the platform
    for row in counting:
        last |= dict.fromkeys(row.shape.paths, row)
    unset = [path for path, row in last.items() if row is not None and path in row.shape.unset]
    is_set = [path for path in last if path not in unset]

    piece.add(b'{"resource_type":%b,"value":' % json_text(kind.name))
    if not rows:
        piece.add(ground.payload_text)
    elif _is_whole(counting[-1], is_set, last):
        piece.add_slot(counting[-1].payload)
    else:
        leaves = {path: leaf.value for path, leaf in ground.items()} if stays else {}
        piece.mixtures.append(_Mixture(kind, leaves, [row.payload for row in counting]))
        piece.add_slot(_MIXTURE)
    piece.add(b',"origins":{')
    _write_origins(piece, {path: last[path] for path in is_set}, ground)
    piece.add(b'},"unset":{')
    _write_origins(piece, {path: last[path] for path in unset}, ground)
    piece.add(b'},"trail":[')
    left = [path for path in ground if path in last and last[path] is None]
    piece.add(ground.step_text(_list(left), _list(path for path in ground if path not in left)))
    by_place = {row.at: row for row in rows}
    for at in compress(range(len(kept)), kept):
        piece.add(b",").add_slot(_FIRST_PLACE + at)
        if at in by_place:
            _write_step(piece, by_place[at], last)
        else:
            piece.add(b',"state":"silent"}')
    piece.add(b"]}")


def _is_whole(row: _Row, paths: Sequence[Path], last: dict[Path, _Row | None]) -> bool:
    """Whether the value is what one row says, so that its payload can stand for it."""
    kind, sample = row.shape.kind, row.shape.sample
    if sample is None or any(last[path] is not row for path in paths):
        return False
    leaves = kind.leaves(sample)
    return json_text(kind.nest({path: leaves[path] for path in paths})) == json_text(sample)


def _write_origins(piece: _Piece, origins: dict[Path, _Row | None], ground: PlatformDefaults) -> None:
    for number, (path, row) in enumerate(origins.items()):
        piece.add(b"," if number else b"").add(json_text(dotted(path)) + b":")
        if row is None:
            piece.add(ground.origin_texts[path])
        else:
            piece.add_slot(row.place).add(b',"version":').add_slot(row.version).add(b"}")


def _write_step(piece: _Piece, row: _Row, last: dict[Path, _Row | None]) -> None:
    used = [path for path in row.shape.paths if last.get(path) is row]
    overridden = [path for path in row.shape.paths if path not in used]
    piece.add(b',"state":"set","value":').add_slot(row.payload).add(b',"version":').add_slot(row.version)
    piece.add(b',"used":%b,"overridden":%b}' % (_list(used), _list(overridden)))


def _list(paths: Iterable[Path]) -> bytes:
    return json_text([dotted(path) for path in paths])


def _places(scope: Scope) -> list[bytes]:
    """For each scope of a chain the beginning of an object that tells of it."""
    return (_beginnings(scope.level) % scope._asdict()).encode().split(b"\n") if any(scope) else []


@lru_cache
def _beginnings(level: Level) -> str:
    """The same with names left out; names have no letters that JSON writes otherwise."""
    drawn = Scope(*(f"%({key})s" if key in level.keys else "" for key in Scope._fields))
    places = (json_text(scope_with(place, level=place.level.value))[:-1].decode() for place in drawn.chain())
    return "\n".join(places)
