"""Single attributes over HTTP: one row read, and one written with its revision."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench import stock
from bench.admins import API, admin_on, port_of
from bench.ceilings import EMPTY, INSERT, empty_call, insert_call, running_ceilings
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import Call, Pace, measure_in_turns

NAME = "attributes"
READ, WRITE = "read one row", "write one row, with revision"


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    database = backend.create()
    stock.fill(database, stock.THOUSAND)
    with admin_on(database) as admin, running_ceilings(backend.create()) as ceilings:
        own = f"{API}/workflow_attributes/{stock.project_name(0)}/<domain>/{stock.workflow_name('<workflow>')}"
        payload = {"workflow_priority": {"priority": "<priority>"}}
        body = json.dumps({"attributes": {"matching_attributes": payload}}).replace('"<priority>"', "<priority>")
        port, drawn = port_of(admin), stock.draws(stock.THOUSAND)
        rates = measure_in_turns(
            {
                EMPTY: empty_call(ceilings).measure,
                INSERT: insert_call(ceilings).measure,
                READ: Call(port=port, path=f"{own}?resource_type=0", draws=drawn).measure,
                WRITE: Call(port=port, path=own, method="PUT", body=body, draws={**drawn, "priority": 100}).measure,
            },
            pace,
        )
    for what, rate in rates.items():
        yield rate_figure(NAME, what, backend.name, rate, ceiling={READ: EMPTY, WRITE: INSERT}.get(what, ""))
