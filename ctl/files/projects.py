"""The fields of a project as files and documents write them."""

from __future__ import annotations

from ctl.client.facts import PROJECT_STATES
from ctl.client.kinds import Schema

_TEXT: Schema = {"type": "string"}
_LABELS: Schema = {"type": "object", "additionalProperties": _TEXT}

#: A project's file; what the admin alone decides may stand in it, so that what `get -o yaml` printed can be read.
FILE_SCHEMA: Schema = {
    "properties": {
        "id": _TEXT,
        "name": _TEXT,
        "description": _TEXT,
        "labels": {"type": "object", "properties": {"values": _LABELS}},
        "state": {
            "type": "string",
            "enum": list(PROJECT_STATES),
            "x-rainbow-enum-numbers": {name: number for number, name in enumerate(PROJECT_STATES)},
        },
        "version": {"type": "integer", "minimum": 0},
        "domains": {"type": "array", "items": {"type": "object", "properties": {"id": _TEXT, "name": _TEXT}}},
        "created_at": _TEXT,
        "updated_at": _TEXT,
    }
}
EDITABLE = ("name", "description", "labels", "state")
READ_ONLY = ("domains", "created_at", "updated_at")
#: What a project may say of the revisions that made it; files need none of it.
PROVENANCE = ("provenance", "version_pruned")
