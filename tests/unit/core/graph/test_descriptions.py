from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.graph.description_problems import MOST_PROBLEMS
from admin.core.graph.descriptions import read_description
from admin.core.graph.matching import Matcher
from admin.core.graph.requests import Need, ResourceRequest, Unit, Vertex
from admin.core.graph.requirements import Requirement
from admin.core.graph.shapes import Shapes
from admin.core.graph.summaries import summarize
from admin.core.graph.tree_builder import MOST_LEVELS
from admin.core.problems import Invalid

DATA = Path(__file__).parents[3] / "data" / "graphs"
#: Ids, types and the vertices around them.
SMALL = (("c", "cluster", None), ("n1", "node", "c"), ("n2", "node", "c"), ("k1", "core", "n1"), ("k2", "core", "n2"))


def by_id(*vertices: tuple[str, str, str | None]) -> dict[str, Any]:
    """A description as Rainbow's first scheduler reads it."""
    edges = []
    for id_, _, parent in vertices:
        if parent is not None:
            edges.append({"source": parent, "target": id_, "relation": "contains", "metadata": {}})
            edges.append({"source": id_, "target": parent, "relation": "in", "metadata": {}})
    nodes = {id_: {"label": id_, "metadata": {"type": type_, "size": 1}} for id_, type_, _ in vertices}
    return {"graph": {"directed": True, "nodes": nodes, "edges": edges}}


def listed(*vertices: tuple[str, str, str | None], is_old: bool = False) -> dict[str, Any]:
    """A description as Flux's scheduler writes it, now or before."""
    name = {"name": {"containment": "contains"}} if is_old else {"subsystem": "containment"}
    edges = [{"source": parent, "target": id_, "metadata": name} for id_, _, parent in vertices if parent is not None]
    nodes = [
        {"id": id_, "metadata": {"type": type_, "paths": {"containment": f"/{id_}"}, "rank": number}}
        for number, (id_, type_, _) in enumerate(vertices)
    ]
    return {"graph": {"nodes": nodes, "edges": edges}}


def refusals(document: Any, subsystems: Any = None, **options: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        read_description(document, subsystems, **options)
    return {problem.field.removeprefix("description."): problem.reason for problem in caught.value.problems}


def changed(path: str, value: Any, document: dict[str, Any] | None = None) -> dict[str, Any]:
    """A small description with one value put in another's place."""
    changed = copy.deepcopy(document or by_id(*SMALL))
    *keys, last = path.split("/")
    place: Any = changed
    for key in keys:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(last) if isinstance(place, list) else last] = value
    return changed


@pytest.mark.parametrize(
    "document",
    [
        by_id(*SMALL),
        listed(*SMALL),
        listed(*SMALL, is_old=True),
        listed(*reversed(SMALL)),
        by_id(*((f"7{id_}", type_, parent and f"7{parent}") for id_, type_, parent in SMALL)),
    ],
)
def test_both_shapes_any_order_and_any_root_id(document: Any) -> None:
    summary = summarize(read_description(document))
    assert summary.vertices == {"cluster": 1, "node": 2, "core": 2}
    assert summary.largest["node"] == {"core": 1000}


def test_edges_that_say_only_what_is_in_what() -> None:
    document = by_id(*SMALL)
    document["graph"]["edges"] = [edge for edge in document["graph"]["edges"] if edge["relation"] == "in"]
    assert summarize(read_description(document)).largest["cluster"] == {"node": 2, "core": 2000}


def test_edges_that_say_nothing_hold_their_target() -> None:
    document = listed(*SMALL)
    for edge in document["graph"]["edges"]:
        del edge["metadata"]
    assert summarize(read_description(document)).largest["cluster"] == {"node": 2, "core": 2000}


