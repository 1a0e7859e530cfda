"""What is not told: stored sentences about executions name no clusters that their askers may not know."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from flask import Response

from admin.api.current import access, caller, context
from admin.core.permissions import OF_EACH_ROW
from admin.core.placement.obstacles import without_clusters
from admin.core.placement.switch_notes import without_notes
from admin.messages.shared import encode_json
from admin.services.creator_rights import told_clusters
from admin.services.definitions import current_fleet

#: The permissions of operations that answer with sentences about executions; those about the fleet tell all of it.
_ABOUT_EXECUTIONS = (
    "executions.",
    *(f"{noun}.write" for noun in ("attributes", "workflows", "projects", "users", "groups", "grants")),
    OF_EACH_ROW,
)
#: The fields that have such sentences.
_SENTENCES = frozenset(
    {
        *("message", "next", "if_silent", "note", "notes", "silence", "silence_outlook"),
        *("why_not", "because", "reason", "rule"),
    }
)
#: The fields that have what callers wrote, which stays as it is.
_WRITTEN = frozenset(
    {
        *("job", "spec", "inputs", "settings", "received", "labels", "annotations", "abort_metadata"),
        *("payload", "attributes", "definition"),
    }
)
#: Of clusters that operators switched; who did and what they wrote then is for who may read the fleet.
_SWITCHED = re.compile(rb"is (?:disabled|cordoned|draining) \(|(?:After|after) (?:revision|event) [0-9]")
_QUOTED = re.compile(rb"'([^'\"\\ ]+)'")
#: What an answer tells by itself: where executions are or would be, and what settings and requests name.
_TOLD = re.compile(rb'"(?:cluster|previous_cluster|redecided_cluster|from|to|pool|label|name)":"([^"\\]*)"')


def without_untold(permission: str, response: Response) -> Response:
    """An answer to an operation that needs a permission, without the names that the caller is not told."""
    if not permission.startswith(_ABOUT_EXECUTIONS):
        return response
    is_closed = context().settings.is_cluster_use_closed
    if not is_closed and access().sees_fleet():
        return response
    if not access().is_restricted and caller().cluster is None:  # who may do everything is told everything
        return response
    if response.is_streamed or response.mimetype != "application/json":
        return response
    body = response.get_data()
    quoted, told = ({name.decode() for name in pattern.findall(body)} for pattern in (_QUOTED, _TOLD))
    # Why a cluster takes nothing is told to who may use it, or may read the fleet, also if an execution is there.
    names = quoted - told if is_closed else quoted
    unable = _untold(names) if names else []
    cuts: list[Callable[[str], str]] = []
    if not access().sees_fleet() and _SWITCHED.search(body):
        cuts.append(without_notes)
    if unable:
        untold, verb = [name for name in unable if name not in told], "use" if is_closed else "see"
        cuts.append(partial(without_clusters, untold=untold, verb=verb, unable=unable))
    if cuts:
        document = json.loads(body)
        for cut in cuts:
            document = _told(document, cut)
        response.set_data(encode_json(document))
    return response


def _untold(names: Collection[str]) -> list[str]:
    """Those of some names that are of clusters which the caller may not be told of."""
    admin = context()
    with admin.database.reading() as connection:
        fleet = current_fleet(admin, connection)
        told = told_clusters(admin, connection, caller().identity, fleet)
    return [] if told is None else sorted(name for name in names if name in fleet.clusters and name not in told)


def _told(value: Any, cut: Callable[[str], str], *, is_sentence: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: item if key in _WRITTEN else _told(item, cut, is_sentence=key in _SENTENCES)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_told(item, cut, is_sentence=is_sentence) for item in value]
    return cut(value) if is_sentence and isinstance(value, str) else value
