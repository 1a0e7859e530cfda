"""Every error the admin answers with.

RainbowError
├── InvalidRequest            400  a field is wrong; the details say which and how to mend it
│   ├── UnknownProject        400
│   ├── UnknownDomain         400
│   ├── UndeclaredKind        400
│   └── ProjectArchived       400
├── Unauthenticated           401
├── NotFound                  404
│   ├── AttributeNotFound     404
│   ├── ProjectNotFound       404
│   ├── RevisionNotFound      404
│   └── PathNotFound          404
├── MethodNotAllowed          405
├── Conflict                  409
│   ├── VersionConflict       409
│   └── ProjectExists         409
├── BodyTooLarge              413
├── UnsupportedMediaType      415
├── Internal                  500
└── Unavailable               503

A class's docstring is its message where none is given.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from admin.core.problems import Invalid, Problem

#: A request with thousands of faults is answered with the first of them.
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
        """The error for problems that the core found."""
        message = " ".join(str(problem) for problem in invalid.problems[:5])
        if len(invalid.problems) > 5:
            message += f" (and {len(invalid.problems) - 5} more)"
        return cls(message, details=[problem_detail(problem) for problem in invalid.problems[:MOST_DETAILS]])


def problem_detail(problem: Problem) -> dict[str, Any]:
    """A problem as it stands in an answer."""
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


class Unauthenticated(RainbowError):
    """This admin wants a bearer token. Set RAINBOW_TOKEN, or send 'Authorization: Bearer <token>'."""

    status, code, name = 401, 16, "unauthenticated"


class NotFound(RainbowError):
    """There is no such thing."""

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
    """Someone else changed the row meanwhile. Read it again and repeat the change on what is there now."""

    name = "version_conflict"


class ProjectExists(Conflict):
    """A project of that id exists already. Update it instead, or choose another id."""

    code, name = 6, "project_exists"


class BodyTooLarge(RainbowError):
    """The request body is too large."""

    status, code, name = 413, 8, "body_too_large"


class UnsupportedMediaType(RainbowError):
    """The body must be JSON: send it with 'Content-Type: application/json'."""

    status, code, name = 415, 3, "unsupported_media_type"


class Internal(RainbowError):
    """Something broke inside the admin; nothing was changed. Its log has the details under the request id."""


class Unavailable(RainbowError):
    """The database does not answer right now. Try again shortly; /readyz tells when it is back."""

    status, code, name = 503, 14, "unavailable"


class CannotStart(Exception):
    """A reason for an admin not to start, with what to do about it; nobody is there to be answered yet."""
