"""The connection to a Flux instance: one process that runs under `flux python`, for as long as it answers.

The bindings belong to the site's Flux and need not fit the agent's interpreter, so a process of its own imports them.
It is started when it is first needed and again after it has ended; while Flux does not answer, EngineUnavailable says
so, and no process is started for a while.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import EngineError, EngineUnavailable
from agent.engines.batch.engine import take_lock

#: The variables of the agent's environment that are passed on to Flux and to jobs.
LOGIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")
_HELPER = Path(__file__).with_name("helper.py")
#: What the helper's last words are looked for in.
_MOST_WORDS = 4000


class Refusal(EngineError):
    """Flux answered, and refused the request."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.errno = number


class FluxConnection:
    """Requests to one instance, and the events that it sends of jobs that are followed."""

    def __init__(
        self,
        *,
        program: str,
        uri: str,
        follow: str,
        lock: Path,
        timeout_seconds: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        path = shutil.which(program)
        if path is None:
            raise EngineError(
                f"engine flux: there is no {program} on PATH: install flux-core where the agent runs, add its "
                "directory to PATH, or name the program with engineOptions.flux"
            )
        self.program = path
        self.timeout_seconds = timeout_seconds
        self._follow = follow
        self._lock = lock
        self._clock = clock
        self._uri = uri or os.environ.get("FLUX_URI", "")
        self._unavailable_until = 0.0
        self._unavailable_reason = ""
        self._helper: _Helper | None = None
        #: What Flux says of itself, once it has been heard.
        self.instance: dict[str, Any] = {}
        #: How often a helper was started: what was followed before is not any more.
        self.generation = 0

    @property
    def login(self) -> dict[str, str]:
        """The environment that Flux and jobs get of the agent's."""
        return {name: os.environ[name] for name in LOGIN if name in os.environ}

    def call(self, request: str, /, *, patience: int = 1, **fields: Any) -> Any:
        """The answer to a request; Refusal if Flux refuses it, EngineUnavailable if it does not answer."""
        helper = self._connected()
        return self._ask(helper, request, self.timeout_seconds * patience, fields)

    @contextlib.contextmanager
    def submitting(self, name: str) -> Iterator[None]:
        """Hold the lock that tells a later agent that a submission goes on, as long as the helper lives."""
        helper = self._connected()
        take_lock(helper.lock, name)
        try:
            yield
        finally:
            # Where there was no answer the helper is gone: it holds the lock until it has ended.
            if self._helper is helper:
                fcntl.flock(helper.lock, fcntl.LOCK_UN)

    def messages(self) -> list[dict[str, Any]]:
        """What Flux has sent of jobs since the last call; EngineUnavailable where nobody listens."""
        return self._connected().take_messages()

    def _ask(self, helper: _Helper, name: str, seconds: float, fields: Mapping[str, Any]) -> Any:
        # The helper waits for Flux; it gets a little longer itself.
        answer = helper.ask(name, fields, seconds * 3 + 5)
        if answer is None:
            words = helper.last_words()
            self._close()
            raise self._unavailable(words or f"Flux did not answer '{name}'")
        if "error" not in answer:
            return answer["result"]
        message, number = str(answer["error"]), int(answer["errno"])
        if number in _NO_ANSWER or helper.has_ended():
            self._close()
            raise self._unavailable(f"Flux: {message}")
        raise Refusal(message, number)

    def _connected(self) -> _Helper:
        if self._helper is not None:
            if not self._helper.has_ended():
                return self._helper
            words = self._helper.last_words()
            self._close()
            raise self._unavailable(words or "the connection to Flux was lost")
        if self._clock.steady() < self._unavailable_until:
            raise EngineUnavailable(self._unavailable_reason)
        command = [self.program, "python", str(_HELPER), f"{self.timeout_seconds:g}", self._follow]
        environment = {**self.login, **{name: value for name, value in os.environ.items() if name.startswith("FLUX_")}}
        if self._uri:
            environment["FLUX_URI"] = self._uri
        try:
            helper = _Helper(command, environment, self._lock)
        except OSError as error:
            raise self._unavailable(f"{self.program} cannot be started: {error.strerror}") from error
        self._helper = helper
        self.generation += 1
        self.instance = self._ask(helper, "hello", self.timeout_seconds, {})
        return helper

    def _unavailable(self, reason: str) -> EngineUnavailable:
        """An error after which no helper is started for a while."""
        self._unavailable_until = self._clock.steady() + self.timeout_seconds
        self._unavailable_reason = f"{reason}; the agent tries again later"
        return EngineUnavailable(self._unavailable_reason)

    def _close(self) -> None:
        if self._helper is not None:
            self._helper.close()
            self._helper = None

    def close(self) -> None:
        """End the helper."""
        self._close()


#: Errors by which Flux did not answer; ENOSYS is that of a module which is just loaded or unloaded.
_NO_ANSWER = frozenset(
    {
        *(errno.ETIMEDOUT, errno.ENOSYS, errno.EHOSTUNREACH, errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN),
        *(errno.EAGAIN, errno.EIO),
    }
)


class _Helper:
    """The process, and a thread that reads what it says."""

    def __init__(self, command: list[str], environment: Mapping[str, str], lock: Path) -> None:
        self.lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(self.lock,),
                # Ctrl-C ends the agent, which ends the helper.
                start_new_session=True,
            )
        except OSError:
            os.close(self.lock)
            raise
        self._number = 0
        self._answers: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._errors = b""
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, name: str, fields: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        """The answer; None if there is none in time."""
        self._number += 1
        line = json.dumps({"id": self._number, "call": name, **fields}).encode() + b"\n"
        try:
            stdin = self._stream(self._process.stdin)
            stdin.write(line)
            stdin.flush()
            answer = self._answers.get(timeout=seconds)
        except (OSError, Empty):
            return None
        return answer if answer is not None and answer["id"] == self._number else None

    def take_messages(self) -> list[dict[str, Any]]:
        messages = []
        with contextlib.suppress(Empty):
            while True:
                messages.append(self._messages.get_nowait())
        return messages

    def has_ended(self) -> bool:
        return self._process.poll() is not None or not self._threads[0].is_alive()

    def last_words(self) -> str:
        """The last line that it wrote to stderr."""
        self._threads[1].join(timeout=1)
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return f"Flux: {lines[-1].strip()}" if lines else ""

    def close(self) -> None:
        """End it at once; what it has asked of Flux may still happen."""
        self._process.kill()
        for thread in self._threads:
            thread.join(timeout=5)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                self._stream(stream).close()
        self._process.wait()
        os.close(self.lock)

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in self._stream(self._process.stdout):
                message = json.loads(line)
                if "id" in message:
                    self._answers.put(message)
                else:
                    self._messages.put(message)
        self._answers.put(None)

    def _read_errors(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in self._stream(self._process.stderr):
                self._errors = (self._errors + line)[-_MOST_WORDS:]

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream
