"""pgqueuer without HTTP: enqueue, then dequeue and finish; singly and in batches. Run in its own environment."""

from __future__ import annotations

import asyncio
import sys
import uuid
from datetime import timedelta
from functools import partial

import asyncpg  # type: ignore[import-not-found,import-untyped,unused-ignore]
from pgqueuer.queries import EntrypointExecutionParameter, Queries  # type: ignore[import-not-found,unused-ignore]
from timing import rate, say  # type: ignore[import-not-found]

PAYLOAD = b'{"command": ["python", "train.py", "--epochs", "3"]}'


async def main(url: str, seconds: float) -> None:
    async with asyncpg.create_pool(url, min_size=16, max_size=16) as pool:
        queries = Queries.from_asyncpg_pool(pool)
        await queries.install()

        async def enqueue(count: int) -> int:
            if count == 1:
                await queries.enqueue("job", PAYLOAD)
            else:
                await queries.enqueue(["job"] * count, [PAYLOAD] * count, [0] * count)
            return count

        async def finish(count: int) -> int:
            jobs = await queries.dequeue(
                batch_size=count,
                entrypoints={"job": EntrypointExecutionParameter(0)},
                queue_manager_id=uuid.uuid4(),
                global_concurrency_limit=None,
                heartbeat_timeout=timedelta(seconds=30),
            )
            if jobs:
                await queries.log_jobs([(job, "successful", None) for job in jobs])
            return len(jobs)

        say("enqueue, one by one", await rate(partial(enqueue, 1), seconds))
        say("enqueue, in batches of 100", await rate(partial(enqueue, 100), seconds))
        say("dequeue and finish, one by one", await rate(partial(finish, 1), seconds))
        for count in (10, 50):
            say(f"dequeue and finish, in batches of {count}", await rate(partial(finish, count), seconds))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
