"""A pool that asks its clusters, whose agents a test plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from admin.services.bid_decisions import decide_due_rounds
from admin.services.context import Context
from tests.support.agents import Clock, PlayedAgent
from tests.support.apps import context_of
from tests.support.placing import DOMAIN, created, get, pool

Document = dict[str, Any]


@dataclass
class Asker:
    """A pool that asks, with the agents of its clusters, and executions in a project of its own."""

    api: FlaskClient
    app: Flask
    clock: Clock
    project: str
    agents: dict[str, PlayedAgent]

    @property
    def context(self) -> Context:
        return context_of(self.app)

    @property
    def pool(self) -> str:
        return f"pool-{self.project}"

    def create(self, name: str, **spec: Any) -> Any:
        return created(self.api, name, project=self.project, **pool(self.pool), **spec)

    def execution(self, name: str) -> Any:
        return get(self.api, f"executions/{self.project}/{DOMAIN}/{name}")

    def place(self, name: str) -> tuple[str | None, str, str]:
        """The cluster of an execution without the part that all have, its phase and its reason."""
        execution = self.execution(name)
        closure = execution["closure"]
        cluster = execution.get("cluster")
        return cluster and self.short(cluster), closure["phase"], closure["reason"]["code"]

    def explain(self, name: str, query: str = "") -> Any:
        return get(self.api, f"executions/{self.project}/{DOMAIN}/{name}/explanation{query}")

    def short(self, cluster: str) -> str:
        return cluster.removesuffix(f"-{self.project}")

    def full(self, name: str) -> str:
        return f"{name}-{self.project}"

    def questions(self, name: str, **fields: Any) -> list[Document]:
        answer: list[Document] = self.agents[name].sync(can_bid=True, **fields)["bid_requests"]
        return answer

    def answer(self, name: str, *questions: Document, answer: str = "yes", **fields: Any) -> Document:
        """The answer to a sync that brings the same bid for each question."""
        if answer == "yes":
            fields = {"start_seconds": 0, **fields}
        bids = [{"question": asked["question"], "uid": asked["uid"], "answer": answer, **fields} for asked in questions]
        document: Document = self.agents[name].sync(can_bid=True, bids=bids)
        return document

    def bid(self, name: str, answer: str = "yes", **fields: Any) -> list[Document]:
        """Answer all that a cluster is asked; returns the questions."""
        questions = self.questions(name)
        refused = self.answer(name, *questions, answer=answer, **fields)["refused"]
        assert refused == []
        return questions

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        decide_due_rounds(self.context)

    def next_attempt(self) -> datetime:
        """When the first of the executions is decided, or clusters are asked about it again, as counts say."""
        [group] = get(self.api, f"execution_counts?by=phase&project={self.project}")["counts"]
        return datetime.fromisoformat(group["not_before"])

    def rounds(self, name: str) -> list[Document]:
        explained: list[Document] = self.explain(name).get("rounds") or []
        return explained


MakeAsker = Callable[..., Asker]
