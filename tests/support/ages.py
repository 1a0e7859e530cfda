"""How long ago something was, which grows while a test runs."""

from __future__ import annotations

import re

#: Such as `3 s ago` and `1 min 3 s ago`.
AGE = r"\d+ ?[a-z]+(?: \d+ ?[a-z]+)? ago"


def without_ages(text: str) -> str:
    """A text to compare with another that is older or newer."""
    return re.sub(AGE, "… ago", text)