def test_edges_in_both_directions_that_do_not_say_which_is_inside() -> None:
    """As Flux's scheduler has written them; the paths of the vertices tell."""
    document = listed(*SMALL)
    paths = {"c": "/c", "n1": "/c/n1", "n2": "/c/n2", "k1": "/c/n1/k1", "k2": "/c/n2/k2"}
    for vertex in document["graph"]["nodes"]:
        vertex["metadata"]["paths"]["containment"] = paths[vertex["id"]]
    edges = document["graph"]["edges"]
    backwards = [{**edge, "source": edge["target"], "target": edge["source"]} for edge in edges]
    document["graph"]["edges"] = [*backwards, *edges]
    assert summarize(read_description(document)).largest["cluster"] == {"node": 2, "core": 2000}
    for vertex in document["graph"]["nodes"]:
        del vertex["metadata"]["paths"]
    assert "is inside" in str(refusals(document))


def test_the_resource_set_of_a_flux_instance() -> None:
    resource_set = {"version": 1, "execution": {"R_lite": []}, "scheduling": listed(*SMALL)}
    assert summarize(read_description(resource_set)).vertices["core"] == 2
    assert "is missing" in refusals({"scheduling": {}})["scheduling.graph"]


def test_numbers_as_ids() -> None:
    document = {
        "graph": {
            "nodes": [{"id": 1, "metadata": {"type": "cluster"}}, {"id": 2, "metadata": {"type": "node"}}],
            "edges": [{"source": 1, "target": 2, "metadata": {"subsystem": "containment"}}],
        }
    }
    assert list(read_description(document).ids) == ["1", "2"]


def test_a_single_vertex_is_a_graph() -> None:
    assert summarize(read_description(by_id(("only", "node", None)))).vertices == {"node": 1}


def test_pools_and_units() -> None:
    document = by_id(*SMALL, ("g", "gpu", "n1"), ("m", "memory", "n1"), ("s", "storage", "n2"))
    for id_, size, unit in (("k1", 16, ""), ("g", 4, ""), ("m", 64, "GB"), ("s", 1, "TiB")):
        document["graph"]["nodes"][id_]["metadata"].update(size=size, unit=unit)
    summary = summarize(read_description(document))
    assert summary.largest["node"] == {"core": 16_000, "gpu": 4, "memory": 64 * 10**9, "storage": 2**40}
    assert summary.totals["core"] == 17_000
    document["graph"]["nodes"]["k1"]["metadata"].update(size=1930, unit="m")
    assert summarize(read_description(document)).largest["node"]["core"] == 1930


def test_equal_parts_of_graphs_are_shared() -> None:
    shapes = Shapes()
    first, second = (read_description(document, shapes=shapes) for document in (by_id(*SMALL), listed(*SMALL)))
    assert first.root is second.root
    assert first.root.runs[0][1] == 2


def test_nodes_are_found_by_id_and_by_name() -> None:
    document = changed("graph/nodes/n2/metadata/name", "east-17")
    graph = read_description(document)
    assert graph.position_of("n2") == graph.position_of("east-17")
    assert graph.ids[graph.position_of("k2")] == "k2"
    with pytest.raises(Invalid, match="'n9' is no vertex of the graph"):
        graph.position_of("n9")


def test_own_fields_and_properties_can_be_required() -> None:
    document = changed("graph/nodes/n2/metadata/properties", {"rack-end": "yes", "empty": ""})
    document["graph"]["nodes"]["n1"]["metadata"]["generation"] = 3
    graph = read_description(document)
    for requirement, expected in (
        (Requirement("containment", "properties.rack-end", match="yes"), True),
        (Requirement("containment", "generation", lowest=3), True),
        (Requirement("containment", "generation", lowest=4), False),
        (Requirement("containment", "name", match="n1"), False),
        (Requirement("containment", "properties.empty", match=""), True),
        (Requirement("containment", "properties.empty", match=True), True),
    ):
        request = ResourceRequest((Need(Vertex("node", (Need(Unit("core"), 1000),), (requirement,)), 1),))
        assert Matcher(request).fits(graph) == expected


def io(*links: tuple[str, str], ids: tuple[str, ...] = ("io0", "io1")) -> dict[str, Any]:
    nodes = {id_: {"metadata": {"type": "shm" if id_ != "io0" else "io"}} for id_ in ids}
    return {"graph": {"nodes": nodes, "edges": [{"source": a, "target": b, "relation": "contains"} for a, b in links]}}


SHM = Requirement("io", "type", match="shm")


