"""HTTP with the admin: one request, one answer, and an error for every failure."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agent.transport import (
    AdminError,
    Refused,
    Replaced,
    Token,
    TooLarge,
    Transport,
    Unauthenticated,
    Unreachable,
    cluster_path,
)
from tests.support.agent_scripts import ScriptedAdmin, answer, error


@pytest.mark.parametrize(
    ("status", "document", "kind"),
    [
        (401, error("unauthenticated"), Unauthenticated),
        (403, error("forbidden"), Unauthenticated),
        (409, error("agent_replaced"), Replaced),
        (409, error("already_registered"), Refused),
        (413, error("too_large"), TooLarge),
        (400, error("invalid_request"), Refused),
        (429, error("too_many_attempts"), Unreachable),
        (500, error("internal"), Unreachable),
        (503, b"<html>", Unreachable),
        (200, b"<html>", Unreachable),
        (302, b"", Unreachable),
    ],
)
def test_every_answer_has_its_kind(script: ScriptedAdmin, status: int, document: Any, kind: type[AdminError]) -> None:
    script.answers = [(status, document)]
    transport = Transport(script.url)
    with pytest.raises(AdminError) as caught:
        transport.post("/x", {})
    transport.close()
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert caught.value.retry_after == (7.0 if status == 429 else None)


def test_details_are_said(script: ScriptedAdmin) -> None:
    script.answers = [(400, {**error("invalid_request"), "details": [{"field": "want", "reason": "is too large."}]})]
    transport = Transport(script.url)
    with pytest.raises(Refused, match=r"No\. want: is too large\."):
        transport.post("/x", {})
    transport.close()


def test_nobody_there() -> None:
    transport = Transport("http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="cannot be reached: check the endpoint"):
        transport.post("/x", {})
    transport.close()


def test_an_answer_that_takes_too_long(script: ScriptedAdmin) -> None:
    is_over = threading.Event()
    script.answers = [lambda body: answer(waited=is_over.wait(60))]
    transport = Transport(script.url)
    with pytest.raises(Unreachable, match="in time"):
        transport.post("/x", {}, seconds=0.1)
    is_over.set()
    transport.close()


def test_a_cluster_name_cannot_leave_its_path() -> None:
    assert cluster_path("a/../b?", "sync") == "/api/v1/clusters/a%2F..%2Fb%3F/sync"


def test_the_token_is_read_again_when_its_file_changes(script: ScriptedAdmin, token: Token) -> None:
    transport = Transport(script.url, token=token)
    transport.post("/x", {})
    token.path.write_text("rbc-87654321-def")
    transport.post("/x", {})
    transport.close()
    assert script.tokens == ["Bearer rbc-12345678-abc", "Bearer rbc-87654321-def"]


@pytest.mark.parametrize("content", [None, "", "two words", "two\nlines"])
def test_a_token_file_that_holds_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(Unauthenticated, match="tokenFile"):
        Token(tmp_path / "token").text()
