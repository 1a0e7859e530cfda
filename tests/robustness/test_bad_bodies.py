"""Bodies that are no JSON object, or that mean two things: refused before anything is looked at."""

from __future__ import annotations

import json

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.robustness.pictures import BASE, PROJECT, put_body, refused, seeded, shared_sqlite_only
from tests.support.admins import RunningAdmin

WRITES = [("PUT", PROJECT), ("PATCH", f"{PROJECT}?resource_type=3"), ("POST", f"{BASE}/projects")]
DELETE = ("DELETE", f"{PROJECT}?resource_type=3")

LABEL = json.dumps(put_body("execution_cluster_label", {"value": "other"}))
FREE_FORM = json.dumps(
    put_body("workflow_execution_config", {"execution_env_assignments": [{"execution_env": {"spec": {"x": "HERE"}}}]})
)


@pytest.fixture
def api(shared: FlaskClient) -> FlaskClient:
    """One admin for them all: what is refused changes nothing."""
    return shared


@pytest.fixture
def new_api(app: Flask) -> FlaskClient:
    return app.test_client()


def send(api: FlaskClient, method: str, path: str, body: bytes, content_type: str = "application/json") -> TestResponse:
    return api.open(path, method=method, data=body, content_type=content_type)


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@shared_sqlite_only
@pytest.mark.parametrize(("method", "path"), [*WRITES, DELETE])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(LABEL[:-1].encode(), id="truncated"),
        pytest.param(LABEL.encode() + b"x", id="with something behind it"),
        pytest.param(LABEL.encode() * 2, id="two of them"),
        pytest.param(b"\xef\xbb\xbf" + LABEL.encode(), id="with a byte order mark"),
        pytest.param(LABEL.encode("utf-16"), id="in UTF-16"),
        pytest.param(b"   ", id="blanks"),
        pytest.param(b"\x00", id="a NUL"),
        pytest.param(b"{'a': 1}", id="single quotes"),
        pytest.param(b'{"a": 1,}', id="a trailing comma"),
        pytest.param(b'{"a": "\x01"}', id="a raw control character"),
        pytest.param(b'{"a": "\xff"}', id="not UTF-8"),
        pytest.param(b'{"a": "\xed\xa0\x80"}', id="half a character, raw"),
        pytest.param(b'{"a": "\\ud800"}', id="half a character, escaped"),
        pytest.param(b'{"\\udfff": 1}', id="half a character in a key"),
        pytest.param(b'{"message": "a", "message": "b"}', id="the same key twice"),
        pytest.param(b'{"message": "a", "mess\\u0061ge": "b"}', id="the same key twice, once escaped"),
        pytest.param(b'{"a": {"b": {"c": 1, "c": 1}}}', id="the same key twice, deep inside"),
        pytest.param(b'{"a": NaN}', id="NaN"),
        pytest.param(b'{"a": Infinity}', id="Infinity"),
        pytest.param(b'{"a": -Infinity}', id="-Infinity"),
        pytest.param(b'{"a": 01}', id="a leading zero"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", id="a number of five thousand digits"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'"text"', id="a text"),
        pytest.param(b"null", id="null"),
        pytest.param(b"5", id="a number"),
        pytest.param(b"true", id="true"),
        pytest.param(nested(100), id="100 lists deep"),
        pytest.param(nested(5_000), id="5,000 lists deep"),
        pytest.param(nested(100_000), id="100,000 lists deep"),
        pytest.param(b'{"a":' * 100 + b"1" + b"}" * 100, id="100 objects deep"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="100,000 objects deep"),
        pytest.param(b"[" * 500_000, id="500,000 lists opened"),
    ],
)
def test_a_body_that_is_not_one_json_object_is_refused(api: FlaskClient, method: str, path: str, body: bytes) -> None:
    seeded(api)
    refused(api, lambda: send(api, method, path, body))


@shared_sqlite_only
def test_half_a_character_is_called_so(api: FlaskClient) -> None:
    seeded(api)
    method, path = WRITES[0]
    answer = refused(api, lambda: send(api, method, path, b'{"message": "a\\uD83D"}'))
    assert answer["message"] == "The body has half a character, \\ud83d: send both halves, or another character."


