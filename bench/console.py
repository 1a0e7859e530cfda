"""Pages of the console: how long each takes and how large it is, and what open pages that are kept up to date cost.

A million finished executions and some that wait are stored, with 10,000 scopes and a thousand clusters. At last
executions are created while 200 pages are open, each of which asks for itself again when it is told to.
"""

from __future__ import annotations

import http.client
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from admin.console.front import NAVIGATION, all_pages
from admin.console.pages import PREFIX
from bench import creations, stock
from bench.admins import admin_on, port_of
from bench.agents import Client
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.finished import add_finished
from bench.live_pages import LivePages
from bench.load import QUICK, Measure, Pace, Rate, measure_in_turns
from tests.support.programs import BIN, clean_environment

NAME = "console"
EXECUTIONS, FEW_EXECUTIONS = 1_000_000, 20_000
CLUSTERS, FEW_CLUSTERS = 1000, 100
#: Projects, each of which has about 250 scopes.
PROJECTS, FEW_PROJECTS = 40, 4
WAITING, FEW_WAITING = 1000, 100
OPEN_PAGES = 200
MEMBERS = 20  #: of the pool whose shares are shown
HOLDERS = 100  #: of tokens of a pool, and as many in line
#: What a page may take of the server's time, and of the line.
PROMISED_MS, PROMISED_KB = 200, 150
CREATIONS = "create a job"
CREATIONS_WATCHED = f"create a job, while {OPEN_PAGES} pages are open"

_PLACE = {"project": stock.project_name(0), "domain": stock.DOMAINS[0]}
_WHERE = urlencode(_PLACE)
_TOKEN_POOL, _POOL = "licences", "drawn"
_LIST = f"{PREFIX}/executions"
_ONE = f"{_LIST}/{_PLACE['project']}/{_PLACE['domain']}/w0"
#: The addresses of pages beside the first page of each part.
_MORE = {
    "Executions that wait": f"{_LIST}?phase=QUEUED",
    "Executions of a project and domain": f"{_LIST}?{_WHERE}",
    "Executions, searched": f"{_LIST}?search=a0",
    "Executions by phase": f"{_LIST}?by=phase",
    "Executions by reason": f"{_LIST}?by=reason",
    "One execution": _ONE,
    "Cancelling an execution": f"{_ONE}/cancel",
    "What waits, and why": f"{_LIST}/waiting",
    "Executions by cluster": f"{_LIST}?by=cluster",
    "The log of an execution": f"{_ONE}/log",
    "Relaunching an execution": f"{_ONE}/relaunch",
    "Deciding an execution again": f"{_ONE}/redecide",
    "Cancelling all of a project and domain": f"{_LIST}/cancel?phase=QUEUED&{_WHERE}",
    "Settings of a project and domain": f"{PREFIX}/settings?{_WHERE}",
    "Editing a setting": f"{PREFIX}/settings/edit?{_WHERE}&resource_type=TASK_RESOURCE",
    "After a change of a setting": f"{PREFIX}/settings/changed?{_WHERE}&resource_type=TASK_RESOURCE",
    "Comparing two scopes": f"{PREFIX}/settings/compare?{_WHERE}&other_domain={stock.DOMAINS[1]}",
    "Where a pool is used": f"{PREFIX}/settings/uses?pool=training",
    "History of a project": f"{PREFIX}/history?project={_PLACE['project']}",
    "One revision": f"{PREFIX}/history/1",
    "Rolling back a revision": f"{PREFIX}/history/1/roll-back",
    "Clusters that take no work": f"{PREFIX}/fleet?takes_work=false",
    "One cluster": f"{PREFIX}/fleet/clusters/{stock.cluster_name(0)}",
    "Draining a cluster": f"{PREFIX}/fleet/clusters/{stock.cluster_name(0)}/drain",
    "Pools": f"{PREFIX}/fleet/pools",
    "One label": f"{PREFIX}/fleet/labels/near",
    "Topology": f"{PREFIX}/fleet/topology",
    "One pool": f"{PREFIX}/fleet/pools/{_POOL}",
    "One token pool": f"{PREFIX}/token-pools/{_TOKEN_POOL}",
    "Comparing two revisions": f"{PREFIX}/history/compare?from=0&to=1",
    "Settings without effect": f"{PREFIX}/settings/no-effect?{_WHERE}",
    "The audit": f"{PREFIX}/audit",
    "Warnings": f"{PREFIX}/fleet/warnings",
    "Who may do what": f"{PREFIX}/access",
}
_EDIT = f"{PREFIX}/settings/edit?{_WHERE}&resource_type=TASK_RESOURCE&form=raw"
_CREATE = f"{PREFIX}/create?{_WHERE}"
#: Pages that answer a form and write nothing: the page that has the form, where it is sent, and what is filled in.
_FORMS = {
    "Planning a change of a setting": (_EDIT, _EDIT, {"payload": "defaults: {cpu: '2'}"}),
    "Where would it run?": (_CREATE, f"{PREFIX}/create/place", {**_PLACE, "spec.job.command": "true"}),
}
#: Pages that somebody looks at who may see one project.
_SEEN = {
    "The overview of a viewer of one project": f"{PREFIX}/",
    "Executions of a viewer of one project": _LIST,
    "What waits, and why, of a viewer of one project": f"{_LIST}/waiting",
}
_BATCH, _TIMES = 100, 7
#: Rounds of creations are so many times as long as others, so that pages are shown anew in each.
_TIMES_AS_LONG = 4
_SETTLING_SECONDS = 3


