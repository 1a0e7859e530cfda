"""create_app(): the one place where everything is wired."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec
from flask import Flask
from flask_swagger_ui import get_swaggerui_blueprint

from admin.api import (
    agents,
    all_definitions,
    attributes,
    audit,
    changes,
    cluster_groups,
    cluster_resources,
    descriptions,
    effective,
    executions,
    fleet,
    grants,
    openid,
    placements,
    projects,
    quotas,
    reconciliations,
    registrations,
    revisions,
    service,
    sessions,
    token_pools,
    use_grants,
    user_groups,
    users,
)
from admin.api.browsers import BrowserGuard
from admin.api.failures import answer_failures
from admin.api.fast_lane import FastLane
from admin.api.front import Front, name_routes
from admin.api.openapi import document
from admin.api.operations import Operation, Rest
from admin.configuration import OpenId, ResourceManager, Settings
from admin.configuration.graph_backends import find_backend
from admin.console.front import Console, all_pages
from admin.console.signing_in import GATE
from admin.core.graph.machines import Machines
from admin.core.identities import Identity
from admin.core.permissions import OPEN
from admin.core.settings.effective_text.texts import EffectiveTexts
from admin.gate import Gate
from admin.messages.reading import prepare_bodies
from admin.metrics import StateCollector, count_reclaimed, count_tokens
from admin.services.agents import MOST_WRONG_SECRETS, cluster_of
from admin.services.audit import Auditor
from admin.services.audit_queue import AuditFile, AuditQueue
from admin.services.change_commits import commit_changes
from admin.services.context import Context
from admin.services.live_answers import LiveAnswers
from admin.services.live_streams import LiveStreams
from admin.services.rates import RateLimiter
from admin.services.rendering_cache import RenderingCache
from admin.services.sessions import identify_session
from admin.services.state import StateSummary
from admin.services.tokens import is_live
from admin.services.user_tokens import user_of
from admin.services.users import act_as, has_users, has_users_now
from admin.services.visibility import access_of
from admin.services.waiting import WaitLimiter
from admin.services.wrong_attempts import FailureLimiter, WrongTokens
from admin.store.cache.cluster_wakeups import ClusterWakeups
from admin.store.cache.index import Index
from admin.store.cache.shared_counter import SharedCounter
from admin.store.cache.shared_rates import SharedRates
from admin.store.cache.watchers import SequenceWatcher
from admin.store.creations import CreationWriter
from admin.store.database import Database, db, engine_options
from admin.store.dialects import TimeLimits
from admin.store.execution_events import last_event
from admin.store.group_commit import GroupCommit
from admin.store.revisions import head
from admin.store.token_backends.base import Observer, TokenBackend
from admin.store.token_backends.choice import choose_backend
from admin.store.token_backends.redis_client import RedisSettings
from admin.store.write_probe import WriteProbe
from admin.token_file import TokenFile

_OPERATIONS = (
    agents.operations,
    all_definitions.operations,
    attributes.operations,
    audit.operations,
    changes.operations,
    service.clock,
    service.health,
    service.configuration,
    effective.operations,
    executions.operations,
    fleet.operations,
    user_groups.operations,
    grants.operations,
    cluster_groups.operations,
    cluster_resources.operations,
    descriptions.operations,
    use_grants.operations,
    token_pools.operations,
    service.kinds,
    openid.operations,
    placements.operations,
    projects.operations,
    quotas.operations,
    reconciliations.operations,
    registrations.operations,
    revisions.operations,
    sessions.operations,
    users.operations,
    service.warnings,
    service.description,
    service.probes,
)
#: Folders of pages that are no operations, and what they need.
FOLDERS = {service.DOCS_PATH: OPEN}
#: Changes in one transaction: as many as there are writers at most times.
_MOST_CHANGES = 64


def create_app(settings: Settings, counter_file: int | None = None, rates_file: int | None = None) -> Flask:
    """A Flask app that answers for one database; the workers of one admin share the files."""
    prepare_bodies()
    app = Flask("admin", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.server.max_body_bytes
    app.config["SQLALCHEMY_DATABASE_URI"] = settings.database_url
    limits = TimeLimits(
        connect=settings.database_connect_seconds,
        statement=settings.database_statement_seconds,
        lock=settings.database_lock_seconds,
    )
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = engine_options(settings.database_pool_size, limits)
    app.url_map.converters["rest"] = Rest
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False  # a doubled slash is a mistake to be named, not to be redirected away
    db.init_app(app)
    with app.app_context():
        database = Database(db.engine, limits=limits)
    app.extensions["rainbow"] = context = _context(settings, database, counter_file, rates_file)
    app.extensions["rainbow-registration-limiter"] = FailureLimiter(MOST_WRONG_SECRETS)
    app.extensions["rainbow-metrics"] = StateCollector(StateSummary(context))
    app.extensions["rainbow-openapi"] = cache(lambda: msgspec.json.encode(document(all_operations(), settings.kinds)))
    name_routes(app)
    console = Console(app, all_operations())
    answer_failures(app, console)
    for operations in _OPERATIONS:
        app.register_blueprint(operations.blueprint)
    app.register_blueprint(
        get_swaggerui_blueprint(
            service.DOCS_PATH, service.DOCUMENT_PATH, config={"app_name": "Rainbow", "validatorUrl": None}
        )
    )
    check_declared(app)
    shared_tokens = _shared_tokens(settings)
    gate = app.extensions[GATE] = Gate(
        tokens=shared_tokens,
        cluster_of=lambda token: cluster_of(app.extensions["rainbow"], token),
        operations=[*all_operations(), *all_pages()],
        user_of=lambda token: user_of(app.extensions["rainbow"], token),
        has_users=lambda: has_users(app.extensions["rainbow"]),
        act_as=lambda identity, name: act_as(app.extensions["rainbow"], identity, name),
        has_users_now=lambda: has_users_now(app.extensions["rainbow"]),
        identify=_identify(settings.openid),
        serves_openly=settings.server.serve_openly,
        wrong_tokens=WrongTokens(settings.limits.wrong_tokens_per_minute),
        is_live=lambda token: is_live(app.extensions["rainbow"], token),
        session_of=lambda id: identify_session(app.extensions["rainbow"], id, shared_tokens),
        open_folders=[folder for folder, permission in FOLDERS.items() if permission == OPEN],
    )
    guard = BrowserGuard(settings.accepted_hosts)
    front = Front(
        gate,
        guard,
        FastLane(lambda: app.extensions["rainbow"], app.wsgi_app),
        most_at_once=settings.server.threads,
        max_body_bytes=settings.server.max_body_bytes,
        auditor=Auditor(lambda: app.extensions["rainbow"]),
        rate_limiter=context.rate_limiter,
        knows=lambda identity, project: access_of(app.extensions["rainbow"], identity).knows(project),
        pages=console,
    )
    app.extensions["rainbow-front"] = front
    app.wsgi_app = front  # type: ignore[method-assign]
    return app


def _shared_tokens(settings: Settings) -> Callable[[], tuple[bytes, ...]] | None:
    """The tokens that operators share; none, where every request needs one all the same; None where it does not."""
    if settings.server.api_token_file:
        return TokenFile(settings.server.api_token_file)
    return (lambda: ()) if settings.needs_token else None


def _context(settings: Settings, database: Database, counter_file: int | None, rates_file: int | None) -> Context:
    return Context(
        settings=settings,
        database=database,
        revision_watcher=SequenceWatcher(database, head),
        event_watcher=SequenceWatcher(database, last_event),
        cluster_wakeups=ClusterWakeups(database),
        wait_limiter=WaitLimiter(settings.server.threads),
        rate_limiter=RateLimiter(settings.limits, SharedRates(rates_file)),
        index=Index(database, SharedCounter(counter_file), settings.kinds),
        effective_texts=EffectiveTexts(settings.kinds, settings.platform),
        creations=GroupCommit(CreationWriter(database), lock=database.write_lock),
        changes=GroupCommit(commit_changes, _MOST_CHANGES, database.write_lock),
        write_probe=WriteProbe(database),
        tokens=_tokens(settings.resource_manager, database),
        rendering_cache=RenderingCache(settings.cluster_resources),
        clock=database.clock,
        live_streams=LiveStreams(database, settings.most_live_streams, workers=settings.server.workers),
        live_answers=LiveAnswers(database.clock),
        audit_queue=AuditQueue(AuditFile(settings.audit_file) if settings.audit_file else None),
        machines=Machines(find_backend(settings.graph_backend)()),
    )


def _tokens(manager: ResourceManager, database: Database) -> TokenBackend:
    redis = RedisSettings(host_paths=manager.host_paths, host_key=manager.host_key, max_retries=manager.max_retries)
    observer = Observer(answered=count_tokens, reclaimed=count_reclaimed)
    return choose_backend(manager.type, database, redis, manager.longest_lease_seconds, observer)


def _identify(openid: OpenId | None) -> Callable[[str], Identity] | None:
    """What gives the user of an OpenID token; None where no provider is configured."""
    if openid is None:
        return None
    from admin.services.openid import Verifier  # loads cryptography, which an admin without a provider has no use for

    return Verifier(openid).identify


def check_declared(app: Flask) -> None:
    """Refuse to start with a route that is no operation, since nothing says which permission it needs."""
    declared = {(operation.method, operation.path) for operation in [*all_operations(), *all_pages()]}
    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            if (method, rule.rule) not in declared and not _is_page(rule.rule):
                raise RuntimeError(
                    f"{method} {rule.rule} declares no permission: add it with Operations.add or Pages.add."
                )


def _is_page(path: str) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in FOLDERS)


def all_operations() -> list[Operation]:
    """Every operation of the API."""
    return [operation for operations in _OPERATIONS for operation in operations.all]
