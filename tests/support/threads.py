"""Several threads that work at the same time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

T = TypeVar("T")


def all_at_once(functions: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions in a thread each, started together; returns their results in order, or raises what one raised."""
    barrier = threading.Barrier(len(functions))

    def call(function: Callable[[], T]) -> T:
        barrier.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as threads:
        return list(threads.map(call, functions))


def at_once(app: Flask, requests: Sequence[Callable[[FlaskClient], TestResponse]]) -> list[TestResponse]:
    """The answers to requests that are sent together, in the order of the requests."""

    def sender(send: Callable[[FlaskClient], TestResponse]) -> Callable[[], TestResponse]:
        client = app.test_client()
        return lambda: send(client)

    return all_at_once([sender(send) for send in requests])


def repeat_together(
    functions: Mapping[str, Callable[[], object]], times: int, paced: Collection[str] = ()
) -> Counter[str]:
    """Call functions in a thread each, over and over, until each has been called so many times; returns how often.

    A paced function is never called more often than the others, so that it cannot keep them from their work.
    """
    counts = Counter(dict.fromkeys(functions, 0))
    changed = threading.Condition()
    failures: list[BaseException] = []

    def is_over() -> bool:
        return bool(failures) or min(counts.values()) >= times

    def is_ahead(name: str) -> bool:
        return name in paced and counts[name] >= min(counts[other] for other in functions if other not in paced)

    def work(name: str) -> None:
        try:
            while True:
                with changed:
                    changed.wait_for(lambda: is_over() or not is_ahead(name))
                    if is_over():
                        return
                functions[name]()
                with changed:
                    counts[name] += 1
                    changed.notify_all()
        except BaseException as error:
            with changed:
                failures.append(error)
                changed.notify_all()
            raise

    all_at_once([partial(work, name) for name in functions])
    return counts