def pages() -> dict[str, str]:
    """The address of each page that is measured."""
    present = {page.path for page in all_pages()}
    return {**{title: PREFIX + path for title, path, _ in NAVIGATION if PREFIX + path in present}, **_MORE}


def titles() -> list[str]:
    """Every page that is measured."""
    return [*pages(), *_FORMS, *_SEEN]


def time_of(title: str) -> str:
    """The figure of a page's time."""
    return f"{title}, time"


def size_of(title: str) -> str:
    """The figure of a page's size as it is sent."""
    return f"{title}, size"


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    database = backend.create()
    is_quick = pace == QUICK
    stock.fill(database, FEW_PROJECTS if is_quick else PROJECTS, with_history=True)
    add_finished(database, FEW_EXECUTIONS if is_quick else EXECUTIONS)
    with admin_on(database, clusters=FEW_CLUSTERS if is_quick else CLUSTERS) as admin:
        port = port_of(admin)
        _let_wait(port, FEW_WAITING if is_quick else WAITING)
        _hold_tokens(port)
        for title, address in pages().items():
            yield from _figures(title, backend, *_load(port, address))
        for title, (page, address, fields) in _FORMS.items():
            yield from _figures(title, backend, *_load(port, address, _filled(port, page, fields)))
        create = creations.create_call(port, stock.job_body()).measure
        rates = measure_in_turns(
            {CREATIONS: create, CREATIONS_WATCHED: _while_watched(port, create)},
            replace(pace, seconds=pace.seconds * _TIMES_AS_LONG),
        )
        token = _make_viewer(database, port)  # at last, for from now on every request needs a token
        for title, address in _SEEN.items():
            yield from _figures(title, backend, *_load(port, address, Request({"Authorization": f"Bearer {token}"})))
    for what, rate in rates.items():
        yield rate_figure(NAME, what, backend.name, rate, ceiling="" if what == CREATIONS else CREATIONS)


def _let_wait(port: int, number: int) -> None:
    client = Client(port)
    for start in range(0, number, _BATCH):
        executions = [{**_PLACE, "name": f"w{start + each}", "spec": {"job": stock.JOB}} for each in range(_BATCH)]
        client.post("/executions", {"executions": executions})
    members = [{"id": stock.cluster_name(number), "weight": 1} for number in range(MEMBERS)]
    client.post("/pools", {"pool": {"name": _POOL, "members": members}})
    drawn = {"job": stock.JOB, "cluster_assignment": {"cluster_pool_name": _POOL}}
    client.post(
        "/executions", {"executions": [{**_PLACE, "name": f"d{each}", "spec": drawn} for each in range(_BATCH)]}
    )
    client.close()