def nodes_with_shm(graph: Any) -> int:
    need = Vertex("node", (Need(Unit("core"), 1000),), (SHM,))
    return next(count for count in (2, 1, 0) if Matcher(ResourceRequest((Need(need, count),))).fits(graph))


def test_subsystems_are_linked_to_vertices() -> None:
    assert nodes_with_shm(read_description(by_id(*SMALL), {"io": io(("n1", "io1"))})) == 1
    assert nodes_with_shm(read_description(by_id(*SMALL), {"io": io(("n1", "io1"), ("io1", "n2"))})) == 2
    assert nodes_with_shm(read_description(by_id(*SMALL), {"io": io(("n1", "io0"), ("io0", "io1"))})) == 0


def test_subsystems_in_the_graph_of_the_cluster() -> None:
    """As Flux's scheduler writes them: edges name the subsystem."""
    document = listed(*SMALL)
    document["graph"]["nodes"].append({"id": "x", "metadata": {"type": "switch", "speed": 200}})
    document["graph"]["edges"].append({"source": "x", "target": "n1", "metadata": {"subsystem": "network"}})
    graph = read_description(document)
    assert "switch" not in summarize(graph).vertices
    fast = Requirement("network", "speed", lowest=100)
    need = Vertex("node", (Need(Unit("core"), 1000),), (fast,))
    assert Matcher(ResourceRequest((Need(need, 1),))).fits(graph)
    assert not Matcher(ResourceRequest((Need(need, 2),))).fits(graph)


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        (None, "graph", "is missing"),
        ({}, "graph", "is missing"),
        ({"graph": []}, "graph", "a list is not a mapping"),
        ({"graph": {}}, "graph.nodes", "is missing"),
        ({"graph": {"nodes": 5}}, "graph.nodes", "5 is neither a mapping nor a list"),
        ({"graph": {"nodes": {}}}, "graph.nodes", "is empty"),
        ({"graph": {"nodes": []}}, "graph.nodes", "is empty"),
        (changed("graph/edges", {}), "graph.edges", "a mapping is not a list"),
        (changed("graph/nodes/k1", 3), "graph.nodes.k1", "3 is not a mapping"),
        (changed("graph/nodes/k1/metadata", []), "graph.nodes.k1.metadata", "a list is not a mapping"),
        (changed("graph/nodes/k1/metadata/type", None), "graph.nodes.k1.metadata.type", "is missing"),
        (changed("graph/nodes/k1/metadata/type", 5), "graph.nodes.k1.metadata.type", "5 is not a type"),
        (changed("graph/nodes/k1/metadata/type", "a b"), "graph.nodes.k1.metadata.type", "'a b' is not a type"),
        (changed("graph/nodes/k1/metadata/type", ""), "graph.nodes.k1.metadata.type", "'' is not a type"),
        (
            changed("graph/nodes/k1/metadata/type", "Cores"),
            "graph.nodes.k1.metadata.type",
            "unknown type 'Cores': give core",
        ),
        (changed("graph/nodes/k1/metadata/type", "cpu"), "graph.nodes.k1.metadata.type", "give core"),
        (changed("graph/nodes/k1/metadata/type", "RAM"), "graph.nodes.k1.metadata.type", "give memory"),
        (changed("graph/nodes/n1/metadata/type", "host"), "graph.nodes.n1.metadata.type", "give node"),
        (
            changed("graph/nodes/k1/metadata/properties", dict.fromkeys(map(str, range(1000)), "x")),
            "graph.nodes.k1.metadata",
            "has 1,002 fields, more than 1,000",
        ),
        (changed("graph/nodes/k1/metadata/size", -1), "graph.nodes.k1.metadata.size", "-1 is below zero"),
        (changed("graph/nodes/k1/metadata/size", 1.5), "graph.nodes.k1.metadata.size", "1.5 is not a whole number"),
        (changed("graph/nodes/k1/metadata/size", True), "graph.nodes.k1.metadata.size", "true is not a whole number"),
        (changed("graph/nodes/k1/metadata/size", "4"), "graph.nodes.k1.metadata.size", "'4' is not a whole number"),
        (changed("graph/nodes/k1/metadata/size", None), "graph.nodes.k1.metadata.size", "null is not a whole number"),
        (changed("graph/nodes/k1/metadata/size", 2**70), "graph.nodes.k1.metadata.size", "is larger than any machine"),
        (changed("graph/nodes/k1/metadata/size", []), "graph.nodes.k1.metadata.size", "a list is not a whole number"),
        (changed("graph/nodes/k1/metadata/unit", 5), "graph.nodes.k1.metadata.unit", "5 is not text"),
        (changed("graph/nodes/k1/metadata/unit", {}), "graph.nodes.k1.metadata.unit", "a mapping is not text"),
        (
            changed("graph/nodes/k1/metadata/type", "memory"),
            "graph.nodes.k1.metadata.unit",
            "is missing: give one of B",
        ),
        (changed("graph/nodes/n1/metadata/size", 4), "graph.nodes.n1.metadata.size", "4 is not the size of a vertex"),
        (changed("graph/edgez", []), "graph.edgez", "unknown field 'edgez'. Did you mean 'edges'?"),
        (changed("graph/nodes/n1/metdata", {}), "graph.nodes.n1.metdata", "Did you mean 'metadata'?"),
        (changed("graph/nodes/n1/properties", {}), "graph.nodes.n1.properties", "is outside the metadata"),
        (changed("graph/nodes/n1/name", "x"), "graph.nodes.n1.name", "is outside the metadata"),
        (changed("graph/nodes/n1/colour", "red"), "graph.nodes.n1.colour", "Anything else belongs into the metadata."),
        (changed("graph/nodes/k1/metadata/Unit", "m"), "graph.nodes.k1.metadata.Unit", "did you mean 'unit'?"),
        (changed("graph/nodes/n1/type", "core"), "graph.nodes.n1.type", "is outside the metadata"),
        (changed("graph/edges/0/relatoin", "in"), "graph.edges.0.relatoin", "Did you mean 'relation'?"),
        (changed("graf", {}), "graf", "Did you mean 'graph'?"),
        (changed("graph/nodes/n1/metadata/name", 5), "graph.nodes.n1.metadata.name", "5 is not a name"),
        (changed("graph/nodes/n1/metadata/name", ""), "graph.nodes.n1.metadata.name", "'' is not a name"),
        (changed("graph/nodes/n1/metadata/name", "a\0"), "graph.nodes.n1.metadata.name", "is not a name"),
        (changed("graph/nodes/k1/metadata/name", ["a"]), "graph.nodes.k1.metadata.name", "a list is not a name"),
        (changed("graph/nodes/n1/metadata/arch", ["x"]), "graph.nodes.n1.metadata.arch", "a list is not text"),
        (changed("graph/nodes/n1/metadata/os", 5), "graph.nodes.n1.metadata.os", "5 is not text"),
        (changed("graph/nodes/k1/metadata/model", {}), "graph.nodes.k1.metadata.model", "a mapping is not text"),
        (
            changed("graph/nodes/n1/metadata/properties", ["ssd"]),
            "graph.nodes.n1.metadata.properties",
            "a list is not a mapping: give each property with its value",
        ),
        (
            changed("graph/nodes/n1/metadata/properties", {"ssd": None}),
            "graph.nodes.n1.metadata.properties.ssd",
            "null is neither text nor a number: give '' if it has no value",
        ),
        (changed("graph/edges/0", 5), "graph.edges.0", "5 is not a mapping"),
        (changed("graph/edges/0", {"target": "c"}), "graph.edges.0.source", "is missing"),
        (changed("graph/edges/0/target", None), "graph.edges.0.target", "null is not an id"),
        (changed("graph/edges/0/source", "x"), "graph.edges.0", "edge x → n1: no vertex has the id 'x'"),
        (changed("graph/edges/0/target", "x"), "graph.edges.0", "edge c → x: no vertex has the id 'x'"),
        (changed("graph/edges/0/relation", "near"), "graph.edges.0.relation", "unknown relation 'near'"),
        (changed("graph/edges/0/relation", None), "graph.edges.0.relation", "is missing"),
        (changed("graph/edges/0/metadata", 5, listed(*SMALL)), "graph.edges.0.relation", "is missing"),
        (changed("graph/edges/0/metadata", {"name": 5}, listed(*SMALL)), "graph.edges.0.relation", "is missing"),
        (changed("graph/edges/0/relation", 5), "graph.edges.0.relation", "5 is not text"),
        (by_id(*SMALL, ("d", "cluster", None)), "graph.nodes", "vertices 'c', 'd' are inside no other"),
        (by_id(("a", "rack", "b"), ("b", "rack", "a")), "graph.nodes", "has no root"),
        (by_id(*SMALL, ("a", "rack", "b"), ("b", "rack", "a")), "graph.edges", "vertex 'a' is inside itself"),
        (by_id(*SMALL, ("a", "rack", "a")), "graph.edges.8", "vertex 'a' is inside itself"),
        (listed(*SMALL, ("k1", "core", "n2")), "graph.nodes.k1", "is given twice"),
        (changed("graph/nodes/1/id", None, listed(*SMALL)), "graph.nodes.1.id", "is missing"),
        (changed("graph/nodes/1/id", ["n1"], listed(*SMALL)), "graph.nodes.1.id", "a list is not an id"),
        (changed("graph/nodes/1/id", "a\nb", listed(*SMALL)), "graph.nodes.1.id", "is not an id"),
        (changed("graph/nodes/1", "n1", listed(*SMALL)), "graph.nodes.1", "'n1' is not a mapping"),
        (by_id(("c", "node", None), ("n", "node", "c")), "graph.nodes.c", "is a node inside which there is a node"),
        (by_id(*SMALL, ("d", "cluster", "n1")), "graph.nodes.n1", "is a node inside which there is a cluster"),
        (changed("graph/nodes/n1/id", "q"), "graph.nodes.n1.id", "'q' is not 'n1', the key of the vertex"),
        (changed("graph/nodes/n1/id", None), "graph.nodes.n1.id", "null is not 'n1', the key of the vertex"),
        (changed("graph/nodes/n1/metadata/arch", ""), "graph.nodes.n1.metadata.arch", "'' is not text"),
    ],
)
def test_what_is_wrong_is_refused_by_name(document: Any, field: str, reason: str) -> None:
    assert reason in refusals(document)[field]


