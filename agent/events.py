"""Events: what the agent reports of an execution."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agent.clocks import format_time
from agent.engines.base import Engine, EngineUnavailable, NativePhase, NativeState
from agent.engines.leases import CLUSTER_LOST
from agent.intents import Ending, Intent

_MESSAGE_LENGTH, _REASON_LENGTH, _NODES = 4000, 64, 10_000
#: What is sent with the event of each declared output, and of all together; the admin may keep less.
_OUTPUT_BYTES, _OUTPUTS_BYTES, _OUTPUTS = 256 * 1024, 512 * 1024, 100
#: The same of an output whose rest can be sent in pieces.
_SMALL_OUTPUT_BYTES = 64 * 1024

Event = dict[str, Any]


def build_event(
    reference: Mapping[str, Any], kind: str, now: datetime, *, reason: str = "", message: str = "", **fields: Any
) -> Event:
    """One event of an attempt; fields without a value are left out."""
    fields = {"reason": reason[:_REASON_LENGTH], "message": message[:_MESSAGE_LENGTH], **fields}
    return {
        "event": uuid.uuid4().hex,
        **{name: reference[name] for name in ("id", "attempt", "uid") if reference.get(name)},
        "type": kind,
        "at": format_time(now),
        **{name: value for name, value in fields.items() if value not in (None, "", [])},
    }


def running_event(intent: Intent, state: NativeState, now: datetime) -> Event:
    """The event of an execution that runs."""
    return build_event(intent.reference, "RUNNING", now, **_native_fields(intent, state))


def final_event(intent: Intent, state: NativeState, now: datetime, outputs: tuple[list[Event], str]) -> Event:
    """How an execution ended: by what the engine says, and by why the agent ended it, if it did."""
    files, missing = outputs
    kind, reason, message = _verdict(intent, state)
    fields = {**_native_fields(intent, state), "exit_code": state.exit_code, "signal": state.signal}
    if state.finished_at is not None:
        fields["finished_at"] = format_time(state.finished_at)
    if state.duration is not None:
        fields["duration"] = state.duration
    elif state.finished_at is not None and state.started_at is not None:
        fields["duration"] = max(0.0, (state.finished_at - state.started_at).total_seconds())
    text = " ".join(part for part in (message, missing) if part)
    return build_event(intent.reference, kind, now, reason=reason, message=text, outputs=files, **fields)


def _native_fields(intent: Intent, state: NativeState) -> dict[str, Any]:
    return {
        "native_id": intent.native_id[:255],
        "nodes": [node[:255] for node in state.nodes[:_NODES]],
        "started_at": format_time(state.started_at) if state.started_at else None,
    }


def _verdict(intent: Intent, state: NativeState) -> tuple[str, str, str]:
    """The type, reason code and message of the final event."""
    phase, reason, message = state.phase, state.reason, state.message
    if intent.ending in (Ending.DRAIN, Ending.WITHDRAW) and _never_started(intent, state):
        return "RELEASED", "", intent.ending_message
    # What succeeded before a drain could end it has its result; what somebody cancels is not wanted any more.
    has_succeeded = phase is NativePhase.SUCCEEDED and intent.ending is Ending.DRAIN
    if intent.ending in (Ending.CANCEL, Ending.DRAIN) and not has_succeeded:
        return "ABORTED", reason, intent.ending_message or message
    if phase is NativePhase.UNKNOWN and intent.ending in (None, Ending.WITHDRAW, Ending.EXPIRED, Ending.LOST):
        # Its job may still run, so it is not reported as ended.
        parts = (intent.ending_message, message or "The engine does not know it any more.")
        return "UNKNOWN", reason, " ".join(part for part in parts if part)
    ended_by_agent = intent.ending not in (None, Ending.WITHDRAW)
    if ended_by_agent and phase in (NativePhase.ABORTED, NativePhase.UNKNOWN):
        return _verdict_of_agent(intent, state)
    return phase.value, reason, state.outcome


def _verdict_of_agent(intent: Intent, state: NativeState) -> tuple[str, str, str]:
    """The verdict on work that the agent ended without being asked to."""
    if intent.ending is Ending.TIME_LIMIT:
        return "TIMED_OUT", "TIME_LIMIT", intent.ending_message
    if _never_started(intent, state):
        return "RELEASED", "", intent.ending_message
    return "FAILED", CLUSTER_LOST, intent.ending_message


def _never_started(intent: Intent, state: NativeState) -> bool:
    has_run = intent.has_run or intent.running_since is not None or state.started_at is not None
    return not has_run and state.phase is NativePhase.ABORTED


def estimate_size(event: Mapping[str, Any]) -> int:
    """About how many bytes an event takes in a request."""
    return 1000 + len(event.get("message", "")) + sum(len(file["content_base64"]) for file in event.get("outputs", ()))


def strip_details(event: Mapping[str, Any], problem: str) -> Event:
    """The required fields of an event that the admin could not read, and why the others are missing."""
    required = {name: event[name] for name in ("event", "id", "attempt", "uid", "type", "at") if name in event}
    return {**required, "message": f"Details are missing: the admin could not read them: {problem}"[:_MESSAGE_LENGTH]}


def strip_outputs(event: Event) -> Event:
    """An event without its output files, which were too large to send."""
    if "outputs" not in event:
        return event
    message = f"{event.get('message', '')} Its output files were too large to send.".strip()
    return {**{name: value for name, value in event.items() if name != "outputs"}, "message": message}


def read_outputs(engine: Engine, intent: Intent) -> tuple[list[Event], str]:
    """The declared output files that exist, and what is to be said of those that do not or are too large.

    The content of a large file follows in pieces, if the admin takes them.
    """
    declared = intent.lease.get("job", {}).get("outputs") or []
    limit = intent.output_limit_bytes
    most = _OUTPUT_BYTES if limit is None else _SMALL_OUTPUT_BYTES
    files: list[Event] = []
    missing, remarks = [], []
    bytes_left = _OUTPUTS_BYTES
    for path in declared[:_OUTPUTS]:
        try:
            output = engine.read_output(intent.handle, path, min(most, bytes_left))
        except EngineUnavailable:
            output = None
        if output is None:
            missing.append(path)
            continue
        content, size, is_truncated = output
        if is_truncated and limit is not None:
            content = b""
        if limit is not None and size > limit:
            remarks.append(f"Of its output {path}, {size} bytes, {limit} are kept (agents.outputLimitBytes).")
        bytes_left -= len(content)
        encoded = base64.b64encode(content).decode()
        files.append({"path": path, "content_base64": encoded, "size": size, "truncated": is_truncated})
    if missing:
        remarks.append(f"It left no {', '.join(missing)} beneath its working directory.")
    return files, " ".join(remarks)


def large_outputs(intent: Intent) -> dict[str, int]:
    """The sizes of the output files whose content is sent in pieces, by path."""
    if intent.output_limit_bytes is None:
        return {}
    return {
        file["path"]: file["size"]
        for event in intent.events
        for file in event.get("outputs", ())
        if file["truncated"] and not file["content_base64"]
    }
