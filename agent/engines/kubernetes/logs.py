"""What the pods of Jobs print: followed while they run, and kept in the files of each task.

Kubernetes has one log of both streams, which counts as stdout. Each line comes with its time, by which a log is resumed
after a connection or an agent was lost; the lines of several pods are put together as they come.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx

from agent.engines.kept_streams import KeptStream
from agent.engines.kubernetes.api import describe, raise_for
from agent.engines.kubernetes.manifests import MAIN, OUTPUTS
from agent.engines.kubernetes.outputs import MOST_PRINTED_BYTES, read_outputs
from agent.engines.kubernetes.states import container, is_ended
from agent.engines.kubernetes.watches import Loop, Watch
from agent.files import read_json, write_json

RECORD = "log.json"
OUTPUT_FILES = "outputs.json"
#: How long to wait before something is tried again, and how often that doubles.
_PAUSE_SECONDS, _MOST_DOUBLINGS = 0.2, 6
#: How many pauses the watch of pods may be behind the end of a log.
_LAG_TURNS = 25
#: How often it is recorded how far the log has come.
_RECORD_SECONDS = 1.0
_SILENCE_SECONDS = 3600.0
#: How much of a line is held until it ends.
_MOST_HELD_BYTES = 64 * 1024


@dataclass
class JobLog:
    """The log of one Job."""

    directory: Path
    limit: int
    followed: set[str] = field(default_factory=set)
    complete: set[str] = field(default_factory=set)
    times: dict[str, str] = field(default_factory=dict)
    #: Why it could not be read when that was last tried; empty if it could.
    problem: str = ""
    #: What follows it, and whether nothing more is to be kept.
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    is_closed: bool = False
    _stream: KeptStream | None = None
    _recorded_at: float = 0.0

    def __post_init__(self) -> None:
        record = read_json(self.directory / RECORD) or {}
        self.complete = set(record.get("complete", ()))
        self.times = dict(record.get("times", {}))
        self._end = int(record.get("end", 0))

    def append(self, pod: str, time: str, data: bytes) -> None:
        """Add what a pod has printed."""
        if self.is_closed:
            return
        if self._stream is None:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._stream = KeptStream(self.directory / "stdout", self.limit, self._end)
        self._stream.append(data)
        if time:
            self.times[pod] = time
        now = asyncio.get_running_loop().time()
        if now >= self._recorded_at + _RECORD_SECONDS:
            self._recorded_at = now
            self.record()

    def record(self) -> None:
        """Store how far the log has come, so that another agent goes on from there."""
        if self.is_closed:
            return
        if self._stream is not None:
            self._end = self._stream.end
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(self.directory / RECORD, {"end": self._end, "times": self.times, "complete": sorted(self.complete)})

    def finish(self, pod: str) -> None:
        """Note that a pod prints nothing more."""
        self.complete.add(pod)
        self.record()

    async def close(self) -> None:
        """Follow no pod any more, and close the files."""
        for task in self.tasks:
            task.cancel()
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class Logs:
    """Follows the logs of pods."""

    def __init__(self, loop: Loop, pods: Watch, directory: Path, limit: int) -> None:
        self._loop = loop
        self._pods = pods
        self._directory = directory
        self._limit = limit
        self._logs: dict[str, JobLog] = {}

    def follow(self, key: str, namespace: str, pod: str, outputs: list[str]) -> None:
        """Keep what a pod prints from now on."""
        log = self._log(key)
        log.followed.add(pod)
        self._loop.start(lambda: self._follow(log, namespace, pod, outputs))

    def is_followed(self, key: str, pod: str) -> bool:
        """Whether what a pod prints is kept, or was kept until its end."""
        log = self._log(key)
        return pod in log.followed or pod in log.complete

    def is_complete(self, key: str, pod: str) -> bool:
        """Whether everything is kept that a pod has printed."""
        return pod in self._log(key).complete

    def problem(self, key: str) -> str:
        """Why what a Job prints could not be read when that was last tried; empty if it could."""
        return self._log(key).problem

    def forget(self, key: str) -> None:
        """Keep nothing more of what a Job prints, and close its files."""
        if (log := self._logs.pop(key, None)) is not None:
            log.is_closed = True  # at once, since its directory may be removed now
            self._loop.start(log.close)

    def _log(self, key: str) -> JobLog:
        if key not in self._logs:
            self._logs[key] = JobLog(self._directory / key, self._limit)
        return self._logs[key]

    async def _follow(self, log: JobLog, namespace: str, pod: str, outputs: list[str]) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        failures = 0
        if (task := asyncio.current_task()) is not None:
            log.tasks.add(task)
            task.add_done_callback(log.tasks.discard)
        while not log.is_closed:
            try:
                await self._read(log, path, pod)
                # The kubelet ends a log that is followed when the container has ended; a broken one is an exception.
                if await self._ends(namespace, pod, is_whole=bool(outputs)):
                    if outputs:
                        await self._read_outputs(log, path, outputs)
                    break
                failures, log.problem = 0, ""
            except Exception as error:  # of the connection, of the API server, or of the disk: tried again
                if getattr(error, "status", 0) in (400, 404) and self._has_ended(namespace, pod):
                    break
                failures, log.problem = failures + 1, describe(error)
            await asyncio.sleep(_PAUSE_SECONDS * 2 ** min(failures, _MOST_DOUBLINGS))
        log.finish(pod)

    async def _ends(self, namespace: str, pod: str, *, is_whole: bool) -> bool:
        """Whether the command of a pod has ended, or all its containers, as the watch tells in a moment."""
        for _ in range(_LAG_TURNS):
            if self._has_ended(namespace, pod, is_whole=is_whole):
                return True
            await asyncio.sleep(_PAUSE_SECONDS)
        return False

    def _has_ended(self, namespace: str, name: str, *, is_whole: bool = False) -> bool:
        pod = self._pods.items.get((namespace, name))
        if is_whole:
            return pod is None or is_ended(pod)
        return pod is None or "terminated" in container(pod).get("state", {})

    async def _read(self, log: JobLog, path: str, pod: str) -> None:
        query: dict[str, Any] = {"container": MAIN, "follow": "true", "timestamps": "true"}
        since = log.times.get(pod, "")
        if since:
            query["sinceTime"] = since
        timeout = httpx.Timeout(10.0, read=_SILENCE_SECONDS)
        async with self._loop.client.stream("GET", path, params=query, timeout=timeout) as answer:
            if answer.status_code >= 400:
                raise_for(answer.status_code, _body(await answer.aread()))
            lines = DatedLines(since)
            async for data in answer.aiter_bytes():
                time, text = lines.take(data)
                if text:
                    log.append(pod, time, text)
            time, text = lines.end()
            if text:
                log.append(pod, time, text)

    async def _read_outputs(self, log: JobLog, path: str, paths: list[str]) -> None:
        query: dict[str, Any] = {"container": OUTPUTS, "limitBytes": MOST_PRINTED_BYTES}
        answer = await self._loop.client.get(path, params=query)
        if answer.status_code >= 400:
            raise_for(answer.status_code, _body(answer.content))
        files = read_outputs(answer.content, paths) or {}
        index: dict[str, Any] = {}
        for number, (name, file) in enumerate(files.items()):
            (log.directory / f"output.{number}").write_bytes(file.content)
            index[name] = {"file": f"output.{number}", "size": file.size}
        if files or not (log.directory / OUTPUT_FILES).exists():
            write_json(log.directory / OUTPUT_FILES, index)


class DatedLines:
    """Takes the times off the lines of a log, of which only those after a time are new.

    A long line is passed on piece by piece: a program may never end one. Its time is told when it has ended, so that
    after a lost connection it is read again from its beginning.
    """

    def __init__(self, since: str = "") -> None:
        self._since = since
        self._rest = b""  #: what follows the last end of a line
        self._time: str | None = None  #: of a line of which a piece was passed on
        self._is_new = True  #: whether that line is

    def take(self, data: bytes) -> tuple[str, bytes]:
        """The time of the last line that has ended, if one has, and the new text."""
        *ended, self._rest = (self._rest + data).split(b"\n")
        time, pieces = "", []
        for line in ended:
            pieces.append(self._text(line + b"\n"))
            time, self._time = self._time or "", None
        if len(self._rest) > _MOST_HELD_BYTES:
            pieces.append(self._text(self._rest))
            self._rest = b""
        return time, b"".join(pieces)

    def end(self) -> tuple[str, bytes]:
        """The time and the text of a line that does not end."""
        text = self._text(self._rest) if self._rest else b""
        return self._time or "", text

    def _text(self, line: bytes) -> bytes:
        """What is new of a line, or of what follows a piece of it."""
        if self._time is None:
            time, _, line = line.partition(b" ")
            self._time = time.decode("ascii", "replace")
            self._is_new = not self._since or self._time > self._since
        return line if self._is_new else b""


def _body(content: bytes) -> dict[str, Any]:
    try:
        body = json.loads(content)
    except ValueError:
        return {"message": content[:200].decode(errors="replace")}
    return body if isinstance(body, dict) else {}