@pytest.mark.parametrize("place", ["nodes/n1", "edges/0"])
def test_what_the_format_has_and_any_metadata_are_taken(place: str) -> None:
    """`null` is what some programs write of what they do not know."""
    document = by_id(*SMALL)
    document["graph"]["nodes"]["n2"]["id"] = "n2"
    document["graph"].update(id="g", label="my cluster", type="resources", directed=True, metadata={"any": ["thing"]})
    read_description(document)
    document = changed(f"graph/{place}/label", "x", changed("graph/nodes/n1/type", "node", document))
    metadata = document["graph"]["nodes"]["n1"]["metadata"]
    metadata |= {
        "name": None,
        "properties": None,
        "arch": None,
        "mine": ["x"],
        "uuid": "u",
        "status": 0,
        "agfilter": {},
    }
    read_description(document)


def test_what_fluxion_writes_beside_a_graph_is_taken() -> None:
    graph = listed(*SMALL)
    written = {**graph, "writer": "fluxion:jgf"}
    for document in (written, {"version": 1, "execution": {"R_lite": []}, "scheduling": written}):
        assert summarize(read_description(document)).vertices["core"] == 2
    assert "Did you mean 'writer'?" in refusals({"scheduling": {**graph, "writter": "x"}})["scheduling.writter"]


