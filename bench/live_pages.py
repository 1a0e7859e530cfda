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
#: Pages that are opened at once.
_AT_ONCE = 4
_MOST_SECONDS = 300


class LivePages:
    """How often the pages were shown anew, and how many of them have a stream."""

    def __init__(self) -> None:
        self.shown = 0
        self.live = 0


@contextmanager
def open_pages(port: int, addresses: Sequence[str]) -> Iterator[LivePages]:
    """Keep pages open in a thread of their own until the end of the context."""
    pages = LivePages()
    loop = asyncio.new_event_loop()
    all_live = threading.Event()

    async def keep_open() -> None:
        few = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for address in addresses:
                group.create_task(_keep(port, address, pages, all_live, len(addresses), few))

    task = loop.create_task(keep_open())

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
        if pages.live < len(addresses):
            raise RuntimeError(f"only {pages.live} of {len(addresses)} pages became live")
        yield pages
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
        thread.join()


async def _keep(
    port: int, address: str, pages: LivePages, all_live: threading.Event, count: int, few: asyncio.Semaphore
) -> None:
    async with few:
        version = await _show(port, address)
    query = f"page={quote(address, safe='')}&seen={quote(version, safe='')}"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_MOST_LINE)
    try:
        writer.write(f"GET /console/events?{query} HTTP/1.1\r\n{_HEAD}\r\n".encode())
        async for line in reader:
            if line == b"event: live\n":
                pages.live += 1
                if pages.live == count:
                    all_live.set()
            elif line.startswith(b"data: ") and line[6:].strip().decode() != version:
                version = await _show(port, address)
                pages.shown += 1
    finally:
        writer.close()


async def _show(port: int, address: str) -> str:
    """Ask for a page, and find which version it has."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_MOST_LINE)
    writer.write(f"GET {address} HTTP/1.1\r\n{_HEAD}Rainbow-Live: 1\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    version = _VERSION.search(gzip.decompress(body) if b"gzip" in head.lower() else body)
    if version is None:
        raise RuntimeError(f"{address} is no live page: {head[:200]!r}")
    return version[1].decode()
