"""HTTP with the admin: one request, one answer, and an error for every failure."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agent.transport import (
    AdminClient,
    Token,
    cluster_path,
    describe,
    exposures,
    is_replaced,
    is_too_large,
    is_unreadable,
)
from ctl.client.errors import (
    ClientError,
    Conflict,
    Forbidden,
    InvalidRequest,
    ServerError,
    Unauthenticated,
    Unreachable,
)
from tests.support.agent_scripts import ScriptedAdmin, answer, error


@pytest.mark.parametrize(
    ("status", "document", "kind"),
    [
        (401, error("unauthenticated"), Unauthenticated),
        (403, error("forbidden"), Forbidden),
        (409, error("agent_replaced"), Conflict),
        (409, error("already_registered"), Conflict),
        (413, error("too_large"), InvalidRequest),
        (413, b"<html>", ServerError),
        (400, error("invalid_request"), InvalidRequest),
        (400, b"<html>", ServerError),
        (429, error("too_many_attempts"), Unreachable),
        (500, error("internal"), ServerError),
        (503, b"<html>", Unreachable),
        (200, b"<html>", ServerError),
        (302, b"", ServerError),
    ],
)
def test_every_failure_has_its_error(
    script: ScriptedAdmin, status: int, document: Any, kind: type[ClientError]
) -> None:
    script.answers = [(status, document)]
    client = AdminClient(script.url)
    with pytest.raises(ClientError) as caught:
        client.post("x", {})
    client.close()
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert caught.value.retry_after == (7.0 if status == 429 else None)
    assert is_too_large(caught.value) == (status == 413)
    assert is_unreadable(caught.value) == (document == error("invalid_request"))
    assert is_replaced(caught.value) == (document == error("agent_replaced"))


def test_details_are_part_of_the_message(script: ScriptedAdmin) -> None:
    details = [{"field": "want", "reason": "is too large."}, {"field": "agent", "reason": "is missing."}]
    script.answers = [(400, {**error("invalid_request"), "details": details})]
    client = AdminClient(script.url)
    with pytest.raises(InvalidRequest) as caught:
        client.post("x", {})
    client.close()
    assert describe(caught.value) == "No. want: is too large. agent: is missing."


def test_a_failure_of_the_admin_reads_the_same_each_time(script: ScriptedAdmin) -> None:
    script.answers = [(500, {**error("internal"), "request_id": "1"}), (500, {**error("internal"), "request_id": "2"})]
    client = AdminClient(script.url)
    problems = []
    for _ in range(2):
        with pytest.raises(ServerError) as caught:
            client.post("x", {})
        problems.append(describe(caught.value))
    client.close()
    assert problems == ["No.", "No."]


def test_a_body_that_json_cannot_write_is_one_that_the_admin_cannot_read(script: ScriptedAdmin) -> None:
    client = AdminClient(script.url)
    with pytest.raises(InvalidRequest) as caught:
        client.post("x", {"free": float("nan")})
    assert (is_unreadable(caught.value), script.bodies) == (True, [])


def test_a_token_that_no_header_can_carry_is_no_fault_of_the_body(script: ScriptedAdmin, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("rbc_tökén")
    client = AdminClient(script.url, token=Token(tmp_path / "token"))
    with pytest.raises(Unauthenticated) as caught:
        client.post("x", {})
    assert (is_unreadable(caught.value), script.bodies) == (False, [])


def test_certificate_authorities_that_cannot_be_read_are_no_fault_of_the_body(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    client = AdminClient("https://127.0.0.1:9")
    with pytest.raises(Unreachable) as caught:
        client.post("x", {})
    assert not is_unreadable(caught.value)


def test_text_that_is_not_unicode_is_sent(script: ScriptedAdmin) -> None:
    client = AdminClient(script.url)
    client.post("x", {"node": "n\udcff"})
    client.close()
    assert script.bodies == [{"node": "n?"}]


def test_a_request_is_sent_once(script: ScriptedAdmin) -> None:
    script.answers = [(503, error("unavailable"))]
    client = AdminClient(script.url)
    with pytest.raises(Unreachable):
        client.post("x", {})
    client.close()
    assert len(script.bodies) == 1


def test_an_admin_that_does_not_listen() -> None:
    client = AdminClient("http://127.0.0.1:9")
    with pytest.raises(Unreachable, match=r"cannot be reached: connection refused\. Check the endpoint"):
        client.post("x", {})
    client.close()


def test_an_answer_that_takes_too_long(script: ScriptedAdmin) -> None:
    is_over = threading.Event()
    script.answers = [lambda body: answer(waited=is_over.wait(60))]
    client = AdminClient(script.url)
    with pytest.raises(Unreachable, match="in time"):
        client.post("x", {}, seconds=0.1)
    is_over.set()
    client.close()


def test_a_cluster_name_cannot_leave_its_path() -> None:
    assert cluster_path("a/../b?", "sync") == "clusters/a%2F..%2Fb%3F/sync"


def test_the_token_is_read_again_when_its_file_changes(script: ScriptedAdmin, token: Token) -> None:
    client = AdminClient(script.url, token=token)
    client.post("x", {})
    token.path.write_text("rbc-87654321-def")
    client.post("x", {})
    client.close()
    assert script.tokens == ["Bearer rbc-12345678-abc", "Bearer rbc-87654321-def"]


@pytest.mark.parametrize("content", [None, "", "two words", "two\nlines"])
def test_a_token_file_without_a_token(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(Unauthenticated, match="tokenFile"):
        Token(tmp_path / "token").read()


@pytest.mark.parametrize(
    ("mode", "endpoint", "has_ca_file", "warnings"),
    [
        (0o600, "http://127.0.0.1:8088", False, []),
        (0o640, "https://rainbow.example.org", False, []),
        (0o600, "rainbow.example.org", False, []),  # https, for no protocol is named
        (0o604, "localhost:8088", False, ["everybody on this machine may read the token: chmod 600 "]),
        (0o600, "http://rainbow.example.org", False, ["the token is sent to http://rainbow.example.org in clear text"]),
    ],
)
def test_what_lets_others_read_the_token_is_warned_of(
    tmp_path: Path, mode: int, endpoint: str, has_ca_file: bool, warnings: list[str]
) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    file.chmod(mode)
    texts = exposures(file, endpoint, has_ca_file=has_ca_file)
    assert len(texts) == len(warnings)
    assert all(texts[index].startswith(warning) for index, warning in enumerate(warnings))
