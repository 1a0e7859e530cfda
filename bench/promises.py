"""Promises: what the figures of one run must come to, and whether they do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench import (
    answers,
    attributes,
    ceilings,
    changes,
    commands,
    console,
    creations,
    decisions,
    effective,
    graphs,
    leases,
    namespaces,
    questions,
    tokens,
    users,
)
from bench.figures import Figures
from bench.peers import measured

_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_GROWTH, _GROWN = "growth", ("create", "lease and end, 50 at a time", "first page")
#: What takes processor time alone was promised for a machine that starts Python in so many milliseconds.
_PYTHON_MS = 23
_CREATIONS = ((creations.JOB, creations.JOB_BATCH), (creations.PLAN, creations.PLAN_BATCH))


@dataclass(frozen=True, kw_only=True)
class Promise:
    """One line of what was promised."""

    promise: str
    measured: str
    kept: bool | None  #: None where it was not measured


def judged(figures: Figures) -> list[Promise]:
    """Every promise, beside what was measured."""
    by_database = (_effective, _attributes, _changes, _creations, _described, _users, _leases, _memory)
    return [
        *(promise for judge in by_database for database in _DATABASES for promise in judge(figures, database)),
        *_tokens(figures),
        *_answers(figures),
        *_decisions(figures),
        *_graphs(figures),
        *_namespaces(figures),
        *_commands(figures),
        *_console(figures),
        *_growth(figures),
    ]


def _effective(figures: Figures, database: str) -> Iterator[Promise]:
    def value(what: str) -> float | None:
        return figures.value(effective.NAME, what, database)

    where = f"effective attributes, {_DATABASES[database]}"
    of_empty = _quotient(value(effective.MANY), value(ceilings.EMPTY))
    yield _at_least(0.6, of_empty, "×", f"{where}, a million stored ÷ empty route")
    slower = _quotient(value(effective.FEW), value(effective.MANY))
    yield _at_most(1.2, slower, "×", f"{where}, a thousand stored ÷ a million stored")


def _attributes(figures: Figures, database: str) -> Iterator[Promise]:
    def value(what: str) -> float | None:
        return figures.value(attributes.NAME, what, database)

    where = f"attributes, {_DATABASES[database]}"
    reads = (attributes.READ, attributes.INHERIT)
    of_empty = _least(_quotient(value(what), value(ceilings.EMPTY)) for what in reads)
    yield _at_least(0.6, of_empty, "×", f"{where}, read one ÷ empty route")
    slower = _quotient(value(attributes.PAGE_OF_FEW), value(attributes.PAGE_OF_MANY))
    yield _at_most(1.2, slower, "×", f"{where}, list 100 of a thousand ÷ of a million")
    of_insert = _quotient(value(attributes.WRITE), value(ceilings.INSERT))
    yield _at_least(0.8, of_insert, "×", f"{where}, write one ÷ route that inserts a row")
    write = figures.find(attributes.NAME, attributes.WRITE, database)
    yield _at_most(60, None if write is None else write.p99, "ms", f"{where}, write one, p99 with 16 clients")


def _changes(figures: Figures, database: str) -> Iterator[Promise]:
    insert = figures.value(changes.NAME, ceilings.INSERT, database)
    of_insert = _least(_quotient(figures.value(changes.NAME, what, database), insert) for what in changes.SINGLES)
    where = f"project, pool, workflow, launch plan, {_DATABASES[database]}"
    yield _at_least(0.1, of_insert, "×", f"{where} ÷ route that inserts a row")


def _creations(figures: Figures, database: str) -> Iterator[Promise]:
    def value(what: str) -> float | None:
        return figures.value(creations.NAME, what, database)

    where = f"creation, {_DATABASES[database]}"
    of_insert = _least(_quotient(value(single), value(ceilings.INSERT)) for single, _ in _CREATIONS)
    yield _at_least(0.7, of_insert, "×", f"{where}, one by one ÷ route that inserts a row")
    singles = [figures.find(creations.NAME, single, database) for single, _ in _CREATIONS]
    late = [figure.p99 for figure in singles if figure is not None and figure.p99 is not None]
    yield _at_most(50, max(late, default=None), "ms", f"{where}, p99 with 16 clients")
    of_single = _least(_quotient(value(batch), value(single)) for single, batch in _CREATIONS)
    yield _at_least(8, of_single, "×", f"{where}, in batches of 100 ÷ one by one")
    of_loaded = _quotient(value(creations.LOADED_BATCH), value(creations.LOADED))
    yield _at_least(2, of_loaded, "×", f"{where}, by load, in batches of 100 ÷ one by one")


def _users(figures: Figures, database: str) -> Iterator[Promise]:
    def value(what: str) -> float | None:
        return figures.value(users.NAME, what, database)

    where = f"with users, {_DATABASES[database]}"
    of_empty = _quotient(value(users.EFFECTIVE_USERS), value(ceilings.EMPTY))
    yield _at_least(0.6, of_empty, "×", f"effective attributes {where} ÷ empty route")
    of_insert = _quotient(value(users.CREATE_USERS), value(ceilings.INSERT))
    yield _at_least(0.7, of_insert, "×", f"creation {where} ÷ route that inserts a row")
    create = figures.find(users.NAME, users.CREATE_USERS, database)
    yield _at_most(50, None if create is None else create.p99, "ms", f"creation {where}, p99 with 16 clients")
    revoked = figures.find(users.NAME, users.REVOKED, database)
    yield _at_most(users.PROMISED, None if revoked is None else revoked.p99, "ms", f"{users.REVOKED}, {where}")


def _leases(figures: Figures, database: str) -> Iterator[Promise]:
    dequeue = figures.value(measured.NAME, measured.DEQUEUE, "postgresql")
    least = min(1000, 0.5 * dequeue) if dequeue else 1000
    rate = figures.value(leases.NAME, leases.WHOLE, database)
    yield _at_least(least, rate, "/s", f"created to succeeded, {_DATABASES[database]}")


def _memory(figures: Figures, database: str) -> Iterator[Promise]:
    resident = figures.value(effective.NAME, effective.MEMORY, database)
    yield _at_most(1024, resident, "MiB", f"a worker with a million attributes, {_DATABASES[database]}")


def _answers(figures: Figures) -> Iterator[Promise]:
    asked = {question.what for question in questions.QUESTIONS}
    for database, name in _DATABASES.items():
        was_run = any(figure.database == database and figure.what in asked for figure in figures.of(answers.NAME))
        for question in questions.QUESTIONS:
            taken = figures.value(answers.NAME, question.what, database)
            promise = _at_most(answers.PROMISED, taken, "ms", f"{question.what}, {name}")
            # A question that a run left out is not one that it answered in time.
            yield replace(promise, kept=False) if was_run and taken is None else promise
        disturbed = figures.value(answers.NAME, answers.CREATIONS_ASKED, database)
        share = _quotient(disturbed, figures.value(answers.NAME, answers.CREATIONS, database))
        yield _at_least(0.8, share, "×", f"creation while a question is asked each second ÷ without, {name}")


def _tokens(figures: Figures) -> Iterator[Promise]:
    bare = {**dict.fromkeys(_DATABASES, tokens.STATEMENT), tokens.REDIS: tokens.SCRIPT}
    for backend, ceiling in bare.items():
        rates = {holders: figures.value(tokens.NAME, tokens.pair(holders), backend) for holders in tokens.HOLDERS}
        where = f"tokens, {_DATABASES.get(backend, 'Redis')}"
        of_bare = _quotient(rates[0], figures.value(tokens.NAME, ceiling, backend))
        yield _at_least(0.1, of_bare, "×", f"{where}, take and give back ÷ {ceiling}")
        slower = _quotient(rates[tokens.HOLDERS[-1]], rates[0])
        yield _at_least(0.7, slower, "×", f"{where}, with {tokens.HOLDERS[-1]:,} holders ÷ with none")


def _decisions(figures: Figures) -> Iterator[Promise]:
    for what in (decisions.WEIGHTED, decisions.LEAST_LOADED, decisions.BUSY, decisions.BY_RULES):
        yield _within(5, figures.value(decisions.NAME, what), f"decision {what}", figures)


def _described(figures: Figures, database: str) -> Iterator[Promise]:
    with_graphs, without = (figures.value(graphs.NAME, what, database) for what in (graphs.GRAPHS, graphs.FLAT))
    where = f"create a job among 101 clusters, {_DATABASES[database]}"
    yield _at_least(0.5, _quotient(with_graphs, without), "×", f"{where}, with graphs ÷ without")


def _graphs(figures: Figures) -> Iterator[Promise]:
    yield _at_most(10, figures.value(graphs.NAME, graphs.READ), "s", graphs.READ)
    yield _at_most(64, figures.value(graphs.NAME, graphs.MEMORY), "MiB", graphs.MEMORY)
    for what in (graphs.MATCH, graphs.MATCH_USED, graphs.PRUNE):
        yield _within(10, figures.value(graphs.NAME, what), what, figures)
    for what, limit in (
        (graphs.EQUAL, 5),
        (graphs.DIFFERENT, 10),
        (graphs.DECISION, 5),
        (graphs.DECISION_OF_ONE, 5),
    ):
        yield _within(limit, figures.value(graphs.NAME, what), what, figures)


def _namespaces(figures: Figures) -> Iterator[Promise]:
    for database, name in _DATABASES.items():
        for what in (namespaces.RENDER, namespaces.FETCH, namespaces.DOMAIN):
            yield _at_most(5000, figures.value(namespaces.NAME, what, database), "ms", f"{what}, {name}")
        for what in (namespaces.ONE, namespaces.DIFFER):
            yield _at_most(1000, figures.value(namespaces.NAME, what, database), "ms", f"{what}, {name}")


def _commands(figures: Figures) -> Iterator[Promise]:
    for what, limit in ((commands.HELP, 100), (commands.READ, 250)):
        yield _within(limit, figures.value(commands.NAME, what), what, figures)


def _console(figures: Figures) -> Iterator[Promise]:
    for database, name in _DATABASES.items():
        for title in console.titles():
            taken = figures.value(console.NAME, console.time_of(title), database)
            yield _at_most(console.PROMISED_MS, taken, "ms", f"console, {title}, {name}")
            size = figures.value(console.NAME, console.size_of(title), database)
            yield _at_most(console.PROMISED_KB, size, "kB", f"console, {title}, compressed, {name}")
        watched = figures.value(console.NAME, console.CREATIONS_WATCHED, database)
        share = _quotient(watched, figures.value(console.NAME, console.CREATIONS, database))
        pages = f"{console.OPEN_PAGES} live pages open"
        yield _at_least(0.95, share, "×", f"creation with {pages} ÷ without, {name}")


def _growth(figures: Figures) -> Iterator[Promise]:
    for (what, database), curve in figures.curves(_GROWTH).items():
        if what not in _GROWN:
            continue
        empty, full = curve[0], curve[-1]
        slower = _quotient(empty.value, full.value) if full.unit == "/s" else _quotient(full.value, empty.value)
        stored = f"{full.size:,} finished executions, {_DATABASES[database]}"
        yield _at_most(1.3, slower, "×", f"{what} with {stored} ÷ without")


def _at_least(limit: float, value: float | None, unit: str, promise: str) -> Promise:
    return _judged(f"{promise}: at least {_shown(limit, unit)}", value, unit, value is not None and value >= limit)


def _at_most(limit: float, value: float | None, unit: str, promise: str) -> Promise:
    return _judged(f"{promise}: at most {_shown(limit, unit)}", value, unit, value is not None and value <= limit)


def _within(limit: float, value: float | None, promise: str, figures: Figures) -> Promise:
    """At most so many milliseconds; in proportion more on a machine that is slower to start Python."""
    python = figures.value(commands.NAME, commands.PYTHON) or 0
    if python <= _PYTHON_MS:
        return _at_most(limit, value, "ms", promise)
    slow = f"{promise}, {_shown(limit, 'ms')} where Python starts in {_PYTHON_MS} ms, here"
    return _at_most(limit * python / _PYTHON_MS, value, "ms", slow)


def _judged(promise: str, value: float | None, unit: str, kept: bool) -> Promise:
    if value is None:
        return Promise(promise=promise, measured="not measured", kept=None)
    return Promise(promise=promise, measured=_shown(value, unit), kept=kept)


def _shown(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".replace(" /s", "/s")


def _quotient(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def _least(values: Iterator[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
