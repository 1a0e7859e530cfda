"""procrastinate without HTTP: defer, then fetch and finish. Run in its own environment."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from functools import partial

from procrastinate import App, PsycopgConnector  # type: ignore[import-not-found,unused-ignore]
from timing import rate, say  # type: ignore[import-not-found]

ARGUMENTS = {"command": ["python", "train.py", "--epochs", "3"]}
WAITING_A_SECOND = 300  #: about what a worker manages, so that the queue is empty in time


async def main(url: str, seconds: float) -> None:
    logging.disable(logging.WARNING)
    app = App(connector=PsycopgConnector(conninfo=url, min_size=16, max_size=16))

    @app.task(name="job", queue="one")  # type: ignore[untyped-decorator,unused-ignore]
    async def job(command: list[str]) -> None:
        pass

    async def defer(count: int) -> int:
        if count == 1:
            await job.defer_async(**ARGUMENTS)
        else:
            await job.batch_defer_async(*[ARGUMENTS] * count)
        return count

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        say("defer, one by one", await rate(partial(defer, 1), seconds))
        say("defer, in batches of 100", await rate(partial(defer, 100), seconds))
        waiting = int(WAITING_A_SECOND * seconds)
        await job.configure(queue="two").batch_defer_async(*[ARGUMENTS] * waiting)
        begin = time.monotonic()
        await app.run_worker_async(queues=["two"], wait=False, concurrency=16, install_signal_handlers=False)
        say("fetch and finish", {"per_second": waiting / (time.monotonic() - begin)})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
