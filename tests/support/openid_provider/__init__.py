"""A real OpenID provider on loopback: panva's oidc-provider, which tests/install-servers installs beside this file."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from urllib.parse import urljoin

import requests

from ctl.client.openid import Provider, Tokens
from tests.support.openid_tokens import AUDIENCE, SigningKey, rsa_key
from tests.support.ports import free_port
from tests.support.servers import ended_with_us, owned_directory
from tests.support.waiting import wait_until

CLIENT = "rainbowctl"
SCOPES = ("openid", "offline_access")

_HERE = Path(__file__).parent
_NODE = _HERE / "node_modules/.bin/node"
_MOST_PAGES = 20


def is_installed() -> bool:
    return _NODE.exists() and (_HERE / "node_modules/oidc-provider").exists()


@dataclass
class OpenIdProvider:
    """A provider that can be stopped, and started again with other keys; logins are forgotten then."""

    directory: Path
    port: int
    key: SigningKey = field(default_factory=lambda: rsa_key("first"))
    token_seconds: int = 600
    _process: subprocess.Popen[bytes] | None = None

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        settings = {
            "issuer": self.issuer,
            "port": self.port,
            "audience": AUDIENCE,
            "keys": [self.key.private_jwk()],
            "tokenSeconds": self.token_seconds,
        }
        file, log = self.directory / "provider.json", self.directory / "provider.log"
        file.write_text(json.dumps(settings))
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [str(_NODE), str(_HERE / "provider.mjs"), str(file)],
                stdout=stream,
                stderr=stream,
                preexec_fn=ended_with_us(signal.SIGKILL),
            )
        process = self._process

        def is_ready() -> bool:
            assert process.poll() is None, f"the provider has ended:\n{log.read_text()}"
            try:
                return requests.get(f"{self.issuer}/.well-known/openid-configuration", timeout=60).ok
            except requests.ConnectionError:
                return False

        wait_until(is_ready, explain=lambda: f"the provider is not ready:\n{log.read_text()}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, *, key: SigningKey | None = None, token_seconds: int | None = None) -> None:
        """Start again, with another key or with tokens that last as long as this."""
        self.stop()
        self.key = key or self.key
        self.token_seconds = token_seconds or self.token_seconds
        self.start()

    def tokens(self, user: str = "ana") -> Tokens:
        """What the device flow gives a user."""
        provider = Provider(self.issuer, CLIENT)
        code = provider.begin_device_login(SCOPES)
        self.visit(code.complete_uri or code.verification_uri, user)
        questions = count()  # in place of a clock: the provider is asked again at once, but not for ever
        return provider.wait_for_device(code, sleep=lambda _seconds: None, monotonic=lambda: float(next(questions)))

    def visit(self, url: str, user: str) -> requests.Response:
        """The last page of a person who opens a URL with a browser, logs in, and agrees to everything."""
        with requests.Session() as browser:
            page = browser.get(url, timeout=60)
            for _ in range(_MOST_PAGES):
                form = _Form(page.text)
                if not page.url.startswith(self.issuer) or form.action is None:
                    return page
                values = {**form.values, **({"login": user, "password": "any"} if "login" in form.values else {})}
                page = browser.post(urljoin(page.url, form.action), data=values, timeout=60)
        raise AssertionError(f"no end of forms: {page.text}")

    def refuse(self, url: str) -> requests.Response:
        """The last page of a person who opens a URL with a browser, and cancels the login."""
        with requests.Session() as browser:
            page = browser.get(url, timeout=60)
            return browser.get(f"{page.url.rstrip('/')}/abort", timeout=60)


class _Form(HTMLParser):
    """The first form of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.values: dict[str, str] = {}
        self._is_inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = attributes.get("action") or ""
            self._is_inside = True
        elif tag == "input" and self._is_inside and attributes.get("name"):
            self.values[str(attributes["name"])] = attributes.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False


@contextmanager
def running_provider() -> Iterator[OpenIdProvider]:
    """A provider at which anybody can log in."""
    with owned_directory("rainbow-openid") as directory:
        provider = OpenIdProvider(directory, free_port())
        try:
            provider.start()
            yield provider
        finally:
            provider.stop()
