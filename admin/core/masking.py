"""Masking: tokens that were sent where they do not belong, as in a path, are shown without their secrets."""

from __future__ import annotations

import re

#: A token of a user or cluster; what stands before its secret may be shown.
_TOKEN = re.compile(r"(rb[cu]-[0-9A-Za-z]{8}-)[0-9A-Za-z_-]+")


def without_secrets(text: str) -> str:
    """Text without the secrets of the tokens in it."""
    return _TOKEN.sub(r"\1***", text) if "rbu-" in text or "rbc-" in text else text
