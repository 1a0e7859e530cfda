"""Pages of the console: how long each takes and how large it is, and what open pages that are kept up to date cost.

A million finished executions and some that wait are stored, with 10,000 scopes and a thousand clusters. At last
executions are created while 200 pages are open, each of which asks for itself again when it is told to.
"""

from __future__ import annotations

import http.client
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlencode

from admin.console.front import NAVIGATION, all_pages
from admin.console.pages import PREFIX
from bench import creations, stock
from bench.admins import admin_on, port_of
from bench.agents import Client
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.finished import add_finished
from bench.live_pages import open_pages
from bench.load import QUICK, Measure, Pace, Rate, measure_in_turns

NAME = "console"
EXECUTIONS, FEW_EXECUTIONS = 1_000_000, 20_000
CLUSTERS, FEW_CLUSTERS = 1000, 100
#: Projects, each of which has about 250 scopes.
PROJECTS, FEW_PROJECTS = 40, 4
WAITING, FEW_WAITING = 1000, 100
OPEN_PAGES = 200
#: What a page may take of the server's time, and of the line.
PROMISED_MS, PROMISED_KB = 200, 150
CREATIONS = "create a job"
CREATIONS_WATCHED = f"create a job, while {OPEN_PAGES} pages are open"

_PLACE = {"project": stock.project_name(0), "domain": stock.DOMAINS[0]}
_WHERE = urlencode(_PLACE)
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
    "Warnings": f"{PREFIX}/fleet/warnings",
    "Who may do what": f"{PREFIX}/access",
}
_BATCH, _TIMES = 100, 7
#: Rounds of creations are so many times as long as others, so that pages are shown anew in each.
_TIMES_AS_LONG = 4


def pages() -> dict[str, str]:
    """The address of each page that is measured."""
    present = {page.path for page in all_pages()}
    return {**{title: PREFIX + path for title, path, _ in NAVIGATION if PREFIX + path in present}, **_MORE}


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
        for title, address in pages().items():
            taken, size = _load(port, address)
            middle = statistics.median(taken)
            timed = Figure(bench=NAME, what=time_of(title), database=backend.name, value=middle, unit="ms", p50=middle)
            yield replace(timed, p99=max(taken))
            yield Figure(bench=NAME, what=size_of(title), database=backend.name, value=size / 1000, unit="kB")
        create = creations.create_call(port, stock.job_body()).measure
        rates = measure_in_turns(
            {CREATIONS: create, CREATIONS_WATCHED: _while_watched(port, create)},
            replace(pace, seconds=pace.seconds * _TIMES_AS_LONG),
        )
    for what, rate in rates.items():
        yield rate_figure(NAME, what, backend.name, rate, ceiling="" if what == CREATIONS else CREATIONS)


def _let_wait(port: int, number: int) -> None:
    client = Client(port)
    for start in range(0, number, _BATCH):
        executions = [{**_PLACE, "name": f"w{start + each}", "spec": {"job": stock.JOB}} for each in range(_BATCH)]
        client.post("/executions", {"executions": executions})
    client.close()


def _load(port: int, address: str) -> tuple[list[float], int]:
    """Milliseconds until a page has come, each of several times, and its size as it is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    taken = []
    for _ in range(_TIMES):
        begin = time.monotonic()
        connection.request("GET", address, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        taken.append((time.monotonic() - begin) * 1000)
        if answer.status != 200:
            raise RuntimeError(f"{address} was answered {answer.status}")
    connection.close()
    return taken[1:], len(body)  # the first one fills caches


def _while_watched(port: int, measure: Measure) -> Measure:
    """A measurement during which pages are open: overviews, lists, and executions."""
    addresses = [(f"{PREFIX}/", _LIST, f"{_LIST}?phase=QUEUED", _ONE)[number % 4] for number in range(OPEN_PAGES)]

    def measure_watched(seconds: int) -> Rate:
        with open_pages(port, addresses) as opened:
            before = opened.shown
            rate = measure(seconds)
            print(f"{opened.live} live pages were shown anew {opened.shown - before} times.", file=sys.stderr)
            return rate

    return measure_watched
