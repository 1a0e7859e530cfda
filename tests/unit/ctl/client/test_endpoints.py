from __future__ import annotations

import pytest

from ctl.client.endpoints import parse_endpoint
from ctl.client.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://rainbow.example.org", "http://rainbow.example.org"),
        ("https://rainbow.example.org:8443/", "https://rainbow.example.org:8443"),
        ("https://example.org/rainbow/", "https://example.org/rainbow"),
        ("https://example.org/api/v1", "https://example.org"),
        ("HTTP://localhost:8088", "http://localhost:8088"),
        ("localhost:8088", "http://localhost:8088"),
        ("127.0.0.1:8088", "http://127.0.0.1:8088"),
        ("dns:///localhost:30080", "http://localhost:30080"),
        ("[::1]:8088", "http://[::1]:8088"),
        ("rainbow.example.org:8088", "https://rainbow.example.org:8088"),
        ("dns:///rainbow.example.org", "https://rainbow.example.org"),
        (" http://a ", "http://a"),
    ],
)
def test_endpoints_are_read_in_every_form(text: str, url: str) -> None:
    assert parse_endpoint(text).url == url


def test_a_ca_file_means_https_even_on_the_own_machine() -> None:
    assert parse_endpoint("localhost:8088", has_ca_file=True).url == "https://localhost:8088"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no valid host"),
        (":8088", "has no valid host"),
        ("http://", "has no valid host"),
        ("ftp://a", "'ftp' is not a supported protocol"),
        ("dns://a", "'dns' is not a supported protocol"),
        ("http://a:99999", "Port out of range"),
        ("http://a:b", "Port could not be cast"),
        ("http://user:secret@a", "holds a user name"),
        ("http://a?x=1", "query or fragment"),
        ("http://a b", "has no valid host"),
    ],
)
def test_what_is_wrong_with_an_endpoint_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_endpoint(text)
    assert message in caught.value.message
