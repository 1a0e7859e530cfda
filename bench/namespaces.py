"""Namespaces: rendering those of a thousand projects in three domains, and finding what a change makes otherwise.

Services are called in one process, with the attributes of a thousand projects stored; an agent's part is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.namespace_exchanges import NamespaceExchange, exchange_namespaces
from admin.services.rendering_cache import RenderingCache, Renderings
from admin.services.renderings import render_namespaces
from bench.databases import Backend
from bench.figures import Figure
from bench.load import QUICK, Pace
from tests.support.apps import context_of, opened_app

NAME = "namespaces"
PROJECTS, DOMAINS = 1000, 3
_ALL = f"{PROJECTS * DOMAINS:,} namespaces"
RENDER, AGAIN, ONE, DOMAIN = (
    f"render {_ALL}",
    f"ask for {_ALL}, nothing changed",
    f"render {_ALL} again, one attribute changed",
    f"render {_ALL} again, the attribute of a domain changed",
)
FETCH, DIFFER, PLAN = f"fetch {_ALL}", f"find what differs of {_ALL}", f"plan one attribute of {_ALL}"
_CLUSTER = "k8s"
_TIMES = 5


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database, in milliseconds; the least of some tries."""
    sections: dict[str, Any] = {
        "clusters": {"clusterConfigs": [{"name": _CLUSTER, "clusterResources": True}]},
        "cluster_resources": {"templateData": {"projectQuotaCpu": "4", "projectQuotaMemory": "3000Mi"}},
    }
    with opened_app(backend.create(), **sections) as app:
        api, context = app.test_client(), context_of(app)
        _fill(api)
        times = 1 if pace is QUICK else _TIMES

        def rendered() -> Renderings:
            with context.database.reading() as connection:
                return render_namespaces(context, connection)

        def figure(what: str, act: Callable[[], Any], before: Callable[[int], Any] = lambda number: None) -> Figure:
            seconds = []
            for number in range(times):
                before(number)
                begin = time.perf_counter()
                act()
                seconds.append(time.perf_counter() - begin)
            return Figure(bench=NAME, what=what, value=min(seconds) * 1000, unit="ms", database=backend.name)

        yield figure(RENDER, rendered, lambda _: _forget(context))
        yield figure(AGAIN, rendered)
        yield figure(ONE, rendered, lambda number: _put(api, "p7/development", f"1{number}"))
        yield figure(DOMAIN, rendered, lambda number: _put_domain(api, f"2{number}"))
        yield figure(FETCH, lambda: _fetch(context))
        everything = _fetch(context)
        known = {rendering.namespace: rendering.digest for rendering in everything}

        def differ() -> None:
            exchange = exchange_namespaces(context, _CLUSTER, "", known, ())
            assert [rendering.namespace for rendering in exchange.changed] == ["p8-development"]

        yield figure(DIFFER, differ, lambda number: _put(api, "p8/development", f"3{number}"))
        yield figure(PLAN, lambda: _plan(api))


def _forget(context: Context) -> None:
    """Let everything be rendered anew."""
    cache: RenderingCache = context.rendering_cache
    cache.keep(None, {})


def _fetch(context: Context) -> list[Any]:
    """All namespaces, page by page, as an agent that has none."""
    known: dict[str, str] = {}
    everything: list[Any] = []
    while True:
        exchange: NamespaceExchange = exchange_namespaces(context, _CLUSTER, "", known, ())
        everything += exchange.changed
        known |= {rendering.namespace: rendering.digest for rendering in exchange.changed}
        if not exchange.has_more:
            return everything


def _fill(api: FlaskClient) -> None:
    """A thousand projects, each with a quota of its own in one domain."""
    for start in range(0, PROJECTS, 500):
        projects = [{"project_definition": {"id": f"p{number}"}} for number in range(start, start + 500)]
        _change(api, projects)
        quotas = [_quota(f"p{number}", "development", str(number)) for number in range(start, start + 500)]
        _change(api, quotas)


def _quota(project: str, domain: str, cpu: str) -> dict[str, Any]:
    payload = {"attributes": {"projectQuotaCpu": cpu}}
    return {"resource_type": "CLUSTER_RESOURCE", "project": project, "domain": domain, "payload": payload}


def _change(api: FlaskClient, changes: list[dict[str, Any]], query: str = "") -> Any:
    answer = api.post(f"/api/v1/attribute_changes{query}", json={"changes": changes})
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.json


def _put(api: FlaskClient, place: str, cpu: str) -> None:
    project, domain = place.split("/")
    _change(api, [_quota(project, domain, cpu)])


def _put_domain(api: FlaskClient, cpu: str) -> None:
    payload = {"attributes": {"projectQuotaMemory": f"{cpu}Gi"}}
    _change(api, [{"resource_type": "CLUSTER_RESOURCE", "domain": "staging", "payload": payload}])


def _plan(api: FlaskClient) -> None:
    answer = _change(api, [_quota("p9", "development", "99")], "?dry_run=true")
    assert answer["namespaces"]["count"] == 1
