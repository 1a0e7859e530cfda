"""What an attempt of an execution printed: read in pieces, from its end, or as it grows."""

from __future__ import annotations

from collections.abc import Iterator

from ctl.client.client import Client
from ctl.client.executions import ExecutionId

STREAMS = ("stdout", "stderr")

_PIECE_BYTES = 256 * 1024


class Stream:
    """One stream of one attempt, which is read on from where the last piece ended."""

    def __init__(
        self,
        client: Client,
        id: ExecutionId,
        name: str,
        attempt: int,
        *,
        tail: int | None = None,
        since: str | None = None,
    ) -> None:
        """With `tail` it begins with its last lines, with `since` with what was stored since a time."""
        self.name = name
        self.is_complete = False  #: whether the attempt is over and all of it has been read
        self.is_truncated = False  #: whether more was printed than the admin keeps
        self.is_pruned = False  #: whether it was printed so long ago that the admin does not keep it any more
        self._client = client
        self._id = id
        self._attempt = attempt
        self._tail = tail
        self._since = since
        self._offset: int | None = None

    def read(self, seconds: int = 0) -> str:
        """The next piece; where there is none yet, an empty text after `seconds`."""
        is_first = self._offset is None
        answer = self._client.execution_log(
            self._id,
            self.name,
            attempt=self._attempt,
            offset=self._offset,
            tail=self._tail if is_first else None,
            since=self._since if is_first else None,
            limit=_PIECE_BYTES,
            seconds=seconds,
        )
        self._offset = int(answer["next_offset"])
        self.is_complete = bool(answer["complete"])
        self.is_truncated = bool(answer["truncated"])
        self.is_pruned = bool(answer.get("pruned"))
        return str(answer["data"])

    def available(self) -> Iterator[str]:
        """Everything that has been printed so far, piece by piece."""
        while not self.is_complete and (text := self.read()):
            yield text
