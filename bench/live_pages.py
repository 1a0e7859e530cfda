"""Open pages of the console, as browsers keep them: each has a stream, and asks for itself again when it is told to."""

from __future__ import annotations

import asyncio
import gzip
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

_VERSION = re.compile(rb'data-live-version="([^"]*)"')
_HEAD = "Host: localhost\r\nAccept-Encoding: gzip\r\n"
_MOST_LINE = 1 << 20
#: Pages that are loaded at once.
_AT_ONCE = 4
_MOST_SECONDS = 300
#: The events that have a page ask for itself again.
_ASKING = (b"changed", b"aged")


class LivePages:
    """Pages that are loaded once, and have streams while somebody looks at them; hidden ones ask for nothing."""

    def __init__(self, port: int, addresses: Sequence[str]) -> None:
        self.shown = 0  #: how often they were shown anew
        self.live = 0  #: how many of them have a stream
        self._port = port
        self._addresses = addresses
        self._versions: dict[int, str] = {}  #: of those that are loaded

    @contextmanager
    def seen(self) -> Iterator[None]:
        """Keep the pages live in a thread of their own until the end of the context."""
        loop = asyncio.new_event_loop()
        all_live = threading.Event()
        self.live = 0

        async def keep_live() -> None:
            few = asyncio.Semaphore(_AT_ONCE)
            async with asyncio.TaskGroup() as group:
                for number in range(len(self._addresses)):
                    group.create_task(self._keep(number, all_live, few))

        task = loop.create_task(keep_live())

        def run() -> None:
            try:
                loop.run_until_complete(task)
            except asyncio.CancelledError:
                pass
            finally:
                all_live.set()
                loop.close()

        thread = threading.Thread(target=run, name="live pages")
        thread.start()
        try:
            all_live.wait(_MOST_SECONDS)
            if self.live < len(self._addresses):
                raise RuntimeError(f"only {self.live} of {len(self._addresses)} pages became live")
            yield
        finally:
            if thread.is_alive():
                loop.call_soon_threadsafe(task.cancel)
            thread.join()

    async def _keep(self, number: int, all_live: threading.Event, few: asyncio.Semaphore) -> None:
        address = self._addresses[number]
        if number not in self._versions:
            async with few:
                self._versions[number] = await self._load(address)
        query = f"page={quote(address, safe='')}&seen={quote(self._versions[number], safe='')}"
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_MOST_LINE)
        try:
            writer.write(f"GET /console/events?{query} HTTP/1.1\r\n{_HEAD}\r\n".encode())
            event = b""
            async for line in reader:
                name, _, value = line.strip().partition(b": ")
                if name == b"event":
                    event = value
                    if event == b"live":
                        self.live += 1
                        if self.live == len(self._addresses):
                            all_live.set()
                elif name == b"data" and event in _ASKING:
                    version, _, told_at = value.decode().partition(" ")
                    if event == b"aged" or version != self._versions[number]:
                        anew = f"Rainbow-Live: 1\r\nRainbow-Told: {told_at}\r\n"
                        self._versions[number] = await self._load(address, anew)
                        self.shown += 1
        finally:
            writer.close()

    async def _load(self, address: str, headers: str = "") -> str:
        """Ask for a page, and find which version it has."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_MOST_LINE)
        writer.write(f"GET {address} HTTP/1.1\r\n{_HEAD}{headers}Connection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        version = _VERSION.search(gzip.decompress(body) if b"gzip" in head.lower() else body)
        if version is None:
            raise RuntimeError(f"{address} is no live page: {head[:200]!r}")
        return version[1].decode()
