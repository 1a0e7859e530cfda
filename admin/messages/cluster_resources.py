"""Cluster resources: the Kubernetes objects that templates make of projects and domains."""

from __future__ import annotations

from typing import Annotated

from marshmallow import fields, validate
from msgspec import Meta

from admin.core.cluster_resources.rendering import RenderedObject
from admin.core.cluster_resources.states import ObjectState
from admin.core.cluster_resources.values import Value
from admin.messages.requests import NAME, SCOPE_KEY, Flag, PageQuery, RequestSchema, Whole
from admin.messages.shared import Answer, Json, OriginAnswer, Time, one_of
from admin.services.cluster_resources import ClusterNamespace, NamespaceStates, RenderedNamespace


class NamespaceQuery(RequestSchema):
    """The project and domain of a namespace."""

    project = fields.String(required=True, validate=SCOPE_KEY)
    domain = fields.String(required=True, validate=SCOPE_KEY)
    cluster = fields.String(validate=NAME, metadata={"description": "Whose agent makes it."})


class NamespacesQuery(PageQuery):
    """Which namespaces are listed."""

    limit = Whole(load_default=1000, validate=validate.Range(min=1, max=1000))
    project = fields.String(validate=SCOPE_KEY)
    domain = fields.String(validate=SCOPE_KEY)
    cluster = fields.String(validate=NAME, metadata={"description": "Whose agent makes them."})
    failing = Flag(load_default=False, metadata={"description": "Only those where something is wrong or missing."})


class ObjectStateAnswer(Answer):
    """What became of an object."""

    object: str
    state: Annotated[str, one_of(*(state.value for state in ObjectState))]
    message: Annotated[str | None, Meta(description="In the API server's words.")] = None


class ClusterNamespaceAnswer(Answer):
    """What became of a namespace on one cluster."""

    cluster: str
    state: Annotated[
        str,
        one_of("pending", *(state.value for state in ObjectState)),
        Meta(description="That of the object which is worst off; pending until what is rendered now was applied."),
    ]
    exists: Annotated[bool, Meta(description="Whether the namespace is there.")]
    reported_at: Time | None = None
    objects: list[ObjectStateAnswer]

    @classmethod
    def from_cluster(cls, entry: ClusterNamespace) -> ClusterNamespaceAnswer:
        report = entry.report
        return cls(
            cluster=entry.cluster,
            state=entry.state,
            exists=report is not None and report.exists,
            reported_at=None if report is None else report.reported_at,
            objects=[
                ObjectStateAnswer(object=item.object, state=item.state.value, message=item.message or None)
                for item in (report.objects if report else ())
            ],
        )


class NamespaceStateAnswer(Answer):
    """A namespace, and what became of it on each cluster."""

    project: str
    domain: str
    namespace: str
    problems: Annotated[list[str], Meta(description="Why nothing is made of it now.")]
    clusters: list[ClusterNamespaceAnswer]


class NamespaceEventAnswer(Answer):
    """What became of an object, and when."""

    at: Time
    cluster: str
    namespace: str
    object: str
    state: str
    message: str


class NamespaceStatesAnswer(Answer):
    """Namespaces, and what happened to their objects."""

    namespaces: list[NamespaceStateAnswer]
    count: Annotated[int, Meta(description="How many there are in all.")]
    token: Annotated[str | None, Meta(description="Of the next page.")] = None
    events: Annotated[
        list[NamespaceEventAnswer], Meta(description="Of one project and domain, newest first, at most 100.")
    ]

    @classmethod
    def from_states(cls, states: NamespaceStates, token: str | None) -> NamespaceStatesAnswer:
        return cls(
            token=token,
            namespaces=[
                NamespaceStateAnswer(
                    project=state.scope.project,
                    domain=state.scope.domain,
                    namespace=state.namespace,
                    problems=list(state.problems),
                    clusters=[ClusterNamespaceAnswer.from_cluster(entry) for entry in state.clusters],
                )
                for state in states.namespaces
            ],
            count=states.count,
            events=[NamespaceEventAnswer.from_attributes(event) for event in states.events],
        )


class VariableAnswer(Answer):
    """A variable of the templates, and where its value comes from."""

    name: str
    value: Annotated[str, Meta(description="'(hidden)' for what the admin reads from its environment or a file.")]
    origin: Annotated[OriginAnswer | None, Meta(description="Left out for what the platform fills in.")] = None
    resource_type: Annotated[str | None, Meta(description="The kind whose value it is.")] = None
    source: Annotated[str | None, Meta(description="The environment variable or file that it is read from.")] = None
    text: Annotated[str, Meta(description="The origin in words.")]

    @classmethod
    def from_value(cls, name: str, value: Value) -> VariableAnswer:
        origin = value.origin
        return cls(
            name=name,
            value=value.shown,
            origin=None
            if origin is None
            else OriginAnswer(
                domain=origin.scope.domain or None,
                project=origin.scope.project or None,
                level=origin.level.value,
                version=origin.version,
                key=origin.key or None,
            ),
            resource_type=value.kind or None,
            source=value.source or None,
            text=value.origin_text,
        )


class ObjectAnswer(Answer):
    """One Kubernetes object."""

    object: Annotated[str, Meta(description="Its kind and name.")]
    template: Annotated[str, Meta(description="The file of its template.")]
    line: int
    document: Json
    variables: Annotated[list[str], Meta(description="The variables that were filled in.")]


class RenderingAnswer(Answer):
    """What the templates make of one project and domain."""

    project: str
    domain: str
    namespace: str
    digest: Annotated[str | None, Meta(description="Changes with any object; left out where there are problems.")] = (
        None
    )
    templates: Annotated[str, Meta(description="The directory of the templates, or 'built in'.")]
    objects: list[ObjectAnswer]
    variables: list[VariableAnswer]
    problems: Annotated[
        list[str], Meta(description="Why nothing is made of it, each with its file and line; what there is stays.")
    ]
    clusters: Annotated[list[str], Meta(description="The clusters whose agents make it.")]
    revision: int

    @classmethod
    def from_namespace(cls, rendered: RenderedNamespace) -> RenderingAnswer:
        rendering = rendered.rendering
        return cls(
            project=rendering.scope.project,
            domain=rendering.scope.domain,
            namespace=rendering.namespace,
            digest=rendering.digest or None,
            templates=rendering.templates.source,
            objects=[_object(entry) for entry in rendering.shown_objects],
            variables=[VariableAnswer.from_value(*item) for item in sorted(rendering.values.items())],
            problems=list(rendering.problems),
            clusters=list(rendered.clusters),
            revision=rendered.revision,
        )


def _object(entry: RenderedObject) -> ObjectAnswer:
    return ObjectAnswer(
        object=entry.identity,
        template=entry.file,
        line=entry.line,
        document=dict(entry.document),
        variables=list(entry.variables),
    )
