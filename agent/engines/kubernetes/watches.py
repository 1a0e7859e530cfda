"""What a cluster has, listed once and then watched: one watch for all objects of a kind, however many there are.

All watches and the logs run in one thread with an event loop. A watch that breaks off is resumed where it was; where
the API server no longer knows what has changed since, everything is listed anew.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from time import monotonic
from typing import Any

import httpx2 as httpx

from agent.engines.base import EngineUnavailable
from agent.engines.kubernetes.api import Api, Refusal, describe, raise_for

log = logging.getLogger("rainbow.agent")

Object = dict[str, Any]
_PAGE = 500
#: How long the API server keeps a watch open, and how long nothing may come of it.
_WATCH_SECONDS, _SILENCE_SECONDS = 240, 270.0
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
#: How long there may be no news until what is known counts as too old; an API server restarts in less.
_STALE_SECONDS = 20.0
#: How long an attempt must have lasted for the next one to follow without a longer pause.
_GOOD_SECONDS = 5.0
_GONE = 410


class Loop:
    """A thread with an event loop, and a client for its streams."""

    def __init__(self, api: Api) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubernetes", daemon=True)
        self.client = api.streams()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something beside everything else."""
        self._loop.call_soon_threadsafe(self._create, work)

    def _create(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self._loop.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """End everything that runs, and the thread."""

        async def end() -> None:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.client.aclose()
            self._loop.stop()

        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(end(), self._loop)
            self._thread.join(5)


class Watch:
    """The objects of one kind in all namespaces, by namespace and name."""

    def __init__(
        self,
        loop: Loop,
        path: str,
        *,
        keep: Callable[[Object], Object] = lambda item: item,
        deleted: Callable[[Object], None] = lambda item: None,
        is_needed: bool = True,
        **query: str,
    ) -> None:
        self.items: dict[tuple[str, str], Object] = {}
        #: Why there is no news; empty while there is.
        self.problem = ""
        self._problem_at = 0.0  #: since when
        self._is_logged = False
        self._is_needed = is_needed
        #: How often something has changed here; it is counted after the change, so that a reader sees it.
        self.changes = 0
        self._loop = loop
        self._path = path
        self._query = query
        self._keep = keep
        self._deleted = deleted
        self._version = ""
        self._listed = threading.Event()
        self._began_at = monotonic()
        loop.start(self._follow)

    def wait(self, seconds: float) -> None:
        """Wait until everything was listed once, so many seconds from the beginning; EngineUnavailable where it is not.

        It is raised too where there has been no news for long: what is known is not to be taken for what there is.
        An agent goes on with its other work meanwhile, the renewal of leases before all.
        """
        if not self._listed.wait(max(0.0, self._began_at + seconds - monotonic())):
            raise EngineUnavailable(self.problem or "the Kubernetes API server does not answer in time")
        problem = self.problem
        if problem and monotonic() - self._problem_at >= _STALE_SECONDS:
            raise EngineUnavailable(problem)

    def put(self, item: Object) -> None:
        """Add an object that was just created, before the watch tells of it."""
        name = _name(item)
        if name not in self.items or _version(self.items[name]) < _version(item):
            self.items[name] = self._keep(item)
            self.changes += 1

    async def _follow(self) -> None:
        failures = 0
        while True:
            began_at = monotonic()
            try:
                if not self._version:
                    await self._list()
                    self._listed.set()
                await self._watch()
            except Refusal as refusal:
                if refusal.status == _GONE:
                    self._version = ""
                else:
                    self._note(f"Kubernetes refuses {self._path}: {refusal}")
            except EngineUnavailable as error:
                self._note(str(error))
            except Exception as error:  # of the connection, of credentials, of what is no answer: no watch ends of it
                self._note(f"the Kubernetes API server does not answer: {describe(error)}")
            if monotonic() - began_at >= _GOOD_SECONDS:
                failures = 0
            await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
            failures += 1

    def _note(self, problem: str) -> None:
        """Note why there is no news, or that there is; what nobody waits for is logged once."""
        if problem and not self.problem:
            self._problem_at = monotonic()
        self.problem = problem
        if not self._is_needed and bool(problem) != self._is_logged:
            self._is_logged = bool(problem)
            if problem:
                log.warning("%s", problem)
            else:
                log.info("%s is watched again", self._path)

    async def _list(self) -> None:
        items: dict[tuple[str, str], Object] = {}
        query: dict[str, Any] = {**self._query, "limit": _PAGE}
        while True:
            answer = await self._loop.client.get(self._path, params=query)
            body = answer.json()
            if answer.status_code >= 400:
                raise_for(answer.status_code, body)
            items |= {_name(item): self._keep(item) for item in body["items"]}
            query["continue"] = body["metadata"].get("continue")
            if not query["continue"]:
                break
        self._version = body["metadata"]["resourceVersion"]
        listed_at = int(self._version)
        newer = {name: item for name, item in list(self.items.items()) if _version(item) > listed_at}
        self.items = {**items, **newer}
        self.changes += 1

    async def _watch(self) -> None:
        query = {**self._query, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": self._version}
        timeout = httpx.Timeout(10.0, read=_SILENCE_SECONDS)
        async with self._loop.client.stream(
            "GET", self._path, params={**query, "timeoutSeconds": _WATCH_SECONDS}, timeout=timeout
        ) as answer:
            if answer.status_code >= 400:
                raise_for(answer.status_code, json.loads(await answer.aread()))
            self._note("")
            async for line in lines(answer):
                self._take(json.loads(line))

    def _take(self, event: Mapping[str, Any]) -> None:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            raise_for(int(item.get("code", 500)), item)
        self._version = item["metadata"]["resourceVersion"]
        if kind == "DELETED":
            self._deleted(self._keep(item))
            self.items.pop(_name(item), None)
        elif kind != "BOOKMARK":
            self.items[_name(item)] = self._keep(item)
        self.changes += kind != "BOOKMARK"


async def lines(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The lines of a stream, without their ends; the last may be one that was broken off."""
    rest = b""
    async for data in answer.aiter_bytes():
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line
    if rest:
        yield rest


def trimmed(item: Object) -> Object:
    """An object without what takes most of its room and tells nothing here."""
    item["metadata"].pop("managedFields", None)
    return item


def _name(item: Mapping[str, Any]) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(item: Mapping[str, Any]) -> int:
    return int(item["metadata"].get("resourceVersion") or 0)
