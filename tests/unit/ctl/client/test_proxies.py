from __future__ import annotations

import pytest

from ctl.client.errors import InvalidInput
from ctl.client.proxies import find_proxy
from ctl.client.transport import Transport


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("variable", "value", "url", "proxy"),
    [
        ("HTTPS_PROXY", "http://proxy:3128", "https://rainbow.example.org", "proxy:3128"),
        ("https_proxy", "proxy:3128", "https://rainbow.example.org", "proxy:3128"),
        ("HTTPS_PROXY", "http://proxy", "https://rainbow.example.org", "proxy:80"),
        ("HTTPS_PROXY", "http://proxy:3128", "http://rainbow.example.org", "None"),
        ("ALL_PROXY", "http://proxy:3128", "http://rainbow.example.org", "proxy:3128"),
        ("HTTP_PROXY", "", "http://rainbow.example.org", "None"),
    ],
)
def test_a_proxy_is_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, url: str, proxy: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert str(find_proxy(url)) == proxy


@pytest.mark.parametrize(
    ("no_proxy", "host", "is_direct"),
    [
        ("*", "rainbow.example.org", True),
        ("example.org", "rainbow.example.org", True),
        (".example.org, other", "rainbow.example.org", True),
        ("rainbow.example.org:8088", "rainbow.example.org:8088", True),
        ("ample.org", "rainbow.example.org", False),
        ("10.0.0.0/8", "10.1.2.3:8088", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("nonsense/99", "10.1.2.3", False),
        ("", "rainbow.example.org", False),
    ],
)
def test_some_are_reached_without_it(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, host: str, is_direct: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert (find_proxy(f"http://{host}") is None) == is_direct


def test_a_name_and_password_are_sent_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://ann:p%40ss@proxy:3128")
    proxy = find_proxy("http://rainbow.example.org")
    assert proxy is not None
    assert (str(proxy), proxy.headers) == ("proxy:3128", {"Proxy-Authorization": "Basic YW5uOnBAc3M="})


@pytest.mark.parametrize("value", ["https://ann:secret@proxy:3128", "socks5://ann:secret@proxy", "http://:99999999"])
def test_what_is_no_plain_proxy_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    with pytest.raises(InvalidInput, match="not written http://HOST:PORT: correct HTTPS_PROXY") as refused:
        find_proxy("https://rainbow.example.org")
    assert "secret" not in refused.value.message


def test_the_own_machine_is_reached_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy")
    Transport("http://127.0.0.1:8088")
    with pytest.raises(InvalidInput):
        Transport("http://rainbow.example.org")
