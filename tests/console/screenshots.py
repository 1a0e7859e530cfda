"""
Takes the pictures of the console that the documentation shows, at three widths.

    python -m tests.console.screenshots
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.browsers import chromium, running_browser, visiting
from tests.support.small_console import DOMAIN, PROJECT, fill, running_small_console

_DOCS = Path(__file__).parents[2] / "docs"
#: The pictures: their names, pages, widths and colours.
_PICTURES = (
    ("console-overview-390.png", "/console/", 390, "dark"),
    ("console-execution-1280.png", f"/console/executions/{PROJECT}/{DOMAIN}/train", 1280, "light"),
    ("console-executions-1920.png", "/console/executions", 1920, "light"),
)


def main() -> None:
    """Take all of them."""
    if chromium() is None:
        sys.exit("Chromium is not installed: tests/install-servers gets it as root.")
    with tempfile.TemporaryDirectory() as directory, running_small_console(Path(directory)) as console:
        fill(console)
        with running_browser() as browser:
            for name, path, width, scheme in _PICTURES:
                with visiting(browser, console.url, width=width, scheme=scheme) as visitor:
                    visitor.visit(path).screenshot(path=_DOCS / name)
                    print(f"docs/{name}")


if __name__ == "__main__":
    main()
