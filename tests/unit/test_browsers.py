"""The browser guard: what a page of another site makes a browser send is refused, and what clients send is not."""

from __future__ import annotations

import pytest

from admin.api.browsers import BrowserGuard
from admin.errors import ForeignOrigin, UnknownHost, UnsupportedMediaType

NAMES = {"rainbow.example.org"}


def check(method: str = "GET", hosts: set[str] | None = NAMES, **headers: str) -> None:
    environ = {"REQUEST_METHOD": method, "wsgi.url_scheme": "http"}
    for name, value in headers.items():
        environ[name if name == "CONTENT_TYPE" else f"HTTP_{name}"] = value
    BrowserGuard(hosts).check(environ)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8088",
        "LOCALHOST:8088",
        "127.0.0.1:8088",
        "127.0.0.2",
        "[::1]:8088",
        "rainbow.example.org",
        "Rainbow.Example.org.:443",
        "rainbow.localhost",
    ],
)
def test_the_admins_own_names_are_accepted(host: str) -> None:
    check(HOST=host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io:8088",
        "rainbow.example.org.evil",
        "10.0.0.1",
        "",
        "[",
        "a b",
    ],
)
def test_another_name_is_refused_unless_every_name_will_do(host: str) -> None:
    with pytest.raises(UnknownHost, match=r"server\.allowedHosts"):
        check(HOST=host)
    check(HOST=host, hosts=None)


def test_a_configured_name_may_have_a_port() -> None:
    check(HOST="rainbow.example.org:8088", hosts={"Rainbow.example.org:8088"})


def test_a_request_without_a_host_is_no_browsers() -> None:
    check()


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8088", "http://localhost:8088"),
        ("rainbow.example.org", "https://rainbow.example.org"),  # behind a proxy that speaks https
        ("rainbow.example.org:443", "https://rainbow.example.org"),
        ("[::1]:8088", "http://[::1]:8088"),
    ],
)
def test_a_page_of_the_admins_own_may_use_it(host: str, origin: str) -> None:
    for method in ("GET", "POST"):
        check(method, HOST=host, ORIGIN=origin, SEC_FETCH_SITE="same-origin", CONTENT_TYPE="application/json")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "http://localhost:3000", "http://localhost", "http://[", "file://"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_foreign_origin_is_refused(method: str, origin: str) -> None:
    for hosts in (NAMES, None):
        with pytest.raises(ForeignOrigin):
            check(method, hosts=hosts, HOST="localhost:8088", ORIGIN=origin)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_change_without_body_and_type_is_a_clients_unless_a_page_is_named(method: str) -> None:
    check(method, HOST="localhost")
    for origin in ("http://evil.example", "null"):
        with pytest.raises(ForeignOrigin):
            check(method, HOST="localhost", ORIGIN=origin)
    with pytest.raises(ForeignOrigin):
        check(method, HOST="localhost", SEC_FETCH_SITE="cross-site")
    with pytest.raises(UnknownHost):
        check(method, HOST="evil.example")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_a_foreign_site_is_refused_but_a_link_may_be_followed(site: str) -> None:
    for method in ("GET", "POST"):
        with pytest.raises(ForeignOrigin):
            check(method, HOST="localhost", SEC_FETCH_SITE=site)
    check("GET", HOST="localhost", SEC_FETCH_SITE=site, SEC_FETCH_MODE="navigate")
    with pytest.raises(ForeignOrigin):  # a frame, in which clicks could be led
        check("GET", HOST="localhost", SEC_FETCH_SITE=site, SEC_FETCH_MODE="navigate", SEC_FETCH_DEST="iframe")
    with pytest.raises(ForeignOrigin):  # a form
        check("POST", HOST="localhost", SEC_FETCH_SITE=site, SEC_FETCH_MODE="navigate")


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_own_site_and_the_address_bar_are_not(site: str) -> None:
    check("GET", HOST="localhost", SEC_FETCH_SITE=site)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "text/json",
        "application/json+x",
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_only_json_changes_anything(method: str, content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        check(method, HOST="localhost", CONTENT_TYPE=content_type)


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", "application/x+json", ""]
)
def test_json_does_and_so_does_no_body(content_type: str) -> None:
    check("POST", HOST="localhost", CONTENT_TYPE=content_type)
