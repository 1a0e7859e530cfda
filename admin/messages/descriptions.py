"""Descriptions of clusters: their graphs, the trees that are drawn of them, and their revisions."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from marshmallow import fields
from msgspec import Meta, Raw

from admin.core.graph.inventories import warnings_of
from admin.messages.requests import AuthorshipFields, Fields, Number, RequestSchema
from admin.messages.shared import Answer, ClaimedBy, ProofField, Time
from admin.services.description_views import DescriptionView
from admin.services.descriptions import DescriptionWritten

_GRAPH = {
    "type": "object",
    "description": "A graph in JSON Graph Format: nodes by id or as a list, each with a type, and edges.",
}
_KEPT = "As files of graphs and resource sets have it; it is kept and means nothing here."
EXAMPLE_NODES = {
    "0": {"metadata": {"type": "cluster"}},
    "1": {"metadata": {"type": "node", "name": "n1"}},
    "2": {"metadata": {"type": "core", "size": 12}},
}
EXAMPLE_EDGES = [
    {"source": "0", "target": "1", "relation": "contains"},
    {"source": "1", "target": "2", "relation": "contains"},
]


class DescriptionBody(AuthorshipFields):
    """A description; the core reads it."""

    example: ClassVar[Fields] = {"graph": {"nodes": EXAMPLE_NODES, "edges": EXAMPLE_EDGES}, "message": "new racks"}

    graph = fields.Raw(metadata=_GRAPH)
    scheduling = fields.Raw(
        metadata={"type": "object", "description": "A graph within a resource set of Flux, in place of `graph`."}
    )
    subsystems = fields.Raw(
        metadata={
            "type": "object",
            "description": "Graphs of subsystems by name, such as io, whose edges lead to vertices of the main graph.",
        }
    )
    name = fields.Raw(metadata={"type": "string", "description": _KEPT})
    version = fields.Raw(metadata={"type": "integer", "description": _KEPT})
    execution = fields.Raw(metadata={"type": "object", "description": _KEPT})
    attributes = fields.Raw(metadata={"type": "object", "description": _KEPT})
    writer = fields.Raw(metadata={"type": "string", "description": _KEPT})


class DescriptionPatchBody(DescriptionBody):
    """What is to be changed of a description: the graph, single subsystems (null removes one), or both."""

    example: ClassVar[Fields] = {"graph": {"nodes": EXAMPLE_NODES, "edges": EXAMPLE_EDGES}}


class DescriptionQuery(RequestSchema):
    revision = Number(least=1, metadata={"description": "A revision of the description; the newest by default."})


class TypeCount(Answer):
    vertices: int
    amount: Annotated[str, Meta(description="The sum of their sizes, such as 36 or 512Gi.")]


class BranchAnswer(Answer):
    """Equal siblings of a graph, with what is inside each."""

    type: str
    count: int
    size: Annotated[str | None, Meta(description="Of each, where it is not one.")] = None
    linked: Annotated[
        dict[str, int] | None, Meta(description="Vertices of subsystems that are linked to each, by subsystem.")
    ] = None
    contains: list[BranchAnswer] | None = None


class DescriptionRevisionAnswer(Answer):
    """A revision of a cluster's description."""

    cluster: str
    revision: Annotated[int, Meta(description="1, 2, 3 … for each cluster.")]
    at: Time
    author: str
    claimed_by: ClaimedBy = None
    proof: ProofField = None
    message: str | None = None
    by_agent: Annotated[bool, Meta(description="Whether the cluster's agent sent it.")]
    digest: Annotated[str | None, Meta(description="Of the document; absent where the description was removed.")] = None
    types: Annotated[dict[str, TypeCount] | None, Meta(description="How much there is of each type.")] = None
    subsystem_vertices: Annotated[dict[str, int] | None, Meta(description="How many vertices each subsystem has.")] = (
        None
    )
    differences: Annotated[
        list[str], Meta(description="In what it differs from the revision before; empty where that is no longer kept.")
    ]
    warnings: Annotated[
        list[str] | None, Meta(description="What is questionable about it, such as nodes of one name.")
    ] = None

    @classmethod
    def from_view(cls, view: DescriptionView, **more: object) -> Self:
        revision = view.revision
        inventory = revision.inventory
        return cls.from_attributes(
            revision,
            revision=revision.number,
            types=None if inventory is None else {name: TypeCount(**of) for name, of in inventory["types"].items()},
            subsystem_vertices=(inventory or {}).get("subsystems") or None,
            warnings=warnings_of(inventory) or None,
            differences=list(view.differences),
            **more,
        )


class DescriptionAnswer(DescriptionRevisionAnswer):
    """A description as it was sent."""

    document: Annotated[
        Raw | None,
        Meta(
            description="The graph, its subsystems and what else was sent; absent where it was removed.",
            extra_json_schema={"type": "object"},
        ),
    ] = None

    @classmethod
    def from_document(cls, view: DescriptionView) -> DescriptionAnswer:
        return cls.from_view(view, document=None if view.document is None else Raw(view.document))


class DescriptionTreeAnswer(DescriptionRevisionAnswer):
    """A description as a tree, with equal siblings counted."""

    tree: BranchAnswer | None = None

    @classmethod
    def from_tree(cls, view: DescriptionView) -> DescriptionTreeAnswer:
        return cls.from_view(view, tree=None if view.tree is None else view.tree.as_json())


class DescriptionsAnswer(Answer):
    descriptions: list[DescriptionRevisionAnswer]
    token: str | None = None


class DescriptionWrittenAnswer(Answer):
    """What a write of a description did."""

    description: Annotated[
        DescriptionRevisionAnswer | None, Meta(description="As it is now; absent where there is none.")
    ] = None
    changed: bool
    dry_run: bool
    note: Annotated[str | None, Meta(description="Why nothing was changed, or what else the change means.")] = None

    @classmethod
    def from_written(cls, written: DescriptionWritten) -> DescriptionWrittenAnswer:
        view = written.view
        return cls.from_attributes(
            written, description=None if view is None else DescriptionRevisionAnswer.from_view(view)
        )
