"""Reports: what the admin is told of an execution, as events."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Any

from agent.clocks import as_text, now_text
from agent.engines.base import Engine, EngineUnavailable, NativePhase, NativeState
from agent.intents import Ending, Intent

_MESSAGE_LENGTH, _REASON_LENGTH, _NODES = 4000, 64, 10_000
#: What is brought back of each declared output, and of all together; the admin may keep less.
_OUTPUT_BYTES, _OUTPUTS_BYTES, _OUTPUTS = 256 * 1024, 512 * 1024, 100

CLUSTER_LOST = "CLUSTER_LOST"


def event(held: Mapping[str, Any], kind: str, *, reason: str = "", message: str = "", **more: Any) -> dict[str, Any]:
    """One event of an attempt."""
    said = {"reason": reason[:_REASON_LENGTH], "message": message[:_MESSAGE_LENGTH], **more}
    return {
        "event": uuid.uuid4().hex,
        "id": held["id"],
        "attempt": held["attempt"],
        "type": kind,
        "at": now_text(),
        **{name: value for name, value in said.items() if value not in (None, "", [])},
    }


def running(intent: Intent, state: NativeState) -> dict[str, Any]:
    """It runs."""
    return event(intent.held, "RUNNING", **_native(intent, state))


def final(intent: Intent, state: NativeState, outputs: tuple[list[dict[str, Any]], str]) -> dict[str, Any]:
    """How it ended, by what the engine says and by why the agent ended it, if it did."""
    files, missing = outputs
    kind, reason, message = _verdict(intent, state)
    native = {**_native(intent, state), "exit_code": state.exit_code, "signal": state.signal}
    if state.finished_at is not None:
        native["finished_at"] = as_text(state.finished_at)
    if state.finished_at is not None and state.started_at is not None:
        native["duration"] = max(0.0, (state.finished_at - state.started_at).total_seconds())
    text = " ".join(part for part in (message, missing) if part)
    return event(intent.held, kind, reason=reason, message=text, outputs=files, **native)


def _native(intent: Intent, state: NativeState) -> dict[str, Any]:
    return {
        "native_id": intent.native_id[:255],
        "nodes": [node[:255] for node in state.nodes[:_NODES]],
        "started_at": as_text(state.started_at) if state.started_at else None,
    }


def _verdict(intent: Intent, state: NativeState) -> tuple[str, str, str]:
    """The type, reason code and message of the last event."""
    phase, reason, message = state.phase, state.reason, state.message
    if intent.ending in (Ending.CANCEL, Ending.LOST):
        return "ABORTED", reason, intent.ending_message or message
    if phase is NativePhase.UNKNOWN and intent.ending is None:
        return "UNKNOWN", reason, message or "The engine does not know it any more."
    if intent.ending is not None and phase in (NativePhase.ABORTED, NativePhase.UNKNOWN):
        return _ended_by_agent(intent, state)
    if phase is NativePhase.FAILED and not message and state.exit_code is not None:
        message = f"It ended with exit code {state.exit_code}."
    return phase.value, reason, message


def _ended_by_agent(intent: Intent, state: NativeState) -> tuple[str, str, str]:
    """What became of work that the agent itself ended, for reasons of its own."""
    if intent.ending is Ending.TIME_LIMIT:
        return "TIMED_OUT", "TIME_LIMIT", intent.ending_message
    if state.started_at is None and intent.running_since is None and state.phase is NativePhase.ABORTED:
        return "RELEASED", "", intent.ending_message
    return "FAILED", CLUSTER_LOST, intent.ending_message


def size(event: Mapping[str, Any]) -> int:
    """About how many bytes an event takes on its way."""
    return 1000 + len(event.get("message", "")) + sum(len(file["content_base64"]) for file in event.get("outputs", ()))


def bare(event: Mapping[str, Any], why: str) -> dict[str, Any]:
    """What must get through of an event that the admin cannot read."""
    said = {name: event[name] for name in ("event", "id", "attempt", "type", "at")}
    return {**said, "message": f"More could not be said: {why}"[:_MESSAGE_LENGTH]}


def without_outputs(event: dict[str, Any]) -> dict[str, Any]:
    """An event whose files did not get through."""
    if "outputs" not in event:
        return event
    message = f"{event.get('message', '')} Its output files were too large to bring back.".strip()
    return {**{name: value for name, value in event.items() if name != "outputs"}, "message": message}


def read_outputs(engine: Engine, intent: Intent) -> tuple[list[dict[str, Any]], str]:
    """The declared output files that are there, and a sentence on those that are not."""
    declared = intent.lease.get("job", {}).get("outputs") or []
    files: list[dict[str, Any]] = []
    missing = []
    room = _OUTPUTS_BYTES
    for path in declared[:_OUTPUTS]:
        try:
            found = engine.read_output(intent.handle, path, min(_OUTPUT_BYTES, room))
        except EngineUnavailable:
            found = None
        if found is None:
            missing.append(path)
            continue
        content, size, truncated = found
        room -= len(content)
        encoded = base64.b64encode(content).decode()
        files.append({"path": path, "content_base64": encoded, "size": size, "truncated": truncated})
    return files, f"It left no {', '.join(missing)}." if missing else ""