def test_other_words_are_types_of_their_own() -> None:
    document = by_id(*SMALL, ("d", "ssd", "n1"), ("f", "fpga", "n1"), ("p", "pu", "k1"))
    assert summarize(read_description(document)).largest["node"] == {"core": 1000, "ssd": 1, "fpga": 1, "pu": 1}


def test_two_parents_are_refused() -> None:
    document = by_id(*SMALL)
    document["graph"]["edges"].append({"source": "n1", "target": "k2", "relation": "contains"})
    assert refusals(document) == {"graph.edges.8": "vertex 'k2' is inside 'n2' and 'n1': keep one of them."}


def test_a_graph_may_be_so_deep_and_no_deeper() -> None:
    chain = [("v0", "cluster", None), *((f"v{n}", "level", f"v{n - 1}") for n in range(1, MOST_LEVELS))]
    assert len(read_description(by_id(*chain)).ids) == MOST_LEVELS
    deeper = refusals(by_id(*chain, ("low", "core", f"v{MOST_LEVELS - 1}")))
    assert deeper == {"graph.nodes": f"vertex 'low' is deeper than {MOST_LEVELS} levels: leave levels out."}


def test_too_many_vertices_are_refused_before_they_are_read() -> None:
    assert len(read_description(by_id(*SMALL), most_vertices=5).ids) == 5
    assert refusals(by_id(*SMALL), most_vertices=4) == {
        "graph.nodes": "5 vertices are more than 4: describe equal units as one vertex with a size."
    }
    both = refusals(by_id(*SMALL), {"io": io(("n1", "io1"))}, most_vertices=6)
    assert "7 vertices are more than 6" in both["subsystems.io.graph.nodes"]


