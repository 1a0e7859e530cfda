"""Answers to operators: about settings, executions, clusters and changes, as each question is asked alone.

A million attributes are stored, each by a revision of its own, a thousand clusters are configured, and ten thousand
executions wait. At last executions are created while questions are asked.
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import sqlalchemy

from bench import creations, stock
from bench.admins import admin_on, port_of
from bench.agents import Client
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import QUICK, Measure, Pace, Rate, measure_in_turns
from bench.questions import EXECUTIONS, PLACE, POOL, QUESTIONS, Question, members, pool_row

NAME = "answers"
WAITING, FEW_WAITING = 10_000, 500
CLUSTERS, FEW_CLUSTERS = 1000, 40
#: Milliseconds that an answer may take.
PROMISED = 1000
CREATIONS = "create a job"
CREATIONS_ASKED = "create a job, while a question is asked each second"
_BATCH = 500
_TIMES = 5
_BETWEEN_QUESTIONS = 1.0
#: Rounds of creations are this many times as long as others, so that each has several questions.
_TIMES_AS_LONG = 4
#: Each so many of the executions a limit has ended.
_LIMITED = 10


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    database = backend.create()
    is_quick = pace == QUICK
    stock.fill(database, stock.THOUSAND * 10 if is_quick else stock.MILLION, with_history=True)
    with admin_on(database, clusters=FEW_CLUSTERS if is_quick else CLUSTERS) as admin:
        client = Client(port_of(admin))
        _let_wait(client, FEW_WAITING if is_quick else WAITING)
        _end_some(database)
        for question in QUESTIONS:
            taken = sorted(_took(client, question) for _ in range(_TIMES + 1))[:-1]  # the first one fills caches
            middle = statistics.median(taken)
            yield Figure(
                bench=NAME,
                what=question.what,
                database=backend.name,
                value=middle,
                unit="ms",
                p50=middle,
                p99=taken[-1],
            )
        client.close()
        create = creations.create_call(port_of(admin), stock.job_body()).measure
        rates = measure_in_turns(
            {CREATIONS: create, CREATIONS_ASKED: _while_asked(port_of(admin), create)},
            replace(pace, seconds=pace.seconds * _TIMES_AS_LONG),
        )
    for what, rate in rates.items():
        ceiling = "" if what == CREATIONS else CREATIONS
        yield rate_figure(NAME, what, backend.name, rate, ceiling=ceiling)


def _let_wait(client: Client, number: int) -> None:
    """Executions that are not leased, in a pool of their own, and one that was ended."""
    rows = [
        {"pool_definition": {"name": POOL, "members": members(0)}},
        pool_row(POOL, **PLACE),
        {"resource_type": "TASK_RESOURCE", "domain": PLACE["domain"], "payload": {"limits": {"cpu": "64"}}},
    ]
    client.post("/attribute_changes", {"changes": rows})
    for start in range(0, number, _BATCH):
        executions = [{**PLACE, "name": f"w{start + each}", "spec": {"job": stock.JOB}} for each in range(_BATCH)]
        client.post("/executions", {"executions": executions})
    executions = [{**PLACE, "name": f"l{each}", "spec": {"job": stock.JOB}} for each in range(number // _LIMITED)]
    for start in range(0, len(executions), _BATCH):
        client.post("/executions", {"executions": executions[start : start + _BATCH]})
    client.post("/executions", {**PLACE, "name": "ended", "spec": {"job": stock.JOB}})
    client.delete(f"/{EXECUTIONS}/ended")


def _end_some(database: str) -> None:
    """Have some executions ended by a limit, without an agent."""
    engine = sqlalchemy.create_engine(database)
    with engine.begin() as connection:
        ended = "phase = 'FAILED', reason = 'TIME_LIMIT', finished_at = created_at, duration = 60"
        connection.exec_driver_sql(f"UPDATE executions SET {ended} WHERE substr(name, 1, 1) = 'l'")
    engine.dispose()


def _took(client: Client, question: Question) -> float:
    """Milliseconds that an answer takes, which must be the expected one."""
    begin = time.monotonic()
    if question.body is None:
        client.get(f"/{question.path}", question.status)
    else:
        client.post(f"/{question.path}", question.body, question.status)
    return (time.monotonic() - begin) * 1000


def _while_asked(port: int, measure: Measure) -> Measure:
    """A measurement during which the questions are asked in turn, one at a time, as operators might."""
    questions = itertools.cycle(QUESTIONS)

    def measure_asked(seconds: int) -> Rate:
        is_over = threading.Event()

        def ask() -> None:
            client = Client(port)
            while not is_over.wait(_BETWEEN_QUESTIONS):
                _took(client, next(questions))
            client.close()

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            return measure(seconds)
        finally:
            is_over.set()
            thread.join()

    return measure_asked
