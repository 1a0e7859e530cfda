"""
Plan files: a change as it was shown, to be applied later exactly so.

A plan is JSON that people can read. It holds the changes with the version of every row it was made from, so that the
admin refuses it when one of them has moved, and a SHA-256 over its content, so that a plan cut off or changed by hand
is noticed. The sum is no signature: anyone who can write the file can write another plan.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctl.client.errors import InvalidFile
from ctl.client.formats import to_json

MARK = "rainbow_plan"
FORMAT = 1
MAX_BYTES = 128 * 1024 * 1024

_KEYS = {MARK: int, "endpoint": str, "made_at": str, "revision": int, "changes": list}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A change of many rows, and what it was made from."""

    endpoint: str  #: of the admin it is for
    made_at: str  #: RFC 3339
    made_by: str | None
    revision: int  #: the latest one when it was made
    changes: list[dict[str, Any]]  #: as the API takes them, each with what it expects

    def text(self) -> str:
        """The plan as a file."""
        document = {
            MARK: FORMAT,
            "endpoint": self.endpoint,
            "made_at": self.made_at,
            **({"made_by": self.made_by} if self.made_by else {}),
            "revision": self.revision,
            "changes": self.changes,
        }
        return to_json({**document, "sha256": _sum(document)})


def read_plan(path: str) -> Plan:
    """The plan in a file; what is no plan, is cut off, or was changed after it was written is refused."""
    try:
        if Path(path).stat().st_size > MAX_BYTES:
            raise InvalidFile(f"{path} is too large to be a plan.")
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}.") from None
    if f'"{MARK}"'.encode() not in content[:1000]:
        raise InvalidFile(f"{path} is not a plan: documents are applied with `rainbowctl apply -f {path}`.")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidFile(f"{path} is an incomplete plan: it was truncated or edited. {_REMEDY}") from None
    if not isinstance(document, dict) or document.pop("sha256", None) != _sum(document):
        raise InvalidFile(f"{path} was changed after it was written: its checksum does not match. {_REMEDY}")
    if document.get(MARK) != FORMAT or not all(isinstance(document.get(key), of) for key, of in _KEYS.items()):
        raise InvalidFile(f"{path} is a plan of another version of rainbowctl. {_REMEDY}")
    return Plan(
        endpoint=document["endpoint"],
        made_at=document["made_at"],
        made_by=document.get("made_by"),
        revision=document["revision"],
        changes=document["changes"],
    )


_REMEDY = "Make a new one with `rainbowctl plan -f … --out FILE`."


def _sum(document: dict[str, Any]) -> str:
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
