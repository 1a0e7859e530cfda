"""Every error the admin answers with.

A class's docstring is its message where none is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

from admin.core.masking import without_secrets
from admin.core.problems import Invalid, Problem, Refused, closest, did_you_mean, shorten

#: The most problems that one answer lists.
MOST_DETAILS = 50


class RainbowError(Exception):
    """Something went wrong."""

    status: ClassVar[int] = 500
    code: ClassVar[int] = 13  #: gRPC's number, which Flyte's clients expect
    name: ClassVar[str] = "internal"
    retry_after: int | None = None  #: seconds after which to try again
    caller: str | None = None  #: who was refused, where the answer does not say that, or they were not admitted

    def __init_subclass__(cls, *, name: str, status: int | None = None, code: int | None = None) -> None:
        cls.name = name
        if status is not None:
            cls.status = status
        if code is not None:
            cls.code = code

    def __init__(
        self,
        message: str = "",
        *,
        details: list[dict[str, Any]] | None = None,
        restorable: list[dict[str, Any]] | None = None,
        retry_after: int | None = None,
    ) -> None:
        if retry_after is not None:
            self.retry_after = retry_after
        self.restorable = restorable or None  #: rows of a revision that could be undone though others cannot
        self.message = without_secrets(message) or " ".join((type(self).__doc__ or "").split())
        self.details: list[dict[str, Any]] = [
            {key: without_secrets(value) if isinstance(value, str) else value for key, value in detail.items()}
            for detail in details or ()
        ]
        super().__init__(self.message)

    def of_caller(self, name: str | None) -> Self:
        """The same error, which refuses somebody."""
        self.caller = name
        return self

    @property
    def is_denial(self) -> bool:
        """Whether it refuses the caller: for who they are, or because they may not know of what they ask for."""
        return self.status in (401, 403) or self.caller is not None


class InvalidRequest(RainbowError, name="invalid_request", status=400, code=3):
    """The request breaks a rule; the details name the field and the remedy."""

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
    if problem.closest:
        detail["closest"] = list(problem.closest)
    if problem.provenance is not None:
        detail["provenance"] = problem.provenance
    return detail


class UnknownProject(InvalidRequest, name="unknown_project"):
    """No project of that id. Choose one that `rainbowctl get project` lists, or create it first."""

    @classmethod
    def called(cls, project: str, known: Iterable[str]) -> UnknownProject:
        """The error for an unknown project, with the closest known ones."""
        near = closest(project, known)
        reason = (
            f"No project is called '{shorten(project)}'.{did_you_mean(near)} `rainbowctl get project` lists them; "
            f"`rainbowctl create project --id … --name …` makes one."
        )
        return cls(reason, details=[{"field": "project", "reason": reason, "closest": list(near)}])


class UnknownDomain(InvalidRequest, name="unknown_domain"):
    """No domain of that id. Choose one that `rainbowctl get domain` lists; domains are configured at the admin."""


class UndeclaredKind(InvalidRequest, name="undeclared_kind"):
    """The change would bring back rows of a kind that configuration no longer declares. Declare it again first."""


class ProjectArchived(InvalidRequest, name="project_archived", code=9):
    """The project is archived: it can be read, but nothing can be set, registered or created. Activate it first."""


class UnknownPool(InvalidRequest, name="unknown_pool"):
    """No pool of that name. `rainbowctl get pool` lists them."""


class UnknownLabel(InvalidRequest, name="unknown_label"):
    """No label of that name. `rainbowctl get label` lists them."""


class UnknownCluster(InvalidRequest, name="unknown_cluster"):
    """No cluster of that name. `rainbowctl get cluster` lists them."""


class ClusterDisabled(InvalidRequest, name="cluster_disabled", code=9):
    """The named cluster is disabled."""


class QuotaTooSmall(InvalidRequest, name="quota_too_small", code=9):
    """The job asks for more than a quota lets all executions of its scope have. Ask for less, or raise the quota."""


class NoClusterLargeEnough(InvalidRequest, name="no_cluster_large_enough", code=9):
    """No candidate cluster is large enough for the job."""


class RequestFenced(InvalidRequest, name="request_fenced", code=9):
    """Requests in this domain may not override the cluster, pool or label that settings name."""


class AboveLimit(InvalidRequest, name="above_limit"):
    """The job asks for more than a limit allows."""


class VersionExists(InvalidRequest, name="version_exists"):
    """That version is registered already, with another body. Choose another version: versions are never edited."""


class UnknownQueueTag(InvalidRequest, name="unknown_queue_tag", code=9):
    """No queue serves the tags that settings give the execution."""


class RegistrationRefused(RainbowError, name="registration_refused", status=401, code=16):
    """The registration secret is wrong, or this name may not register here. Ask the team that runs the admin."""


class Forbidden(RainbowError, name="forbidden", status=403, code=7):
    """This token does not allow the request."""


class PermissionDenied(Forbidden, name="permission_denied"):
    """You may not do this. `rainbowctl explain access` says what is missing, and who could give it."""


class ForeignOrigin(Forbidden, name="foreign_origin"):
    """A page of another site may not use this admin: only pages that the admin itself serves may."""


class FormExpired(Forbidden, name="form_expired"):
    """This form is too old, or was sent by another site, so nothing was done. Load its page again, and send it anew."""


class TooManyAttempts(RainbowError, name="too_many_attempts", status=429, code=8):
    """Too many wrong registrations. Wait a minute, then try again with the right secret."""

    retry_after = 60
    is_denial = True


class TooManyRequests(RainbowError, name="too_many_requests", status=429, code=8):
    """More requests than this admin allows. Nothing was done; try again when Retry-After is over."""

    retry_after = 1


class QuotaExceeded(RainbowError, name="quota_exceeded", status=429, code=8):
    """A quota has no room for another execution. Nothing was created; try again when fewer wait."""

    retry_after = 10


class TokenLineFull(RainbowError, name="token_line_full", status=429, code=8):
    """Too many claims stand in line for a token pool. Nothing was granted; ask again when Retry-After is over."""

    retry_after = 2


class Unauthenticated(RainbowError, name="unauthenticated", status=401, code=16):
    """This admin needs a bearer token. Set RAINBOW_TOKEN, or send 'Authorization: Bearer <token>'."""


class NotFound(RainbowError, name="not_found", status=404, code=5):
    """Not found."""


class AttributeNotFound(NotFound, name="attribute_not_found"):
    """Nothing is set at this scope."""


class ProjectNotFound(NotFound, name="project_not_found"):
    """No project of that id."""

    @classmethod
    def called(cls, project: str, known: Iterable[str]) -> ProjectNotFound:
        """The error for a project that there is not, with the closest ones that there are."""
        near = closest(project, known)
        return cls(
            f"No project is called '{shorten(project)}'.{did_you_mean(near)} `rainbowctl get project` lists them.",
            details=[{"field": "project", "reason": "is unknown.", "closest": list(near)}],
        )


class RevisionNotFound(NotFound, name="revision_not_found"):
    """No revision of that number. `rainbowctl history` lists them."""


class RevisionPruned(NotFound, name="revision_pruned"):
    """That revision is no longer kept. `rainbowctl history` lists those that are."""


class PoolNotFound(NotFound, name="pool_not_found"):
    """No pool of that name. `rainbowctl get pool` lists them."""


class LabelNotFound(NotFound, name="label_not_found"):
    """No label of that name. `rainbowctl get label` lists them."""


class ClusterNotFound(NotFound, name="cluster_not_found"):
    """No cluster of that name. `rainbowctl get cluster` lists them."""


class DescriptionNotFound(NotFound, name="description_not_found"):
    """The cluster has no description. `rainbowctl update cluster-description` sets one."""


class GroupNotFound(NotFound, name="group_not_found"):
    """No group of that name. `rainbowctl get group` lists them."""


class GrantNotFound(NotFound, name="grant_not_found"):
    """No such grant. `rainbowctl get grant` lists them."""


class ClusterGroupNotFound(NotFound, name="cluster_group_not_found"):
    """No cluster group of that name. `rainbowctl get cluster-group` lists them."""


class UseGrantNotFound(NotFound, name="use_grant_not_found"):
    """No such use grant. `rainbowctl get use-grant` lists them."""


class TokenPoolNotFound(NotFound, name="token_pool_not_found"):
    """No token pool of that name. `rainbowctl get token-pool` lists them."""


class WorkflowNotFound(NotFound, name="workflow_not_found"):
    """No such workflow. `rainbowctl get workflow` lists them."""


class LaunchPlanNotFound(NotFound, name="launch_plan_not_found"):
    """No such launch plan. `rainbowctl get launchplan` lists them."""


class ExecutionNotFound(NotFound, name="execution_not_found"):
    """No such execution. `rainbowctl get execution` lists them."""


class OutputNotFound(NotFound, name="output_not_found"):
    """No such output file. `rainbowctl get output NAME` lists those of an execution."""


class TokenNotFound(NotFound, name="token_not_found"):
    """No such token. `rainbowctl get token CLUSTER` lists them."""


class UserNotFound(NotFound, name="user_not_found"):
    """No user of that name. `rainbowctl get user` lists them."""


class UserTokenNotFound(NotFound, name="user_token_not_found"):
    """No such token. `rainbowctl get user-token USER` lists those of a user."""


class SessionNotFound(NotFound, name="session_not_found"):
    """No such session, or it is over. `rainbowctl get session USER` lists those of a user."""


class ReconciliationNotFound(NotFound, name="reconciliation_not_found"):
    """Nothing to reconcile with that cluster. `rainbowctl get reconciliation` lists what there is."""


class NoProvider(NotFound, name="no_provider"):
    """This admin has no OpenID provider (openid.issuer). Ask for a token, and give it with --token-file."""


class PathNotFound(NotFound, name="path_not_found"):
    """No such path. /api/v1/openapi.json lists the paths, /api/v1/docs/ shows them."""


class MethodNotAllowed(RainbowError, name="method_not_allowed", status=405, code=12):
    """The path exists but does not take this method; the Allow header lists the ones it takes."""


class Conflict(RainbowError, name="conflict", status=409, code=10):
    """The request contradicts what is stored."""


class VersionConflict(Conflict, name="version_conflict"):
    """The row has changed meanwhile. Read it again and repeat the change on the current version."""


class TokenConflict(Conflict, name="token_conflict"):
    """The token holds something else. Release that first, or choose another token."""


class TokensNotHeld(Conflict, name="tokens_not_held"):
    """The tokens are not held: they were never granted, were given back, or their lease is over."""


class ReconciliationChanged(Conflict, name="reconciliation_changed"):
    """The cluster is not as it was seen. Look at `rainbowctl get reconciliation` again, then repeat it."""


class ProjectExists(Conflict, name="project_exists", code=6):
    """A project of that id exists already. Update it instead, or choose another id."""


class AlreadyExists(Conflict, name="already_exists", code=6):
    """Something of that name exists already. Update it instead, or choose another name."""


class AlreadyRegistered(Conflict, name="already_registered", code=6):
    """A live token of that cluster exists. Rotate or revoke it, or register under another name."""


class AgentReplaced(Conflict, name="agent_replaced", code=10):
    """Another agent of this cluster has taken over. Stop this one: a cluster has one agent."""


class AgentPresent(Conflict, name="agent_present", code=9):
    """Another agent of this cluster was heard just now. Stop that one first, or start this one with --take-over."""


class InUse(Conflict, name="in_use", code=9):
    """It is in use. Change what uses it first, or use force."""


class LastAdministrator(Conflict, name="last_administrator", code=9):
    """Nobody would be left who may do everything. Give the role admin on the platform to someone else first."""


class DeclaredInConfiguration(Conflict, name="declared_in_configuration", code=9):
    """The admin's configuration declares it: change it there."""


