"""Peers: what others manage on the same PostgreSQL in the same run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import requests
from sqlalchemy.engine import make_url

from bench.databases import Backend
from bench.figures import Figure, rate_figure
from bench.http_pairs import pair_measure
from bench.load import Call, Measure, Pace, measure_in_turns
from bench.peers.environments import Unavailable, environment
from tests.support.ports import free_port

NAME = "peers"
DEQUEUE = "pgqueuer: dequeue and finish, in batches of 50"
_SCRIPTS = {
    "pgqueuer": ("pgqueuer>=1,<2", "asyncpg"),
    "procrastinate": ("procrastinate>=3,<4", "psycopg[binary]"),
}
_PREFECT = ("prefect>=3,<4", "asyncpg", "fastapi<0.150")  # newer ones have dropped what it uses


def run(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Figures of every peer that can be installed; they need PostgreSQL."""
    if backend.name != "postgresql":
        return
    for name, requirements in _SCRIPTS.items():
        try:
            yield from _script(name, requirements, backend, pace)
        except Unavailable as reason:
            yield _skipped(name, reason)
    try:
        yield from _prefect(backend, pace)
    except Unavailable as reason:
        yield _skipped("prefect", reason)


def _skipped(name: str, reason: Unavailable) -> Figure:
    return Figure(bench=NAME, what=f"{name}: skipped, {reason}", value=0, unit="")


def _script(name: str, requirements: tuple[str, ...], backend: Backend, pace: Pace) -> Iterator[Figure]:
    """The figures of a peer that is a library, from a script in its environment."""
    python = environment(name, *requirements) / "python"
    script = Path(__file__).with_name(f"with_{name}.py")
    url = make_url(backend.create()).set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        done = subprocess.run(
            [str(python), str(script), url, str(pace.seconds)], capture_output=True, text=True, check=True, timeout=180
        )
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"its script failed: {error.stderr.strip().splitlines()[-1]}") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable("its script did not end") from error
    for line in done.stdout.splitlines():
        measured = json.loads(line)
        yield Figure(
            bench=NAME,
            what=f"{name}: {measured['what']}",
            database=backend.name,
            value=measured["per_second"],
            p50=measured.get("p50"),
            p99=measured.get("p99"),
        )


def _prefect(backend: Backend, pace: Pace) -> Iterator[Figure]:
    """Flow runs created over HTTP, with the same load as our own creations."""
    with _prefect_server(environment("prefect", *_PREFECT), backend.create()) as port:
        flow = requests.post(f"http://127.0.0.1:{port}/api/flows/", json={"name": "train"}, timeout=30)
        flow.raise_for_status()
        body = {"flow_id": flow.json()["id"], "name": "e<unique>", "parameters": {"epochs": 3}}
        call = Call(port=port, path="/api/flow_runs/", method="POST", body=json.dumps(body))
        slots = _prefect_slots(port)
        rates = measure_in_turns(
            {
                "prefect: create a flow run over HTTP": call.measure,
                "prefect: take a slot of a concurrency limit and give it back over HTTP": slots,
            },
            pace,
        )
    for what, rate in rates.items():
        yield rate_figure(NAME, what, backend.name, rate)


def _prefect_slots(port: int) -> Measure:
    """Slots of a limit that is never reached, by the same program that takes tokens of ours over HTTP."""
    limit = {"name": "hive", "limit": 10**9, "active": True}
    path = "/api/v2/concurrency_limits"
    requests.post(f"http://127.0.0.1:{port}{path}/", json=limit, timeout=30).raise_for_status()
    slot = {"slots": 1, "names": ["hive"]}
    return pair_measure(
        port,
        lambda: (f"{path}/increment", {**slot, "mode": "concurrency"}),
        lambda _: (f"{path}/decrement", {**slot, "occupancy_seconds": 0.0}),
    )


@contextmanager
def _prefect_server(programs: Path, database: str) -> Iterator[int]:
    """A server with its default settings, but for the database; it sends no telemetry."""
    port = free_port()
    url = make_url(database).set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)
    with tempfile.TemporaryDirectory(prefix="rainbow-bench-") as home:
        settings = {
            "PREFECT_HOME": home,
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": url,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_LOGGING_LEVEL": "ERROR",
            "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
            "DO_NOT_TRACK": "1",
        }
        command = [str(programs / "prefect"), "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"]
        with Path(home, "log").open("wb") as log:
            process = subprocess.Popen(
                command, env={**os.environ, **settings}, stdout=log, stderr=log, start_new_session=True
            )
        try:
            _wait_for(process, f"http://127.0.0.1:{port}/api/health", Path(home, "log"))
            yield port
        finally:
            _stop(process)


def _wait_for(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(requests.RequestException):
            if requests.get(url, timeout=5).ok:
                return
        time.sleep(0.5)
    print(log.read_text(errors="replace")[-2000:], file=sys.stderr)
    raise Unavailable("its server did not start")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and the processes that it started, which share a session of their own."""
    for signal_number, seconds in ((15, 20), (9, 5)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
            return
