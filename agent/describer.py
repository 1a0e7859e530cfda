"""The description of the cluster: sent when the agent starts, and again when it is another one."""

from __future__ import annotations

import hashlib
import json
import logging
from typing import Any

from agent.calls import Runner, run_in_thread
from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import EngineError
from agent.engines.safe import SafeEngine
from agent.transport import AdminClient, cluster_path, describe, is_older
from ctl.client.errors import ClientError

log = logging.getLogger("rainbow.agent")

#: How often the engine is asked for it, and how long a send that failed is waited with.
_INTERVAL_SECONDS = 60.0
#: How long the admin may take to read it.
_ANSWER_SECONDS = 120.0


class Describer:
    """Asks the engine what the cluster has, and tells the admin of it."""

    def __init__(
        self,
        cluster: str,
        engine: SafeEngine,
        client: AdminClient,
        *,
        clock: Clock = SYSTEM_CLOCK,
        run: Runner = run_in_thread,
    ) -> None:
        self.is_busy = False  #: while a description is on its way
        self._path = cluster_path(cluster, "description")
        self._engine = engine
        self._client = client
        self._clock = clock
        self._run = run
        self._due_at = 0.0
        self.stored: str | None = None  #: the admin's digest of what it has, by the last sync; None of an older admin
        self._sent = ""  #: the digest of what was sent last
        self._answered: str | None = None  #: what the admin had after that, by its own digest

    def step(self) -> None:
        """Send the description if it is another one than the admin has."""
        if self.is_busy or self._clock.steady() < self._due_at:
            return
        self._due_at = self._clock.steady() + _INTERVAL_SECONDS
        try:
            document = self._engine.graph()
        except EngineError:
            return  # the report says what is wrong with it
        if document is None:
            return
        # Another one may have been set or removed there, or the cluster defined anew.
        is_replaced = None not in (self.stored, self._answered) and self.stored != self._answered
        self.is_busy = True
        self._run(lambda: self._send_new(document, is_replaced=is_replaced))

    def _send_new(self, document: dict[str, Any], *, is_replaced: bool) -> None:
        """Send a description unless it was sent last; not in the loop, since a large one takes seconds to compare."""
        try:
            digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
            if digest != self._sent or is_replaced:
                self._send(document, digest)
        except Exception:
            log.exception("the cluster's description was not sent")
        finally:
            self.is_busy = False

    def _send(self, document: dict[str, Any], digest: str) -> None:
        try:
            answer = self._client.put(self._path, document, seconds=_ANSWER_SECONDS)
            self._sent = digest
            self._answered = answer.get("description", {}).get("digest")
            if answer.get("note"):
                log.info("%s", answer["note"])
        except ClientError as error:
            if is_older(error):
                self._sent = digest
            else:
                log.warning("the cluster's description was not stored: %s", describe(error))