class ExecutionExists(Conflict, name="execution_exists", code=6):
    """An execution of that name exists already, for another request. Choose another name."""


class NotRecoverable(Conflict, name="not_recoverable", code=9):
    """Only an execution that failed, timed out or was aborted can be recovered."""


class NotSilent(Conflict, name="not_silent", code=9):
    """Only an execution whose lease is over at a silent cluster can be given up. End it without --giveUp."""


class BodyTooLarge(RainbowError, name="body_too_large", status=413, code=8):
    """The request body is too large."""


class BodyTimeout(RainbowError, name="body_timeout", status=408, code=4):
    """The request body stopped arriving, or arrives too slowly (server.receiveSeconds). Send it again."""


class BodyTruncated(RainbowError, name="body_truncated", status=400, code=3):
    """The request body ended before it was whole. Send it again, without trailers."""


class UnsupportedMediaType(RainbowError, name="unsupported_media_type", status=415, code=3):
    """The body must be JSON: send it with 'Content-Type: application/json'."""


class UnknownHost(RainbowError, name="unknown_host", status=421, code=3):
    """This admin is not called by that name. If it should be, add it to server.allowedHosts."""


class Internal(RainbowError, name="internal"):
    """Internal error. The admin's log has the details under the request id. Before you repeat a change, see whether
    it was made."""