@dataclass(frozen=True)
class Request:
    """What a page is asked for with."""

    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None  #: of a form that is sent


_PLAIN = Request()


def _load(port: int, address: str, request: Request = _PLAIN) -> tuple[list[float], int]:
    """Milliseconds until a page has come, each of several times, and its size as it is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    method = "GET" if request.body is None else "POST"
    taken = []
    for _ in range(_TIMES):
        begin = time.monotonic()
        connection.request(method, address, request.body, {"Accept-Encoding": "gzip", **request.headers})
        answer = connection.getresponse()
        body = answer.read()
        taken.append((time.monotonic() - begin) * 1000)
        if answer.status != 200:
            raise RuntimeError(f"{address} was answered {answer.status}")
    connection.close()
    return taken[1:], len(body)  # the first one fills caches


def _figures(title: str, backend: Backend, taken: Sequence[float], size: int) -> Iterator[Figure]:
    middle = statistics.median(taken)
    timed = Figure(bench=NAME, what=time_of(title), database=backend.name, value=middle, unit="ms", p50=middle)
    yield replace(timed, p99=max(taken))
    yield Figure(bench=NAME, what=size_of(title), database=backend.name, value=size / 1000, unit="kB")


def _filled(port: int, page: str, fields: Mapping[str, str]) -> Request:
    """The form of a page as a browser sends it, with its token, cookie and hidden fields."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", page)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    form = text.partition("<main")[2]  # not that for signing out
    hidden = dict(re.findall(r'<input type="hidden" name="(form_token|version)" value="([^"]*)"', form))
    cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    headers = {
        "Cookie": cookie,
        "Origin": f"http://127.0.0.1:{port}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return Request(headers, urlencode({**hidden, **fields}))


def _hold_tokens(port: int) -> None:
    """Let a token pool have holders and waiters."""
    client = Client(port)
    client.post("/token_pools", {"token_pool": {"name": _TOKEN_POOL, "capacity": HOLDERS}})
    for number in range(2 * HOLDERS):
        claim = {"token": f"t{number}", "pools": {_TOKEN_POOL: 1}, **_PLACE, "lease_seconds": 3600}
        client.post("/token_allocations", {"claim": claim})
    client.close()


def _make_viewer(database: str, port: int) -> str:
    """The token of somebody who may see one project; from then on the admin has users."""
    first = [str(BIN / "rainbow-admin"), "create-token", "operator", "--create", "--database", database]
    made = subprocess.run(first, check=True, capture_output=True, text=True, env=clean_environment())
    client = Client(port, made.stdout.strip())
    client.post("/users", {"user": {"name": "viewer"}})
    client.post("/grants", {"grant": {"role": "viewer", "user": "viewer", "project": _PLACE["project"]}})
    token: str = client.post("/users/viewer/tokens", {"name": "bench"})["token"]
    client.close()
    return token


def _while_watched(port: int, measure: Measure) -> Measure:
    """A measurement during which pages are open: overviews, lists, and executions."""
    addresses = [(f"{PREFIX}/", _LIST, f"{_LIST}?phase=QUEUED", _ONE)[number % 4] for number in range(OPEN_PAGES)]
    pages = LivePages(port, addresses)

    def measure_watched(seconds: int) -> Rate:
        with pages.seen():
            time.sleep(_SETTLING_SECONDS)  # they catch up at first by what was saved up while none was open
            before = pages.shown
            rate = measure(seconds)
            print(f"{pages.live} live pages were shown anew {pages.shown - before} times.", file=sys.stderr)
            return rate

    return measure_watched
