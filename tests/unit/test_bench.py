"""The benchmarks' own rules: what they send, what they count, and what they make of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import __main__ as bench
from bench import (
    answers,
    attributes,
    ceilings,
    changes,
    commands,
    console,
    creations,
    effective,
    load,
    questions,
    report,
    results,
)
from bench.figures import Figure, Figures
from bench.load import QUICK, Call, Pace, Rate, measure_in_turns
from bench.promises import Promise, judged
from bench.questions import Question
from bench.stolen_time import StolenTime, processor_times


def _body(request: bytes) -> str:
    return request.decode().partition("\r\n\r\n")[2]


def test_a_request_draws_the_same_where_it_names_the_same_twice() -> None:
    call = Call(port=0, path="/<workflow>/<workflow>?<domain>", draws={"workflow": 10**6, "domain": ("a", "b")})
    paths = {load._Requests(call).make().split()[1].decode() for _ in range(20)}
    assert len(paths) > 10
    for path in paths:
        first, second = path.partition("?")[0].strip("/").split("/")
        assert first == second
        assert path.partition("?")[2] in ("a", "b")


def test_headers_are_drawn_too() -> None:
    call = Call(port=0, path="/", headers={"Authorization": "Bearer <token>"}, draws={"token": ("a", "b")})
    requests = load._Requests(call)
    sent = {line for _ in range(50) for line in requests.make().split(b"\r\n") if line.startswith(b"Authorization")}
    assert sent == {b"Authorization: Bearer a", b"Authorization: Bearer b"}


def test_names_never_repeat_within_a_batch_or_between_batches() -> None:
    call = Call(port=0, path="/", method="POST", body='{"name": "e<unique>"}', times=3, ends=('{"all": [', "]}"))
    requests = load._Requests(call)
    batches = [json.loads(_body(requests.make()))["all"] for _ in range(2)]
    assert [len(batch) for batch in batches] == [3, 3]
    assert len({body["name"] for batch in batches for body in batch}) == 6


def test_values_are_written_for_lua() -> None:
    lua = load._lua({"path": '/"x"', "draws": {"n": 5, "words": ("a", "b")}, "batch": True})
    assert lua == '{["path"] = "/\\"x\\"", ["draws"] = {["n"] = 5, ["words"] = {"a", "b"}}, ["batch"] = true}'


@pytest.fixture
def asked() -> Event:
    """Whether the server was asked for something."""
    return Event()


@pytest.fixture
def server(asked: Event) -> Iterator[int]:
    """A server that answers /good well, everything else with an error, and batches with one failure."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            asked.set()
            self._answer(200 if self.path == "/good" else 503, b"{}")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(200, b'{"failed": 1}')

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        http_server.daemon_threads = True
        Thread(target=http_server.serve_forever, daemon=True).start()
        yield http_server.server_port
        http_server.shutdown()


@pytest.mark.parametrize(
    ("call", "share"),
    [
        (Call(port=0, path="/good"), 0.0),
        (Call(port=0, path="/bad"), 1.0),
        (Call(port=0, path="/", method="POST", body="{}", times=4), 0.25),
    ],
    ids=["good", "bad", "batch"],
)
def test_only_what_succeeds_counts(server: int, call: Call, share: float) -> None:
    request = Call(**{**vars(call), "port": server})
    seconds = 1
    rate = asyncio.run(load._with_asyncio(request, seconds))
    assert rate.failures / (rate.per_second * seconds + rate.failures) == pytest.approx(share, abs=0.01)


@given(counts=st.dictionaries(st.integers(0, 500), st.integers(1, 20), min_size=1), usual=st.integers(1, 100))
def test_latencies_are_those_of_the_answers_that_came(counts: dict[int, int], usual: int) -> None:
    corrected = Counter(counts)
    for latency in range(2 * usual, max(counts) + 1):  # as wrk does it
        added = latency - usual
        while counts.get(latency) and added > usual:
            corrected[added] += counts[latency]
            added -= usual
    assert +Counter(load._without_correction(corrected, usual)) == counts


def test_a_percentile_is_a_latency_that_so_many_do_not_exceed() -> None:
    counts = {5: 60, 10: 33, 60: 6, 200: 1}
    assert [load._percentile(counts, share) for share in (50, 60, 61, 93, 99, 100)] == [5, 5, 10, 10, 60, 200]
    assert load._percentile({}, 99) == 0


def test_the_middle_round_counts_and_every_failure() -> None:
    rounds = iter([0, 10, 30, 20])  # the first one only warms up

    def measure(_seconds: int) -> Rate:
        return Rate(per_second=next(rounds), p50=1, p99=2, failures=1)

    rates = measure_in_turns(
        {"it": measure}, Pace(seconds=1, rounds=3, rest_seconds=0), StolenTime(times=lambda: (0, 0))
    )
    assert rates["it"] == Rate(per_second=20, p50=1, p99=2, failures=3)


