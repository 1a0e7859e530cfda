"""Documents as JSON and YAML text, and text that is safe to print."""

from __future__ import annotations

from typing import Any


def printable(text: str) -> str:
    """Text with control characters escaped, which could otherwise control the terminal or break a row."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """The same for text of several lines; all but the first are indented, so that none passes for another message."""
    return "\n  ".join(map(printable, text.split("\n")))


def to_json(document: Any) -> str:
    import json
    import re

    def escape(match: re.Match[str]) -> str:
        return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]

    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return re.sub(r"[^\n -~]", escape, text)


def to_yaml(document: Any, width: int = 4096) -> str:
    """YAML in the order of the document, strings quoted where YAML would read them as something else.

    Texts go on in a new line at the first space after `width` columns.
    """
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=width))
