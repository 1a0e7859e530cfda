"""A walk through the console: every page that links lead to, each path with one query."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape

from flask.testing import FlaskClient

_LINK = re.compile(r'href="(/console/[^"#]*)')


def walked(browser: FlaskClient, starts: Iterable[str] = ("/console/",)) -> dict[str, str]:
    """The text of each page by its address; each of them must be shown."""
    waiting = [(address, "") for address in starts]
    seen = {address.partition("?")[0] for address, _ in waiting}
    texts, refused = {}, []
    while waiting:
        address, page = waiting.pop(0)
        answer = browser.get(address)
        is_explained = address.endswith("/roll-back") and answer.status_code == 409  # a later revision stands above it
        if answer.status_code != 200 and not is_explained:
            refused.append(f"{page} leads to {address}, which is answered {answer.status_code}")
        if answer.mimetype != "text/html":
            continue
        texts[address] = answer.text
        for link in map(unescape, _LINK.findall(answer.text)):
            path = link.partition("?")[0]
            if path not in seen and "/static/" not in path:
                seen.add(path)
                waiting.append((link, address))
    assert refused == [], "\n".join(refused)
    return texts
