"""Shortages: what a graph lacks for a request that does not fit, and how close it comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

from admin.core.graph.frontiers import TooComplex
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.matching import Matcher
from admin.core.graph.requests import Need, Slot, SpreadTasks, Unit, Vertex
from admin.core.graph.requirements import CONTAINMENT, Requirement, show_value
from admin.core.graph.shapes import Shape
from admin.core.graph.summaries import Prune, Shortage, summarize
from admin.core.graph.units import COUNTED, NODE, counted, plural, show_amount
from admin.core.problems import closest, did_you_mean, list_first, shorten

#: Values that a message lists of a field that has none of the required ones.
_MOST_VALUES = 5


def explain(graph: ClusterGraph, matcher: Matcher, pruned: Sequence[Shortage] | None = None) -> tuple[Shortage, ...]:
    """What is missing for a request that does not fit, the plainest reasons first; never empty.

    `pruned` is what its sums lack; None where that is not known yet.
    """
    if pruned is None:
        pruned = list(Prune.of(matcher.request).shortages(summarize(graph)))
    shortages = list(pruned)
    if not shortages:
        with suppress(TooComplex):
            shortages = list(_Search(graph, matcher).shortages())
    # That one node has too little of something says more than that the cluster has.
    first = {shortage.type: shortage for shortage in reversed(shortages)}
    plainest = [shortage for shortage in shortages if shortage.detail or first[shortage.type] is shortage]
    types = frozenset((graph.root.type, *graph.root.holds))
    return tuple(_with_hint(shortage, types) for shortage in plainest) or (_together(graph),)


def _with_hint(shortage: Shortage, types: frozenset[str]) -> Shortage:
    """A shortage of what the graph has not at all, with what may be meant."""
    if shortage.unknown is not None:
        return shortage._replace(detail=_describe_unknown(*shortage.unknown))
    if shortage.detail or shortage.available or shortage.type in types or shortage.type in COUNTED:
        return shortage
    hint = _meant(shortage.type, types)
    return shortage._replace(detail=f"{shortage} ({hint})") if hint else shortage


@lru_cache(maxsize=1024)
def _meant(type_: str, types: frozenset[str]) -> str:
    return did_you_mean(closest(type_, sorted(types))).strip().replace("Did", "did", 1)


@lru_cache(maxsize=1024)
def _describe_unknown(requirement: Requirement, fields: frozenset[tuple[str, str]]) -> str:
    """That no vertex has the field of a requirement, or that there is no such subsystem; with what may be meant."""
    subsystem, field = requirement.subsystem, requirement.field
    known = sorted({name for name, _ in fields} - {CONTAINMENT})
    if subsystem != CONTAINMENT and subsystem not in known:
        missing = f"there is no subsystem '{shorten(subsystem)}'"
        listed = f"there are {list_first(known, 5)}" if known else ""
        hint = did_you_mean(closest(subsystem, known)).strip() or listed
    else:
        missing = f"no vertex has the field '{shorten(field)}'"
        hint = did_you_mean(closest(field, sorted(name for of, name in fields if of == subsystem))).strip()
    reason = f"{subsystem}: needs {requirement}, {missing}"
    return f"{reason} ({hint.replace('Did', 'did', 1)})" if hint else reason


def _together(graph: ClusterGraph) -> Shortage:
    detail = "resources: each of them fits by itself, but not all of them together"
    return Shortage("resources", 1, 0, None, graph.is_free_part, detail)


class _Search:
    """Why a request fails that the counts alone would allow."""

    def __init__(self, graph: ClusterGraph, matcher: Matcher) -> None:
        self._graph = graph
        self._matcher = matcher
        matcher.begin(graph)
        self._occurrences = graph.root.occurrences()
        self._shapes: dict[str, list[Shape]] = {}
        for shape in self._occurrences:
            self._shapes.setdefault(shape.type, []).append(shape)

    def shortages(self) -> Iterator[Shortage]:
        request = self._matcher.request
        spread = request.spread
        if spread is not None:
            yield from list(self._of_holder(NODE, spread.contents, spread.requires)) or self._of_tasks(spread)
        yield from self._of_needs(request.needs)

    def _of_needs(self, needs: Iterable[Need]) -> Iterator[Shortage]:
        for resource, count in needs:
            if isinstance(resource, Unit):
                yield from self._unmet(resource.type, resource.requires)
                continue
            holder = NODE if isinstance(resource, Slot) else resource.type
            shortages = list(self._of_holder(holder, resource.contents, resource.requires))
            if not shortages:
                counted = (
                    self._of_slots(resource, count) if isinstance(resource, Slot) else self._of_count(resource, count)
                )
                shortages = list(self._of_needs(resource.contents)) or list(counted)
            yield from shortages

    def _of_holder(
        self, holder: str, contents: tuple[Need, ...], requires: tuple[Requirement, ...]
    ) -> Iterator[Shortage]:
        """Requirements that no vertex of a type meets, or amounts that none of those that meet them has inside."""
        unmet = list(self._unmet(holder, requires))
        yield from unmet
        shapes = [shape for shape in self._shapes.get(holder, ()) if self._matcher.meets(shape, requires)]
        if unmet or not shapes:
            return
        for resource, amount in contents:
            if isinstance(resource, Unit) and not resource.requires:
                has = max(shape.below.get(resource.type, 0) for shape in shapes)
                if has < amount and self._is_described(resource, shapes):
                    yield Shortage(resource.type, amount, has, holder, self._graph.is_free_part)

    def _is_described(self, resource: Unit, shapes: Sequence[Shape]) -> bool:
        """Whether vertices of which none has enough of an amount lack it: what nothing describes may be enough."""
        if resource.is_optional and resource.is_default:
            return all(resource.type in shape.in_all_nodes for shape in shapes)
        return not resource.is_optional or resource.type in self._graph.scope.holds

    def _unmet(self, type_: str, requires: tuple[Requirement, ...]) -> Iterator[Shortage]:
        shapes = self._shapes.get(type_, [])
        if not requires or any(self._matcher.meets(shape, requires) for shape in shapes):
            return
        lonely = [r for r in requires if not any(r.holds(shape.features) for shape in shapes)]
        for requirement in lonely:
            values = {
                show_value(feature.fields[requirement.field])
                for shape in shapes
                for feature in shape.features
                if feature.subsystem == requirement.subsystem and requirement.field in feature.fields
            }
            closest = f", they have {list_first(sorted(values), _MOST_VALUES)}" if values else ", none has that field"
            yield self._shortage(type_, 1, 0, f"{type_}: none has {requirement}{closest}")
        if not lonely:
            listed = " and ".join(map(str, requires))
            yield self._shortage(type_, 1, 0, f"{type_}: none has all of {listed}")

    def _of_count(self, resource: Vertex, count: int) -> Iterator[Shortage]:
        able = self._matcher.count_holders(self._graph, resource)
        if not able:
            scarce = list(self._of_scarce(resource))
            if scarce:
                yield from scarce
                return
        if able < count:
            unmet = list(self._of_too_few(resource.type, resource.requires, count))
            if unmet:
                yield from unmet
                return
            exclusive = " with nothing else on it" if resource.is_exclusive else ""
            listed = f" with {_listed(resource.contents)}" if resource.contents else ""
            free = " now" if self._graph.is_free_part else ""
            detail = f"{plural(resource.type)}: needs {count}{listed}{exclusive}, {able or 'none'} can give that{free}"
            yield self._shortage(resource.type, count, able, detail)

    def _of_scarce(self, holder: Vertex) -> Iterator[Shortage]:
        """What a vertex must hold that none holds enough of, though some have one: by how much the closest fails."""
        shapes = [shape for shape in self._shapes.get(holder.type, ()) if self._matcher.meets(shape, holder.requires)]
        for resource, count in holder.contents:
            if isinstance(resource, Unit):
                continue
            each = (Need(resource, 1),)
            most = max((self._matcher.capacity(shape, each, count) for shape in shapes), default=0)
            if most < count:
                place, free = f"on one {holder.type}", " free" if self._graph.is_free_part else ""
                detail = f"{_described(resource)}: needs {count} {place}, the most{free} {place} is {most or 'none'}"
                yield self._shortage("slot" if isinstance(resource, Slot) else resource.type, count, most, detail)

    def _of_slots(self, slot: Slot, count: int) -> Iterator[Shortage]:
        room = sum(
            times * self._matcher.capacity(shape, slot.contents, count)
            for shape, times in self._counted(NODE)
            if shape.amount > 0 and self._matcher.meets(shape, slot.requires)
        )
        if room < count and NODE in self._shapes:
            where = _on_nodes_with(slot.requires)
            detail = f"slots: needs {count} of {_listed(slot.contents)}{where}, there is room for {room or 'none'}"
            yield self._shortage("slot", count, room, detail)

    def _of_tasks(self, spread: SpreadTasks) -> Iterator[Shortage]:
        unmet = list(self._of_too_few(NODE, spread.requires, spread.nodes))
        if unmet:
            yield from unmet
            return
        rooms = []
        for shape, times in self._counted(NODE):
            is_free = shape.amount > 0 and (shape.is_untouched or not spread.is_exclusive)
            if is_free and self._matcher.meets(shape, spread.requires):
                rooms += [self._matcher.capacity(shape, spread.contents, spread.tasks)] * min(times, spread.nodes)
        room = sum(sorted(rooms, reverse=True)[: spread.nodes])
        per_task = _listed(spread.contents)
        if room < spread.tasks:
            detail = (
                f"tasks: needs {spread.tasks} of {per_task} on {counted(spread.nodes, NODE)}{_with(spread.requires)}, "
                f"there is room for {room or 'none'}"
            )
            yield self._shortage("task", spread.tasks, room, detail)
        able = sum(bool(capacity) for capacity in rooms)
        if able < spread.nodes:
            detail = f"nodes: needs {spread.nodes} with {per_task}, {able or 'none'} can give that"
            yield self._shortage(NODE, spread.nodes, able, detail)

    def _of_too_few(self, type_: str, requires: tuple[Requirement, ...], count: int) -> Iterator[Shortage]:
        """That fewer vertices meet the requirements than are needed, whatever they hold."""
        met = sum(times for shape, times in self._counted(type_) if self._matcher.meets(shape, requires))
        if requires and met < count:
            has = "has" if met == 1 else "have"
            detail = f"{plural(type_)}: needs {count}{_with(requires)}, {met or 'none'} {has} that"
            yield self._shortage(type_, count, met, detail)

    def _counted(self, type_: str) -> list[tuple[Shape, int]]:
        """The shapes of a type, and how many vertices have each."""
        return [(shape, count) for shape, count in self._occurrences.items() if shape.type == type_]

    def _shortage(self, type_: str, needed: int, available: int, detail: str) -> Shortage:
        return Shortage(type_, needed, available, None, self._graph.is_free_part, detail)


def _with(requires: Iterable[Requirement]) -> str:
    """What vertices must have, behind their name."""
    listed = " and ".join(map(str, requires))
    return f" with {listed}" if listed else ""


def _on_nodes_with(requires: tuple[Requirement, ...]) -> str:
    return f" on nodes{_with(requires)}" if requires else ""


def _described(resource: Slot | Vertex) -> str:
    """What vertices or slots are, with what they hold and require: `sockets with 4 cores and net gbps = 100`."""
    asked = [*filter(None, [_listed(resource.contents)]), *map(str, resource.requires)]
    word = "slots of" if isinstance(resource, Slot) else f"{plural(resource.type)} with"
    return f"{word} {' and '.join(asked)}" if asked else word.partition(" ")[0]


def _listed(needs: Iterable[Need]) -> str:
    """Needs as people read them: `12 cores and 2 gpus`."""
    words = []
    for resource, count in needs:
        if isinstance(resource, Slot):
            words.append(f"{counted(count, 'slot')} of {_listed(resource.contents)}")
        elif isinstance(resource, Unit):
            words.append(counted(show_amount(resource.type, count), resource.type))
        else:
            words.append(counted(count, resource.type))
    return " and ".join(words)