def test_a_document_that_is_wrong_throughout_has_a_bounded_answer() -> None:
    document = by_id(*((f"v{number}", "core", None) for number in range(1000)))
    for vertex in document["graph"]["nodes"].values():
        vertex["metadata"]["size"] = -1
    assert len(refusals(document)) == MOST_PROBLEMS


@pytest.mark.parametrize(
    ("subsystems", "field", "reason"),
    [
        ({"io": None}, "subsystems.io.graph", "is missing"),
        ({"cluster": io(("n1", "io1"))}, "subsystems.cluster", "is the main graph"),
        ({"a b": io(("n1", "io1"))}, "subsystems.a b", "'a b' is not a name"),
        ({"io": io(("n1", "x"))}, "subsystems.io.graph.edges.0", "edge n1 → x: no vertex has the id 'x'"),
        ({"io": io(("n1", "n2"))}, "subsystems.io.graph.edges.0", "joins two vertices of the main graph"),
        ({"io": io(("n1", "io1"), ids=("io1", "n1"))}, "subsystems.io.graph.nodes.n1", "an id of the main graph too"),
        (
            {"io": io(("n1", "io1"), ids=("io0", "io1", "io2"))},
            "subsystems.io.graph.nodes",
            "vertices 'io0', 'io2' have no link to the main graph",
        ),
        (
            {"io": io(("n1", "io1"), ("io1", "io2"), ("io2", "io1"), ids=("io1", "io2"))},
            "subsystems.io.graph.edges",
            "vertices 'io1', 'io2' are inside themselves",
        ),
        ({"io": io(ids=("io1",))}, "subsystems.io.graph.nodes", "vertex 'io1' has no link to the main graph"),
        (
            {"io": io(("n1", "io1"), ("io2", "io3"), ids=("io1", "io2", "io3"))},
            "subsystems.io.graph.nodes",
            "vertices 'io2', 'io3' have no link",
        ),
        (
            {"io": changed("graph/nodes/io1/metadata/size", -2, io(("n1", "io1")))},
            "subsystems.io.graph.nodes.io1.metadata.size",
            "below zero",
        ),
    ],
)
def test_what_is_wrong_with_a_subsystem_is_refused_by_name(subsystems: Any, field: str, reason: str) -> None:
    assert reason in refusals(by_id(*SMALL), subsystems)[field]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["c", "n1", "io1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PLACES = (
    "graph",
    "graph/nodes",
    "graph/edges",
    "graph/nodes/n1",
    "graph/nodes/n1/metadata",
    "graph/nodes/n1/metadata/type",
    "graph/nodes/n1/metadata/size",
    "graph/nodes/n1/metadata/unit",
    "graph/nodes/n1/metadata/name",
    "graph/nodes/n1/metadata/speed",
    "graph/edges/0",
    "graph/edges/0/source",
    "graph/edges/0/relation",
    "graph/edges/0/metadata",
)


@given(st.sampled_from(PLACES), JSON)
def test_any_value_anywhere_is_read_or_refused(place: str, value: Any) -> None:
    with suppress(Invalid):
        summarize(read_description(changed(place, value)))


