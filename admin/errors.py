"""Every error the admin answers with.

RainbowError
├── InvalidRequest            400  a field is wrong; the details name it and the remedy
│   ├── UnknownProject        400
│   ├── UnknownDomain         400
│   ├── UndeclaredKind        400
│   ├── ProjectArchived       400
│   ├── UnknownPool           400
│   ├── UnknownLabel          400
│   ├── UnknownCluster        400
│   ├── ClusterDisabled       400
│   ├── NoClusterLargeEnough  400
│   ├── RequestFenced         400
│   ├── AboveLimit            400
│   └── UnknownQueueTag       400
├── Unauthenticated           401
├── RegistrationRefused       401
├── Forbidden                 403
├── TooManyAttempts           429
├── NotFound                  404
│   ├── AttributeNotFound     404
│   ├── ProjectNotFound       404
│   ├── RevisionNotFound      404
│   ├── RevisionPruned        404
│   ├── PoolNotFound          404
│   ├── LabelNotFound         404
│   ├── ClusterNotFound       404
│   ├── WorkflowNotFound      404
│   ├── LaunchPlanNotFound    404
│   ├── ExecutionNotFound     404
│   ├── TokenNotFound         404
│   └── PathNotFound          404
├── MethodNotAllowed          405
├── Conflict                  409
│   ├── VersionConflict       409
│   ├── ProjectExists         409
│   ├── AlreadyExists         409
│   ├── AlreadyRegistered     409
│   ├── AgentReplaced         409
│   ├── InUse                 409
│   ├── DeclaredInConfiguration 409
│   ├── VersionExists         409
│   ├── ExecutionExists       409
│   └── NotRecoverable        409
├── BodyTooLarge              413
├── UnsupportedMediaType      415
├── Internal                  500
└── Unavailable               503

A class's docstring is its message where none is given.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from admin.core.problems import Invalid, Problem, Refused

#: The most problems that one answer lists.
MOST_DETAILS = 50


class RainbowError(Exception):
    """Something went wrong."""

    status: ClassVar[int] = 500
    code: ClassVar[int] = 13  #: gRPC's number, which Flyte's clients expect
    name: ClassVar[str] = "internal"

    def __init__(self, message: str = "", *, details: list[dict[str, Any]] | None = None) -> None:
        self.message = message or inspect.cleandoc(type(self).__doc__ or "")
        self.details = details or []
        super().__init__(self.message)


class InvalidRequest(RainbowError):
    """The request breaks a rule; the details name the field and the remedy."""

    status, code, name = 400, 3, "invalid_request"

    @classmethod
    def of(cls, invalid: Invalid) -> InvalidRequest:
        """The error for problems that the core found; the error of that name where the core named the rule."""
        if isinstance(invalid, Refused):
            cls = next(error for error in InvalidRequest.__subclasses__() if error.name == invalid.error)
        message = " ".join(str(problem) for problem in invalid.problems[:5])
        if len(invalid.problems) > 5:
            message += f" (and {len(invalid.problems) - 5} more)"
        return cls(message, details=[problem_detail(problem) for problem in invalid.problems[:MOST_DETAILS]])


def problem_detail(problem: Problem) -> dict[str, Any]:
    """A problem as answers show it."""
    detail: dict[str, Any] = {"field": problem.field, "reason": problem.reason}
    if problem.index is not None:
        detail["index"] = problem.index
    return detail | {"closest": list(problem.closest)} if problem.closest else detail


class UnknownProject(InvalidRequest):
    """No project of that id. Choose one that `rainbowctl get project` lists, or create it first."""

    name = "unknown_project"


class UnknownDomain(InvalidRequest):
    """No domain of that id. Choose one that `rainbowctl get domain` lists; domains are configured at the admin."""

    name = "unknown_domain"


class UndeclaredKind(InvalidRequest):
    """The change would bring back rows of a kind that configuration no longer declares. Declare it again first."""

    name = "undeclared_kind"


class ProjectArchived(InvalidRequest):
    """The project is archived: its attributes can be read, not written. Activate it first."""

    code, name = 9, "project_archived"


class UnknownPool(InvalidRequest):
    """No pool of that name. `rainbowctl get pool` lists them."""

    name = "unknown_pool"


class UnknownLabel(InvalidRequest):
    """No label of that name. `rainbowctl get label` lists them."""

    name = "unknown_label"


class UnknownCluster(InvalidRequest):
    """No cluster of that name. `rainbowctl get cluster` lists them."""

    name = "unknown_cluster"


class ClusterDisabled(InvalidRequest):
    """The named cluster is disabled."""

    code, name = 9, "cluster_disabled"


class NoClusterLargeEnough(InvalidRequest):
    """No candidate cluster is large enough for the job."""

    code, name = 9, "no_cluster_large_enough"


class RequestFenced(InvalidRequest):
    """Requests in this domain may not override the cluster, pool or label that settings name."""

    code, name = 9, "request_fenced"


class AboveLimit(InvalidRequest):
    """The job asks for more than a limit allows."""

    name = "above_limit"


class UnknownQueueTag(InvalidRequest):
    """No queue serves the tags that settings give the execution."""

    code, name = 9, "unknown_queue_tag"


class RegistrationRefused(RainbowError):
    """The registration secret is wrong, or this name may not register here. Ask the team that runs the admin."""

    status, code, name = 401, 16, "registration_refused"


class Forbidden(RainbowError):
    """This token does not allow the request."""

    status, code, name = 403, 7, "forbidden"


class TooManyAttempts(RainbowError):
    """Too many wrong registrations. Wait a minute, then try again with the right secret."""

    status, code, name = 429, 8, "too_many_attempts"


class Unauthenticated(RainbowError):
    """This admin needs a bearer token. Set RAINBOW_TOKEN, or send 'Authorization: Bearer <token>'."""

    status, code, name = 401, 16, "unauthenticated"


class NotFound(RainbowError):
    """Not found."""

    status, code, name = 404, 5, "not_found"


class AttributeNotFound(NotFound):
    """Nothing is set at this scope."""

    name = "attribute_not_found"


class ProjectNotFound(NotFound):
    """No project of that id."""

    name = "project_not_found"


class RevisionNotFound(NotFound):
    """No revision of that number. `rainbowctl history` lists them."""

    name = "revision_not_found"


class RevisionPruned(NotFound):
    """That revision is no longer kept. `rainbowctl history` lists those that are."""

    name = "revision_pruned"


class PoolNotFound(NotFound):
    """No pool of that name. `rainbowctl get pool` lists them."""

    name = "pool_not_found"


class LabelNotFound(NotFound):
    """No label of that name. `rainbowctl get label` lists them."""

    name = "label_not_found"


class ClusterNotFound(NotFound):
    """No cluster of that name. `rainbowctl get cluster` lists them."""

    name = "cluster_not_found"


class WorkflowNotFound(NotFound):
    """No such workflow. `rainbowctl get workflow` lists them."""

    name = "workflow_not_found"


class LaunchPlanNotFound(NotFound):
    """No such launch plan. `rainbowctl get launchplan` lists them."""

    name = "launch_plan_not_found"


class ExecutionNotFound(NotFound):
    """No such execution. `rainbowctl get execution` lists them."""

    name = "execution_not_found"


class PathNotFound(NotFound):
    """No such path. /api/v1/openapi.json lists the paths, /api/v1/docs/ shows them."""

    name = "path_not_found"


class MethodNotAllowed(RainbowError):
    """The path exists but does not take this method; the Allow header lists the ones it takes."""

    status, code, name = 405, 12, "method_not_allowed"


class Conflict(RainbowError):
    """The request contradicts what is stored."""

    status, code, name = 409, 10, "conflict"


class VersionConflict(Conflict):
    """The row has changed meanwhile. Read it again and repeat the change on the current version."""

    name = "version_conflict"


class ProjectExists(Conflict):
    """A project of that id exists already. Update it instead, or choose another id."""

    code, name = 6, "project_exists"


class AlreadyExists(Conflict):
    """Something of that name exists already. Update it instead, or choose another name."""

    code, name = 6, "already_exists"


class AlreadyRegistered(Conflict):
    """A live token of that cluster exists. Rotate or revoke it, or register under another name."""

    code, name = 6, "already_registered"


class AgentReplaced(Conflict):
    """Another agent of this cluster has taken over. Stop this one: a cluster has one agent."""

    code, name = 10, "agent_replaced"


class TokenNotFound(NotFound):
    """No such token. `rainbowctl get token CLUSTER` lists them."""

    name = "token_not_found"


class InUse(Conflict):
    """It is in use. Change what uses it first, or use force."""

    code, name = 9, "in_use"


class DeclaredInConfiguration(Conflict):
    """The admin's configuration declares it: change it there."""

    code, name = 9, "declared_in_configuration"


class VersionExists(Conflict):
    """That version is registered already, with another body. Choose another version: versions are never edited."""

    code, name = 6, "version_exists"


class ExecutionExists(Conflict):
    """An execution of that name exists already, for another request. Choose another name."""

    code, name = 6, "execution_exists"


class NotRecoverable(Conflict):
    """Only an execution that failed, timed out or was aborted can be recovered."""

    code, name = 9, "not_recoverable"


class BodyTooLarge(RainbowError):
    """The request body is too large."""

    status, code, name = 413, 8, "body_too_large"


class UnsupportedMediaType(RainbowError):
    """The body must be JSON: send it with 'Content-Type: application/json'."""

    status, code, name = 415, 3, "unsupported_media_type"


class Internal(RainbowError):
    """Internal error; nothing was changed. The admin's log has the details under the request id."""


class Unavailable(RainbowError):
    """The database does not answer. Try again shortly; /readyz shows when it is back."""

    status, code, name = 503, 14, "unavailable"


class CannotStart(Exception):
    """Why an admin cannot start, and the remedy; printed, since no request is answered yet."""
