"""Compare WSGI servers: throughput, 1,000 held long polls, wake-up and graceful stop.

Run as `python -m bench.servers [name ...]`. Every server runs `bench.servers_app` on a free loopback port, on
the same cores as the load. Rates come from `wrk` where it is installed, else from a slower asyncio client.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.load import Call

ROOT = Path(__file__).resolve().parent.parent
POLLS = 1000
POLL_SECONDS = 30
STOP_POLLS = 100
STOP_POLL_SECONDS = 12
RATE_SECONDS = 4
THREADS = 1100
GUNICORN = ["-m", "gunicorn", "-w2", "--backlog=2048", "--keep-alive=75", "--worker-connections=2048"]
CANDIDATES: dict[str, tuple[str, list[str]]] = {
    "gunicorn gthread": ("gunicorn", [*GUNICORN, "-kgthread", f"--threads={THREADS}"]),
    "gunicorn gevent": ("gevent", [*GUNICORN, "-kgevent"]),
    "granian": ("granian", ["-m", "bench.servers_app", "granian"]),
    "waitress": ("waitress", ["-m", "bench.servers_app", "waitress"]),
    "cheroot": ("cheroot", ["-m", "bench.servers_app", "cheroot"]),
}


@dataclass
class Server:
    """A running server and the directory its processes share."""

    process: subprocess.Popen[bytes]
    port: int
    directory: Path

    def tree(self) -> list[int]:
        """The process ids of the server and its descendants."""
        pids = [self.process.pid]
        for pid in pids:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    pids += [int(child) for child in children.read_text().split()]
        return pids

    def memory(self) -> int:
        """Resident MiB of the tree; pages that processes share are counted in each."""
        total = 0
        for pid in self.tree():
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                total += int(re.findall(r"VmRSS:\s+(\d+)", status)[0])
        return total // 1024

    def control(self, message: bytes) -> list[int]:
        """Send a datagram to every process; with `count`, return the polls each one holds."""
        counts = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            own = self.directory / "bench.reply"
            own.unlink(missing_ok=True)
            sock.bind(str(own))
            sock.settimeout(5)
            for path in self.directory.glob("*.sock"):
                with contextlib.suppress(OSError):
                    sock.sendto(message, str(path))
                    if message == b"count":
                        counts.append(int(sock.recv(64)))
        return counts


@dataclass
class Poll:
    """One request sent from the asyncio side; `answered` stays None when the connection closed first."""

    path: str
    answered: float | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    async def run(self, port: int) -> None:
        """Send the request and note when its answer came."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"GET {self.path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n")
                if b" 200 " in head:
                    self.answered = time.monotonic()
            finally:
                writer.close()


def start_polls(server: Server, path: str, count: int) -> list[Poll]:
    """Open `count` requests at once, without waiting for their answers."""
    polls = [Poll(path) for _ in range(count)]
    for poll in polls:
        poll.task = asyncio.create_task(poll.run(server.port))
    return polls


async def join_polls(polls: list[Poll], seconds: float) -> None:
    """Wait for the answers, and drop those that do not come in time."""
    tasks = [poll.task for poll in polls if poll.task]
    _, pending = await asyncio.wait(tasks, timeout=seconds)
    for task in pending:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def running(arguments: list[str]) -> Iterator[Server]:
    """Start a server in its own session; on the way out, kill what is left of it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        with sqlite3.connect(f"{name}/bench.sqlite") as database:
            database.executescript("PRAGMA journal_mode=WAL; CREATE TABLE item (id INTEGER PRIMARY KEY, value)")
            database.execute("INSERT INTO item (value) VALUES ('x')")
        database.close()
        last = [str(port)]
        if "gunicorn" in arguments:
            last = [f"--bind=127.0.0.1:{port}", "--log-level=error", "bench.servers_app:create_app()"]
        environment = os.environ | {"BENCH_DIR": name, "BENCH_THREADS": str(THREADS)}
        with Path(name, "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments, *last],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            else:
                raise RuntimeError("did not start: " + Path(name, "log").read_text()[-500:])
            time.sleep(1)  # every worker has loaded the application
            yield Server(process, port, Path(name))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


async def rate(server: Server, path: str) -> str:
    """Requests over 16 keep-alive connections for a few seconds."""
    measured = await asyncio.to_thread(Call(port=server.port, path=path).measure, RATE_SECONDS)
    failed = f", {measured.failures} failed" if measured.failures else ""
    return f"{measured.per_second:,.0f}/s, {measured.p50:.1f}/{measured.p99:.1f} ms{failed}"


async def held_polls(server: Server, expected: int) -> list[int]:
    """The polls each process holds, once all are or after ten seconds."""
    deadline = time.monotonic() + 10
    while True:
        counts = server.control(b"count")
        if sum(counts) >= expected or time.monotonic() > deadline:
            return counts
        await asyncio.sleep(0.1)


async def stop(server: Server, release: bool) -> str:
    """SIGTERM with a request of one second and some polls in flight."""
    polls = start_polls(server, f"/poll?wait={STOP_POLL_SECONDS}", STOP_POLLS)
    await held_polls(server, STOP_POLLS)
    slow = start_polls(server, "/slow", 1)
    await asyncio.sleep(0.3)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    if release:
        await asyncio.sleep(0.1)
        server.control(b"release")
    while server.process.poll() is None and time.monotonic() < begin + 45:
        await asyncio.sleep(0.02)
    took = time.monotonic() - begin
    await join_polls(polls + slow, 1)
    answered = sum(poll.answered is not None for poll in polls)
    exited = f"{took:.1f} s" if server.process.poll() is not None else "no exit in 45 s"
    return f"{exited}; slow {'answered' if slow[0].answered else 'LOST'}; polls {answered}/{STOP_POLLS}"


async def measure(arguments: list[str]) -> dict[str, str]:
    """Every figure of one candidate."""
    row: dict[str, str] = {}
    with running(arguments) as server:
        row["empty"] = await rate(server, "/empty")
        row["SQLite read"] = await rate(server, "/read")
        row["SQLite write"] = await rate(server, "/write")
        row["RSS before polls"] = f"{server.memory()} MiB"
        polls = start_polls(server, f"/poll?wait={POLL_SECONDS}", POLLS)
        counts = await held_polls(server, POLLS)
        row["polls held"] = f"{sum(counts)} ({' + '.join(map(str, counts))})"
        row["empty, polls held"] = await rate(server, "/empty")
        row["RSS, polls held"] = f"{server.memory()} MiB"
        begin = time.monotonic()
        server.control(b"release")
        await join_polls(polls, POLL_SECONDS + 15)
        woken = sorted(poll.answered - begin for poll in polls if poll.answered)
        last = f"{woken[len(woken) // 2] * 1000:.0f} / {woken[-1] * 1000:.0f} ms" if woken else "none"
        row["wake-up, median / last"] = f"{last} ({len(woken)} answered)"
        row["stop, polls released"] = await stop(server, release=True)
    with running(arguments) as server:
        row["stop, polls not released"] = await stop(server, release=False)
    return row


def main() -> None:
    """Measure the candidates named on the command line, or all, and print one table."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))
    rows: dict[str, dict[str, str]] = {}
    for name, (package, arguments) in CANDIDATES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        if importlib.util.find_spec(package) is None or importlib.util.find_spec(arguments[1]) is None:
            print(f"{name}: skipped, {package} is not installed", file=sys.stderr)
            continue
        rows[name] = asyncio.run(measure(arguments))
    print("| | " + " | ".join(rows) + " |")
    print("|---" * (len(rows) + 1) + "|")
    for key in next(iter(rows.values()), {}):
        print(f"| {key} | " + " | ".join(row[key] for row in rows.values()) + " |")


if __name__ == "__main__":
    main()
