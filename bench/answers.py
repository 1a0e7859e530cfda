"""Answers to operators: about settings, executions, clusters and changes, as each question is asked alone.

A million attributes are stored, each by a revision of its own, a thousand clusters are configured, and ten thousand
executions wait. At last executions are created while questions are asked.
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import sqlalchemy

from bench import creations, stock
from bench.admins import admin_on, port_of
from bench.agents import Client
from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.load import QUICK, Measure, Pace, Rate, measure_in_turns
from bench.questions import (
    EXECUTIONS,
    PLACE,
    POOL,
    QUESTIONS,
    SPARE_CLUSTER,
    SPARE_LABEL,
    TOKENS,
    Question,
    members,
    pool_row,
)

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
#: Rounds of creations are this many times as long as others, so that each question is asked in one of them.
_TIMES_AS_LONG = 8
#: Each so many of the executions a limit has ended.
_LIMITED = 10


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures on one kind of database."""
    database = backend.create()
    is_quick, worst = pace == QUICK, dict[str, float]()
    stock.fill(database, stock.THOUSAND * 10 if is_quick else stock.MILLION, with_history=True)
    with admin_on(database, clusters=FEW_CLUSTERS if is_quick else CLUSTERS) as admin:
        client = Client(port_of(admin))
        _let_wait(client, FEW_WAITING if is_quick else WAITING)
        _end_some(database)
        for question in QUESTIONS:
            _first, *taken = (_took(client, question) for _ in range(_TIMES + 1))  # the first one fills caches
            worst[question.what] = max(taken)
            yield Figure(
                bench=NAME,
                what=question.what,
                database=backend.name,
                value=worst[question.what],
                unit="ms",
                p50=statistics.median(taken),
                p99=worst[question.what],
            )
        client.close()
        create = creations.create_call(port_of(admin), stock.job_body()).measure
        longer = replace(pace, seconds=pace.seconds * _TIMES_AS_LONG)
        slowest_first = sorted(QUESTIONS, key=lambda question: -worst[question.what])
        between = min(_BETWEEN_QUESTIONS, longer.seconds * longer.rounds / (len(QUESTIONS) + longer.rounds))
        asking = _while_asked(port_of(admin), create, slowest_first, between)
        rates = measure_in_turns({CREATIONS: create, CREATIONS_ASKED: asking}, longer, worst=[CREATIONS_ASKED])
    for what, rate in rates.items():
        ceiling = "" if what == CREATIONS else CREATIONS
        yield rate_figure(NAME, what, backend.name, rate, ceiling=ceiling)


def _let_wait(client: Client, number: int) -> None:
    """Executions that are not leased, in a pool of their own, and one that was ended."""
    rows = [
        {"pool_definition": {"name": POOL, "members": members(0)}},
        {"cluster_definition": {"name": SPARE_CLUSTER}},
        {"label_definition": {"name": SPARE_LABEL, "members": [{"id": SPARE_CLUSTER}]}},
        {"token_pool_definition": {"name": TOKENS, "capacity": 100}},
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


def _while_asked(port: int, measure: Measure, asked: Sequence[Question], between: float) -> Measure:
    """A measurement during which questions are asked in turn, so many seconds apart, as operators might.

    The first measurement warms up: its questions do not count, and the next one begins with the first of them again.
    """
    turns = iter([itertools.cycle(asked)])
    in_turn = itertools.cycle(asked)

    def measure_asked(seconds: int) -> Rate:
        is_over, questions = threading.Event(), next(turns, in_turn)

        def ask() -> None:
            with closing(Client(port)) as client:
                while not is_over.wait(between):
                    _took(client, next(questions))

        with ThreadPoolExecutor(max_workers=1) as operator:
            asking = operator.submit(ask)
            try:
                rate = measure(seconds)
            finally:
                is_over.set()
            asking.result()  # an answer that was not the expected one fails the bench
            return rate

    return measure_asked