@given(JSON, JSON)
def test_any_document_is_read_or_refused(document: Any, subsystem: Any) -> None:
    for main, others in (
        (document, {}),
        (by_id(*SMALL), {"io": subsystem}),
        (by_id(*SMALL), {"io": {"graph": subsystem}}),
    ):
        with suppress(Invalid):
            read_description(main, others)


def test_the_examples_register() -> None:
    documents = {path.name: json.loads(path.read_text()) for path in DATA.glob("*.json")}
    main = documents["cluster-nodes.json"]
    for names in ((), ("io",), ("spack",), ("io", "spack")):
        files = {"io": "cluster-io-subsystem.json", "spack": "spack-subsystem.json"}
        graph = read_description(main, {name: documents[files[name]] for name in names})
        assert len(graph.ids) == 44


def with_power(*edges: tuple[str, str], ids: tuple[str, ...] = ("p",)) -> dict[str, Any]:
    """A list whose edges bring a subsystem along."""
    document = listed(*SMALL)
    metadata = {"type": "pdu", "name": "pdu0", "size": 1000, "unit": "W"}
    document["graph"]["nodes"] += [{"id": id_, "metadata": metadata} for id_ in ids]
    document["graph"]["edges"] += [
        {"source": source, "target": target, "metadata": {"subsystem": "power", "relationship": "contains"}}
        for source, target in edges
    ]
    return document


def test_what_is_wrong_with_a_subsystem_within_the_main_graph_is_refused_by_vertex() -> None:
    cycle = refusals(with_power(("n1", "p"), ("p", "q"), ("q", "p"), ids=("p", "q")))
    assert "vertices 'p', 'q' are inside themselves" in cycle["graph.edges"]
    alone = refusals(with_power(("p", "q"), ids=("p", "q")))
    assert "vertices 'p', 'q' have no link to the main graph" in alone["graph.nodes"]
    read_description(with_power(("n1", "p"), ("p", "q"), ids=("p", "q")))


@pytest.mark.parametrize(
    "requirement",
    [
        Requirement("power", "type", "pdu"),
        Requirement("power", "size", None, 900),
        Requirement("power", "name", "pdu0"),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_inline", [True, False])
def test_type_size_and_name_of_subsystems_are_asked_alike_in_either_shape(
    is_inline: bool, requirement: Requirement
) -> None:
    inline = with_power(("n1", "p"))
    power = {"nodes": {"p": inline["graph"]["nodes"][-1]}, "edges": [{**inline["graph"]["edges"][-1]}]}
    graph = read_description(inline) if is_inline else read_description(by_id(*SMALL), {"power": {"graph": power}})
    need = Need(Vertex("node", (Need(Unit("core"), 1000),), (requirement,)), 1)
    assert Matcher(ResourceRequest((need,))).fits(graph)
    assert not Matcher(ResourceRequest((need._replace(amount=2),))).fits(graph)


def test_type_and_size_of_the_main_graph_may_be_required() -> None:
    def fits(*requires: Requirement) -> bool:
        return Matcher(ResourceRequest((Need(Unit("core", requires), 1000),))).fits(graph)

    graph = read_description(changed("graph/nodes/k1/metadata/size", 8))
    assert fits(Requirement("containment", "size", None, 8))
    assert fits(Requirement("containment", "type", "core"), Requirement("containment", "size", 1))
    assert not fits(Requirement("containment", "size", None, 9))
    assert not fits(Requirement("containment", "type", "node"))


@pytest.mark.parametrize("type_", ["core", "gpu", "socket", "node"])
@pytest.mark.parametrize("unit", ["GiB", "MHz"])
def test_a_unit_of_what_is_counted_is_refused_by_vertex(type_: str, unit: str) -> None:
    document = changed("graph/nodes/k1/metadata", {"type": type_, "size": 8, "unit": unit})
    assert f"a {type_} has no unit, such as '{unit}'" in refusals(document)["graph.nodes.k1.metadata.unit"]
    read_description(changed("graph/nodes/k1/metadata", {"type": "bandwidth", "size": 8, "unit": "Gb"}))
