"""Single attributes over HTTP among a million: one row read or inherited, a page listed, one written with revision."""

from __future__ import annotations

import json
from collections.abc import Iterator

from admin.messages.pages import token_of
from bench import stock
from bench.admins import API, admin_on, port_of
from bench.ceilings import EMPTY, INSERT, empty_call, insert_call, running_ceilings
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import Call, Pace, measure_in_turns

NAME = "attributes"
READ, INHERIT = "read one row", "read what a scope inherits"
PAGE_OF_FEW, PAGE_OF_MANY = "list 100 rows of 1,000", "list 100 rows of 1,000,000"
WRITE = "write one row, with revision"
_CEILINGS = {READ: EMPTY, INHERIT: EMPTY, WRITE: INSERT}
_ROW, _INHERITED = "TASK_RESOURCE", "EXECUTION_CLUSTER_LABEL"


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    few, many = backend.create(), backend.create()
    stock.fill(few, stock.THOUSAND)
    stock.fill(many, stock.MILLION)
    with admin_on(many) as large, admin_on(few) as small, running_ceilings(backend.create()) as ceilings:
        port = port_of(large)
        rates = measure_in_turns(
            {
                EMPTY: empty_call(ceilings).measure,
                READ: _read_call(port, _ROW).measure,
                INHERIT: _read_call(port, _INHERITED).measure,
                PAGE_OF_FEW: _page_call(port_of(small), stock.THOUSAND).measure,
                PAGE_OF_MANY: _page_call(port, stock.MILLION).measure,
                INSERT: insert_call(ceilings).measure,  # beside what is compared with it, for the machine varies
                WRITE: _write_call(port).measure,
            },
            pace,
        )
    for what, rate in rates.items():
        yield rate_figure(NAME, what, backend.name, rate, ceiling=_CEILINGS.get(what, ""))


def _path() -> str:
    return f"{API}/workflow_attributes/{stock.project_name('<project>')}/<domain>/{stock.workflow_name('<workflow>')}"


def _read_call(port: int, kind: str) -> Call:
    """A read of a kind that workflows set, or do not."""
    return Call(port=port, path=f"{_path()}?resource_type={kind}", draws=stock.draws(stock.MILLION))


def _write_call(port: int) -> Call:
    payload = {"workflow_priority": {"priority": "<priority>"}}
    body = json.dumps({"attributes": {"matching_attributes": payload}}).replace('"<priority>"', "<priority>")
    return Call(port=port, path=_path(), method="PUT", body=body, draws={**stock.draws(stock.MILLION), "priority": 100})


def _page_call(port: int, projects: int) -> Call:
    """A page from the rows of some project on."""
    numbers = range(0, projects, max(1, projects // 50))
    tokens = [token_of((_ROW, stock.project_name(number), "", "", "")) or "" for number in numbers]
    path = f"{API}/matchable_attributes?resource_type={_ROW}&limit=100&token=<token>"
    return Call(port=port, path=path, draws={"token": tokens})