def _figure(bench: str, what: str, value: float, **more: object) -> Figure:
    return Figure(**{"bench": bench, "what": what, "value": value, "database": "sqlite", **more})  # type: ignore[arg-type]


def test_promises_are_judged_by_the_worse_of_two_figures() -> None:
    figures = Figures(
        [
            _figure(creations.NAME, ceilings.INSERT, 1000),
            _figure(creations.NAME, creations.JOB, 900, p99=20.0),
            _figure(creations.NAME, creations.PLAN, 600, p99=40.0),
            _figure(effective.NAME, ceilings.EMPTY, 1000),
            _figure(effective.NAME, effective.MANY, 650),
            _figure(attributes.NAME, ceilings.EMPTY, 1000),
            _figure(attributes.NAME, attributes.READ, 900),
            _figure(attributes.NAME, attributes.INHERIT, 500),
            _figure(attributes.NAME, ceilings.INSERT, 100),
            _figure(attributes.NAME, attributes.WRITE, 90, p99=70.0),
            _figure(changes.NAME, ceilings.INSERT, 100),
            _figure(changes.NAME, changes.PROJECT, 30),
            _figure(changes.NAME, changes.POOL, 20),
        ]
    )
    kept = {
        promise.promise: (promise.measured, promise.kept) for promise in judged(figures) if promise.kept is not None
    }
    assert kept == {
        "effective attributes, SQLite, a million stored ÷ empty route: at least 0.60 ×": ("0.65 ×", True),
        "attributes, SQLite, read one ÷ empty route: at least 0.60 ×": ("0.50 ×", False),
        "attributes, SQLite, write one ÷ route that inserts a row: at least 0.80 ×": ("0.90 ×", True),
        "attributes, SQLite, write one, p99 with 16 clients: at most 60 ms": ("70 ms", False),
        "project, pool, workflow, launch plan, SQLite ÷ route that inserts a row: at least 0.10 ×": ("0.20 ×", True),
        "creation, SQLite, one by one ÷ route that inserts a row: at least 0.70 ×": ("0.60 ×", False),
        "creation, SQLite, p99 with 16 clients: at most 50 ms": ("40 ms", True),
    }


@pytest.mark.parametrize(
    ("python_ms", "expected"),
    [
        (20, ("rainbowctl --help: at most 100 ms", False)),
        (46, ("rainbowctl --help, 100 ms where Python starts in 23 ms, here: at most 200 ms", True)),
    ],
)
def test_processor_time_is_judged_by_the_machine(python_ms: float, expected: tuple[str, bool]) -> None:
    taken = {commands.PYTHON: python_ms, commands.HELP: 150}
    figures = Figures([_figure(commands.NAME, what, value, database="") for what, value in taken.items()])
    assert [(promise.promise, promise.kept) for promise in judged(figures) if promise.kept is not None] == [expected]


def test_growth_is_judged_against_the_empty_database() -> None:
    sizes = {0: 100.0, 10_000_000: 80.0}
    figures = Figures([_figure("growth", "create", value, size=size) for size, value in sizes.items()])
    [promise] = [promise for promise in judged(figures) if promise.kept is not None]
    assert (promise.measured, promise.kept) == ("1.25 ×", True)
    assert "10,000,000" in promise.promise


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    figures = Figures(
        [_figure("creations", "ceiling", 10.0), _figure("creations", "it", 5.0, p50=1.5, failures=0, ceiling="ceiling")]
    )
    path = tmp_path / "results.json"
    results.save(path, figures, judged(figures))
    assert json.loads(path.read_text())["figures"][1]["of_ceiling"] == 0.5
    _, read, promises = results.load(path)
    assert read.all == figures.all
    assert promises == judged(figures)


def test_the_page_has_a_place_for_every_bench() -> None:
    text = report._DOCUMENT.read_text()
    parts = [*bench.BENCHES, *bench.LARGE]
    parts += [f"{part} {path.stem}" for part in ("machine", "promises") for path in (results.STANDARD, results.LARGE)]
    for part in parts:
        assert f"<!-- {part} -->\n" in text
        assert f"<!-- /{part} -->\n" in text


def test_only_what_stands_between_marks_is_written_anew() -> None:
    text = "before\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\n"
    page = report._with(text, "a", ["new", "lines"])
    assert page == "before\n<!-- a -->\n\nnew\nlines\n\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\n"


def test_a_measurement_during_which_time_was_stolen_is_made_again() -> None:
    times = iter([(0, 0), (100, 40), (100, 40), (200, 42)])  # 40 of 100 stolen, then 2 of 100
    measurements = iter(["disturbed", "quiet"])
    stolen = StolenTime(times=lambda: next(times))
    assert stolen.measure(lambda: next(measurements)) == "quiet"
    assert str(stolen) == "2.0% of the measured processor time, 1 measurements repeated"


def test_a_run_does_not_wait_for_a_quiet_machine_for_ever() -> None:
    times = iter([(0, 0), (100, 90)])
    stolen = StolenTime(times=lambda: next(times), repeated_seconds=3600)
    assert stolen.measure(lambda: "disturbed") == "disturbed"
    assert str(stolen).startswith("90.0%")