class Unavailable(RainbowError, name="unavailable", status=503, code=14):
    """The database does not answer. Try again shortly; /readyz shows when it is back. Before you repeat a change, see
    whether it was made."""

    retry_after = 5


class DatabaseBusy(Unavailable, name="database_busy"):
    """The database is busy: a lock, a connection or an answer took too long. Try again shortly. Before you repeat a
    change, see whether it was made."""

    retry_after = 1


class DatabaseReadOnly(Unavailable, name="database_read_only"):
    """The database can only be read at the moment; /readyz shows when it can be written again. Before you repeat a
    change, see whether it was made."""


class DatabaseFull(Unavailable, name="database_full"):
    """The database's disk is full; /readyz shows when there is room again. Before you repeat a change, see whether it
    was made."""


class DatabaseDamaged(Unavailable, name="database_damaged"):
    """The database cannot be used as it is; the admin's log has the reason. /readyz shows when it can be used again.
    Before you repeat a change, see whether it was made."""


class ProviderUnavailable(RainbowError, name="provider_unavailable", status=503, code=14):
    """The OpenID provider of this admin does not answer, so that the token cannot be verified. Try again shortly."""

    retry_after = 5


class TokensUnreachable(RainbowError, name="tokens_unreachable", status=503, code=14):
    """What keeps the tokens does not answer. Nothing is granted until it does: ask again."""

    retry_after = 1


class Busy(RainbowError, name="busy", status=503, code=14):
    """The admin answers as many requests as it can at once. Try again when Retry-After is over."""

    retry_after = 2


class TooManyWait(Busy, name="too_many_wait"):
    """Too many requests of this kind wait for something to happen. Ask without waiting, or try again later."""

    retry_after = 5


class CannotStart(Exception):
    """Why an admin cannot start, and the remedy; printed, since no request is answered yet."""
