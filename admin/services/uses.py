"""Where something is used: what names it, the scopes that this reaches, and the executions that were decided by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.core.executions.own_settings import job_paths
from admin.core.executions.received import LAYERS
from admin.core.executions.selectors import Condition, equals
from admin.core.fleet.definitions import FleetKind
from admin.core.json_text import JsonObject
from admin.core.problems import Path, closest, dotted
from admin.core.provenance import Provenance
from admin.core.settings.field_revisions import FieldsByRow, RowVersion
from admin.core.settings.kinds import Kind
from admin.core.token_pools import definitions
from admin.core.use_grants import Named
from admin.services.access import Access
from admin.services.context import Context
from admin.services.field_provenance import find_field_provenance
from admin.services.token_uses import TOKEN_POOL, TokenRequests, find_token_requests, unfinished_executions
from admin.services.use_grants import GrantedUse, granted_use_of
from admin.services.use_reach import Reached, reached_scopes
from admin.services.use_search import Ask, Question, Use, UseSearch
from admin.services.visibility import seen_executions
from admin.store import attributes, decisions, execution_lists, revisions, row_changes
from admin.store.executions import ListedExecution
from admin.store.given_jobs import given_jobs_of

#: Executions that are looked at and named.
EXECUTIONS, NAMED = 1000, 100
#: Rows that are looked at for fields which are called alike.
EXAMINED = 1000
_DEFINED = frozenset(kind.noun for kind in FleetKind)
#: The kinds of rows of what may have been deleted.
_DELETABLE = {**{kind.noun: kind.value for kind in FleetKind}, TOKEN_POOL: definitions.TOKEN_POOL}


@dataclass(frozen=True, kw_only=True)
class Affected:
    """Unfinished executions that were decided by it."""

    phases: Mapping[str, int]
    executions: Sequence[ListedExecution]  #: the first of them
    waiting_for: int | None  #: of a cluster: how many of them have none and name it in their requests
    is_complete: bool  #: whether all unfinished executions were looked at


@dataclass(frozen=True, kw_only=True)
class Uses:
    """A page of uses, and the scopes that they reach, as of one revision."""

    question: Question
    revision: int
    provenance: Mapping[int, Provenance]  #: of the rows that name it, by their versions
    uses: list[Use] = field(default_factory=list)
    reached: list[Reached] = field(default_factory=list)
    affected: Affected | None = None  #: on the first page
    deleted_by: Provenance | None = None  #: of a pool, label or cluster that is not there, as far as that is known
    next_key: tuple[str, ...] | None = None
    granted: GrantedUse | None = None  #: of a pool, label or cluster, on the first page, if the caller may read them
    token_requests: TokenRequests | None = None  #: of a token pool, on the first page
    closest: tuple[str, ...] = ()  #: fields like one that no row of those looked at sets, whose key rows choose


def find_uses(context: Context, ask: Ask, after: tuple[str, ...] | None, limit: int) -> Uses:
    """A page of what names it and of the scopes that this reaches, from after a position on.

    A position is that of a use, and then the scope below that was looked at last, as nine texts.
    """
    with context.database.reading() as connection:
        question = ask(connection)
        uses, places, last = UseSearch(context, connection, question).page(after, limit)
        access = context.access
        if access.is_restricted:
            uses = [_told(access, use) for use in uses if use.key or access.allows("attributes.read", use.scope)]
            places = [(use, scope) for use, scope in places if access.allows("attributes.read", scope)]
        affected = _find_affected(context, connection, question) if after is None else None
        revision = revisions.head(connection)
        reached = reached_scopes(context, connection, question, places)
        field_provenance = find_field_provenance(context, connection, filter(None, map(_row_of, uses)))
        near = _fields_near(context, connection, question) if after is None and last is None and not uses else ()
        granted = None
        if after is None and question.noun in _DEFINED and access.allows("use_grants.read"):
            granted = granted_use_of(connection, Named(question.noun, question.name))
        token_requests = None
        if after is None and question.noun == TOKEN_POOL:
            token_requests = find_token_requests(context, connection, question.name)
        deleted_by = None
        if not question.is_known and question.noun in _DELETABLE:
            kind = _DELETABLE[question.noun]
            deleted_by = row_changes.deleted_by(connection, kind, [question.name]).get(question.name)
    return Uses(
        question=question,
        revision=revision,
        provenance=field_provenance.provenance,
        uses=[_with_revision(use, field_provenance.fields) for use in uses],
        reached=reached,
        affected=affected,
        deleted_by=deleted_by,
        granted=granted,
        token_requests=token_requests,
        next_key=last,
        closest=near,
    )


def _fields_near(context: Context, connection: Connection, question: Question) -> tuple[str, ...]:
    """Fields that rows which the caller may read set and that are called like one which none sets; of some rows."""
    [sought, *_] = question.sought
    path, kind = sought.path, sought.kind
    if path is None or not kind.payload.has_free_key(path):
        return ()
    # No text is asked for, since the key in question is in none of them.
    within = context.access.scopes("attributes.read")
    page = attributes.containing(connection, kind.name, [], None, most=EXAMINED, limit=EXAMINED, within=within)
    keys = {leaf[-1] for row in page.rows for leaf in kind.leaves(row.payload) if leaf[:-1] == path[:-1]}
    return () if path[-1] in keys else tuple(dotted((*path[:-1], key)) for key in closest(path[-1], keys))


def _told(access: Access, use: Use) -> Use:
    """A use without who registered the launch plan that says it, if the caller may not read that."""
    if use.registered_by is None or access.allows("workflows.read", use.scope):
        return use
    return replace(use, registered_by=use.registered_by.without_author())


def _row_of(use: Use) -> RowVersion | None:
    return RowVersion(use.sought.kind.name, use.scope, use.version) if use.version else None


def _with_revision(use: Use, fields: FieldsByRow) -> Use:
    """A use with the last revision that set a field by which a row uses it, or with one before which it was set."""
    row = _row_of(use)
    if row is None or row not in fields:
        return use
    revisions = fields[row].revisions
    number = max((revisions[path] for path in map(dotted, use.leaves) if path in revisions), default=None)
    return replace(use, revision=number, set_before=fields[row].set_before if number is None else None)


def _find_affected(context: Context, connection: Connection, question: Question) -> Affected:
    """The unfinished executions that were decided by it, of a limited number; of a cluster also what waits for it.

    Those are without a cluster, and their requests name it.
    """
    if question.noun == TOKEN_POOL:
        executions, is_complete = unfinished_executions(context, connection, question.name, EXECUTIONS)
        return _affected(executions, is_complete=is_complete)
    unfinished = equals("phase", *(phase.value for phase in UNFINISHED))
    if question.noun not in ("pool", "label", "cluster"):
        page = _executions(context, connection, unfinished)
        return _affected(_decided_by(connection, question, page.executions), is_complete=page.last is None)
    page = _executions(context, connection, unfinished, equals(question.noun, question.name))
    if question.noun != "cluster":
        return _affected(page.executions, is_complete=page.last is None)
    is_queued, is_nowhere = equals("phase", Phase.QUEUED.value), equals("cluster", "")
    waiting = _executions(context, connection, is_queued, is_nowhere, equals("requested_cluster", question.name))
    newest = sorted([*page.executions, *waiting.executions], key=lambda execution: execution.id, reverse=True)
    is_complete = page.last is None and waiting.last is None
    return _affected(newest, is_complete=is_complete, waiting_for=len(waiting.executions))


def _executions(
    context: Context, connection: Connection, *conditions: Condition
) -> execution_lists.Page[ListedExecution]:
    """The newest executions that fit some conditions, up to a number."""
    limits = context.list_limits
    selected = [*conditions, *seen_executions(context)]
    return execution_lists.page(connection, selected, ListedExecution, limit=EXECUTIONS, limits=limits)


class _Named(NamedTuple):
    """The fields of a kind by which the settings of an execution name it."""

    kind: Kind
    is_certain: bool  #: whether a field is from the request or the launch plan, over which no job wins
    paths: Sequence[Path]  #: the others

    def is_followed(self, job: JsonObject | None) -> bool:
        """Whether a job, where it is known, leaves one of the fields to the settings."""
        return self.is_certain or job is None or len(job_paths(self.kind, self.paths, [job])) < len(self.paths)


def _decided_by(connection: Connection, question: Question, listed: Sequence[ListedExecution]) -> list[ListedExecution]:
    """Those of some executions whose settings name it and whose jobs say nothing else; equal trails are read once."""
    keys = [(execution.id, execution.decisions) for execution in listed]
    digests = decisions.settings_trails(connection, keys)
    named = {
        digest: named
        for digest, settings in decisions.settings(connection, digests.values()).items()
        if (named := list(_named(question, settings)))
    }
    naming = [execution for execution in listed if digests.get(execution.id) in named]
    jobs = given_jobs_of(connection, [execution.id for execution in naming])
    return [
        execution
        for execution in naming
        if any(fields.is_followed(jobs.get(execution.id)) for fields in named[digests[execution.id]])
    ]


def _named(question: Question, settings: Sequence[JsonObject]) -> Iterator[_Named]:
    for setting in settings:
        for sought in question.sought:
            paths = list(sought.find(setting["value"])) if sought.kind.name == setting["resource_type"] else []
            if paths:
                by_rows = [path for path in paths if setting["origins"][dotted(path)]["level"] not in LAYERS]
                yield _Named(sought.kind, len(by_rows) < len(paths), by_rows)


def _affected(executions: Sequence[ListedExecution], *, is_complete: bool, waiting_for: int | None = None) -> Affected:
    phases = Counter(execution.phase for execution in executions)
    first = executions[:NAMED]
    return Affected(phases=phases, executions=first, is_complete=is_complete, waiting_for=waiting_for)