@shared_sqlite_only
@pytest.mark.parametrize(("method", "path"), WRITES)
def test_an_empty_body_is_refused_where_one_is_needed(api: FlaskClient, method: str, path: str) -> None:
    seeded(api)
    answer = refused(api, lambda: send(api, method, path, b""))
    assert answer["message"] == "The request has no body; send a JSON object."


@shared_sqlite_only
@pytest.mark.parametrize(("method", "path"), [*WRITES, DELETE])
@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "", "json"]
)
def test_a_body_of_another_type_is_refused(api: FlaskClient, method: str, path: str, content_type: str) -> None:
    seeded(api)
    answer = refused(
        api,
        lambda: send(api, method, path, LABEL.encode(), content_type),
        status=415,
        error="unsupported_media_type",
    )
    assert "application/json" in answer["message"]


@shared_sqlite_only
@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_a_body_of_json_by_any_of_its_names_is_read(api: FlaskClient, content_type: str) -> None:
    assert send(api, "PUT", PROJECT, LABEL.encode(), content_type).status_code == 200


@shared_sqlite_only
@pytest.mark.parametrize(("method", "path"), [*WRITES, DELETE])
def test_a_body_above_one_mebibyte_is_refused(api: FlaskClient, method: str, path: str) -> None:
    seeded(api)
    body = json.dumps({"message": "x" * 2**20}).encode()
    answer = refused(api, lambda: send(api, method, path, body), status=413, error="body_too_large")
    assert "1048576" in answer["message"]


@shared_sqlite_only
def test_a_body_of_exactly_one_mebibyte_is_read(api: FlaskClient) -> None:
    body = LABEL.encode().ljust(2**20)
    assert send(api, "PUT", PROJECT, body).status_code == 200
    assert send(api, "PUT", PROJECT, body + b" ").status_code == 413


@pytest.mark.parametrize("number", ["1e999", "-1e999", "123456789e400"])
def test_a_number_beyond_every_bound_is_refused_even_where_anything_goes(api: FlaskClient, number: str) -> None:
    body = FREE_FORM.replace('"HERE"', number).encode()
    refused(api, lambda: send(api, "PUT", PROJECT, body))


@pytest.mark.parametrize(
    "value",
    ['"\\u0000"', '"\\ud83d\\ude00"', '"ü"', "1e-5", "12345678901234567890", "[[[null]]]", '{"": null}', "true"],
)
def test_what_belongs_to_someone_else_comes_back_as_it_was_sent(api: FlaskClient, value: str) -> None:
    body = FREE_FORM.replace('"HERE"', value).encode()
    assert send(api, "PUT", PROJECT, body).status_code == 200
    payloads = api.get(f"{PROJECT}?resource_type=6").get_json()["attributes"]["matching_attributes"]
    assert payloads["workflow_execution_config"] == {
        "execution_env_assignments": [{"execution_env": {"spec": {"x": json.loads(value)}}}]
    }
    assert send(api, "PUT", PROJECT, body).get_json()["changed"] is False


@pytest.mark.parametrize(("before", "after"), [("true", "1"), ("0", "false"), ("[1]", "[true]")])
def test_a_truth_value_and_a_number_are_not_the_same(new_api: FlaskClient, before: str, after: str) -> None:
    assert send(new_api, "PUT", PROJECT, FREE_FORM.replace('"HERE"', before).encode()).status_code == 200
    answer = send(new_api, "PUT", PROJECT, FREE_FORM.replace('"HERE"', after).encode())
    assert (answer.get_json()["changed"], answer.get_json()["revision"]) == (True, 2)
    text = new_api.get(f"{PROJECT}?resource_type=6").get_data(as_text=True)
    assert f'"spec":{{"x":{after}}}' in text


def test_a_body_in_pieces_is_read_as_a_whole_or_refused_and_never_cut_off(admin: RunningAdmin) -> None:
    """A body that announces no length is counted as it comes."""
    url, headers = admin.url + PROJECT, {"Content-Type": "application/json"}
    too_large = iter([LABEL.encode().ljust(2**20), b"this is not JSON"])
    answer = requests.put(url, data=too_large, headers=headers, timeout=60)
    assert (answer.status_code, answer.json().get("error")) == (413, "body_too_large")
    whole = requests.put(url, data=iter([LABEL[:10].encode(), LABEL[10:].encode()]), headers=headers, timeout=60)
    assert (whole.status_code, whole.json()["changed"]) == (200, True)
