"""Machines: the described clusters behind a backend, and the answers about them, each worked out once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from admin.core.graph.backends import Fit, FreeGraph, GraphBackend
from admin.core.graph.graphs import Amounts, ClusterGraph
from admin.core.graph.job_requests import GRAPH_TYPES
from admin.core.graph.request_texts import read_request
from admin.core.graph.shapes import Shapes
from admin.core.graph.summaries import Shortage, Summary, describe_shortages
from admin.core.graph.units import MEASURED, NODE

#: Requests whose answers are kept.
_MOST_REQUESTS = 4096
#: Shortages that a reason names.
_MOST_NAMED = 3


@dataclass(frozen=True, eq=False)
class Machine:
    """What a description says that a cluster has."""

    digest: str  #: of the description
    graph: ClusterGraph
    summary: Summary
    machines: Machines = field(repr=False)
    totals: Mapping[str, int] = field(init=False)  #: how much it has of each resource that its description tells of
    of_node: Mapping[str, int] = field(init=False)  #: how much each of its nodes has at least, of what tasks ask for

    def __post_init__(self) -> None:
        # A graph that says nothing of memory and storage may have enough; of cores, gpus and nodes it has none then.
        has = self.summary.totals
        told = {name: type_ for name, type_ in GRAPH_TYPES.items() if type_ not in MEASURED or type_ in has}
        object.__setattr__(self, "totals", {name: has.get(type_, 0) for name, type_ in {**told, "nodes": NODE}.items()})
        nodes = self.graph.scope.nodes
        least = {name: min((node.below.get(type_, 0) for node in nodes), default=0) for name, type_ in told.items()}
        object.__setattr__(self, "of_node", least)


class Machines:
    """Every machine that a process knows, by the digest of its description.

    Several threads may use it: at worst two of them work out the same answer.
    """

    def __init__(self, backend: GraphBackend) -> None:
        self._backend = backend
        self.shapes = Shapes()  #: of all machines, which share those that are equal
        self._machines: dict[str, Machine] = {}
        #: Why each request finds no place, by the request's text and the machine's digest; "" where it does.
        self._answers: dict[str, dict[str, str]] = {}

    def __len__(self) -> int:
        return len(self._machines)

    def get(self, digest: str | None) -> Machine | None:
        """The machine of a description, None where it is not known."""
        return None if digest is None else self._machines.get(digest)

    def add(self, digest: str, graph: ClusterGraph) -> Machine:
        """Keep the machine of a description."""
        known = self._machines.get(digest)
        if known is None:
            known = self._machines[digest] = Machine(digest, graph, self._backend.put(digest, graph), self)
        return known

    def keep(self, digests: Iterable[str]) -> None:
        """Forget all machines but some."""
        forgotten = self._machines.keys() - set(digests)
        for digest in forgotten:
            self._machines.pop(digest, None)
            self._backend.remove(digest)
        # A decision that goes on may still read the answers that it has got.
        self._answers = {
            asks: {digest: missing for digest, missing in answers.items() if digest not in forgotten}
            for asks, answers in list(self._answers.items())
        }

    def misfits(self, asks: str, machines: Sequence[Machine]) -> Mapping[str, str]:
        """What each of some machines lacks for a request, which is given as its text; by digest, "" where it fits."""
        answers = self._answers.get(asks, {})
        unknown = [machine for machine in machines if machine.digest not in answers]
        if unknown:
            answers = {**answers, **self._find_misfits(asks, unknown)}
            if len(self._answers) >= _MOST_REQUESTS:
                self._answers.clear()
            self._answers[asks] = answers
        return answers

    def _find_misfits(self, asks: str, machines: Iterable[Machine]) -> dict[str, str]:
        digests, request = dict.fromkeys(map(self._kept, machines)), read_request(asks)
        fits = self._backend.match(request, digests)
        misfits = dict.fromkeys(digests, "")
        texts: dict[tuple[Shortage, ...], str] = {}  # many machines lack the same
        without_place = [digest for digest, fit in fits.items() if fit is not Fit.FITS]
        for digest, shortages in self._backend.explain(request, without_place).items() if without_place else ():
            if shortages not in texts:
                texts[shortages] = describe_shortages(shortages[:_MOST_NAMED])
            misfits[digest] = texts[shortages]
        return misfits

    def free(self, machine: Machine, amounts: Mapping[str, Amounts], closed: Collection[str]) -> FreeGraph:
        """What is free of a machine, by vertex; vertices and types that are not named are free, unless closed."""
        return self._backend.free(self._kept(machine), amounts, closed)

    def _kept(self, machine: Machine) -> str:
        """The digest of a machine, which the backend has."""
        if machine.digest not in self._machines:  # forgotten, while a decision by an older fleet goes on
            self._machines[machine.digest] = machine
            self._backend.put(machine.digest, machine.graph)
        return machine.digest