def test_processor_times_are_those_of_this_machine() -> None:
    needed, stolen = processor_times()
    assert 0 <= stolen < needed


def test_every_answer_to_an_operator_is_promised_within_a_second_on_both_databases() -> None:
    names = [question.what for question in questions.QUESTIONS]
    assert len(set(names)) == len(names) > 20
    figures = Figures(
        Figure(bench=answers.NAME, what=what, database=database, value=value, unit="ms")
        for what in names
        for database, value in (("sqlite", 999.0), ("postgresql", 1001.0))
    )
    kept = {promise.promise: promise.kept for promise in judged(figures) if promise.kept is not None}
    assert len(kept) == 2 * len(names)
    assert {is_kept for promise, is_kept in kept.items() if "PostgreSQL" in promise} == {False}
    assert {is_kept for promise, is_kept in kept.items() if "SQLite" in promise} == {True}


def test_a_question_that_a_run_left_out_is_not_answered_in_time() -> None:
    names = [question.what for question in questions.QUESTIONS]
    figures = Figures(
        Figure(bench=answers.NAME, what=what, database="sqlite", value=1.0, unit="ms") for what in names[1:]
    )
    kept = {promise.promise: promise.kept for promise in judged(figures) if promise.kept is not None}
    assert len(kept) == len(names)
    [late] = [promise for promise, is_kept in kept.items() if not is_kept]
    assert late.startswith(f"{names[0]}, SQLite: ")


def test_of_rounds_that_differ_by_what_happens_in_them_the_slowest_counts() -> None:
    rates = {"a": iter([9.0, 1.0, 5.0, 3.0]), "b": iter([9.0, 1.0, 5.0, 3.0])}

    def measure(name: str, seconds: int) -> Rate:
        return Rate(per_second=next(rates[name]), p50=1, p99=1, failures=0)

    stolen = StolenTime(times=lambda: (0, 0))
    pace = replace(QUICK, rounds=3, rest_seconds=0)
    measured = measure_in_turns({name: partial(measure, name) for name in rates}, pace, stolen, worst=["b"])
    assert {name: rate.per_second for name, rate in measured.items()} == {"a": 3.0, "b": 1.0}


def test_every_page_of_the_console_is_promised_in_time_and_size() -> None:
    figures = Figures(
        figure
        for title in console.titles()
        for figure in (
            _figure(console.NAME, console.time_of(title), 199.0, unit="ms"),
            _figure(console.NAME, console.size_of(title), 151.0, unit="kB"),
        )
    )
    kept = [promise.kept for promise in judged(figures) if promise.kept is not None]
    assert kept == [True, False] * len(console.titles())


def test_creations_while_questions_are_asked_are_judged_against_those_without() -> None:
    rates = {answers.CREATIONS: 1000.0, answers.CREATIONS_ASKED: 790.0}
    figures = Figures([_figure(answers.NAME, what, value) for what, value in rates.items()])
    [promise] = [promise for promise in judged(figures) if promise.kept is not None]
    assert (promise.measured, promise.kept) == ("0.79 ×", False)


def test_a_question_that_is_not_answered_as_expected_while_executions_are_created_fails_the_bench(
    server: int, asked: Event
) -> None:
    refused = Question(what="executions, first page", path="executions")

    def load_for(_seconds: int) -> Rate:
        assert asked.wait(10)
        return Rate(per_second=1.0, p50=1.0, p99=1.0, failures=0)

    measure = answers._while_asked(server, load_for, [refused], 0.01)
    with pytest.raises(RuntimeError, match="GET /executions was answered"):
        measure(1)


def test_benches_that_ran_by_themselves_replace_their_own_promises_alone() -> None:
    page = "<!-- tokens -->\n\nold\n<!-- /tokens -->\n<!-- promises results -->\n\n{}\n\n<!-- /promises results -->\n"
    table = (
        "| promise | measured | kept? |\n| --- | ---: | --- |\n| a: at most 5 | 4 | yes |\n| b: at most 5 | 9 | NO |"
    )
    figures = Figures([Figure(bench="tokens", database="sqlite", what="taken", value=1000.0)])
    promises = [
        Promise(promise="b: at most 5", measured="3", kept=True),
        Promise(promise="c: at least 1", measured="2", kept=True),
        Promise(promise="d: at least 1", measured="", kept=None),
    ]
    written = report.with_some(page.format(table), {"cores": "2", "memory": "4 GiB"}, figures, promises)
    assert "old" not in written
    assert "Measured by itself: 2 cores, memory 4 GiB." in written
    assert "| sqlite | taken | 1,000/s |" in written
    kept = "| a: at most 5 | 4 | yes |\n| b: at most 5 | 3 | yes |\n| c: at least 1 | 2 | yes |\n\n<!-- /promises"
    assert f"| --- | ---: | --- |\n{kept}" in written
