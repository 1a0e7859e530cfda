"""Values that people may write into any field, and that a page must show as text: on everything that takes such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.placing import DOMAIN, PROJECT

MARKUP = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'{{7*7}}"
RIGHT_TO_LEFT = "\u202eright to left \u05e2\u05d1\u05e8\u05d9\u05ea"
EMOJI = "👩‍🚀🌈e\u0301"
#: A text of a thousand characters, which most fields take at most; the last 800 are one word.
TEXT = f"{MARKUP} {RIGHT_TO_LEFT} {EMOJI} ".ljust(1000, "w")
#: A word of 10 kB for fields that take more.
LONG = f"{MARKUP} {RIGHT_TO_LEFT} {EMOJI} ".ljust(10_000, "w")

#: Calls REST: method, path and body.
Call = Callable[[str, str, Any], Any]


def store_hostile_values(call: Call) -> None:
    """Store such values in an admin."""
    place = {"project": PROJECT, "domain": DOMAIN}
    call("PUT", f"projects/{PROJECT}", {"id": PROJECT, "name": TEXT[:64], "description": TEXT[:300]})
    call("PUT", "clusters/odd", {"cluster": {"description": TEXT, "properties": {TEXT[:60]: LONG}}})
    call("PUT", "clusters/away", {"cluster": {"description": TEXT}})
    call("POST", "clusters/away/cordon", {"reason": TEXT})
    for noun in ("pool", "label"):
        group = {"members": [{"id": "odd"}, {"id": "away"}], "description": TEXT}
        call("PUT", f"{noun}s/odd-{noun}", {noun: group})
    call("POST", "token_pools", {"token_pool": {"name": "odd-tokens", "capacity": 1, "description": TEXT}})
    for token, wait in ((f"held {RIGHT_TO_LEFT}", 0), (f"waits {EMOJI}", 60)):
        claim = {"token": token, "pools": {"odd-tokens": 1}, "wait_seconds": wait, "lease_seconds": 600, **place}
        call("POST", "token_allocations", {"claim": claim})
    settings = {
        "workflow_execution_config": {"envs": {"values": [{"key": "TEXT", "value": LONG}]}},
        "cluster_assignment": {"cluster_pool_name": "odd-pool"},
    }
    for key, payload in settings.items():
        attributes = {"matching_attributes": {key: payload}}
        body = {"attributes": attributes, "message": TEXT, "claimed_by": TEXT[:100]}
        call("PUT", f"project_domain_attributes/{PROJECT}/{DOMAIN}", body)
    id = {**place, "version": "v1"}
    inputs = {"text": {"type": "string", "description": TEXT, "default": LONG}}
    job = {"command": ["echo", "{{ inputs.text }}"]}
    spec = {"inputs": inputs, "job": job, "description": TEXT}
    call("POST", "workflows", {"id": {**id, "name": "odd"}, "spec": spec, "message": TEXT})
    plan = {"workflow_id": {"name": "odd", "version": "v1"}, "description": TEXT}
    call("POST", "launch_plans", {"id": {**id, "name": "odd"}, "spec": plan, "state": "ACTIVE", "message": TEXT})
    strange = {"command": ["echo", LONG], "environment": {"TEXT": LONG}}
    call(
        "POST", "executions", {**place, "name": "odd", "spec": {"job": strange, "annotations": {"values": {"n": LONG}}}}
    )
    call("POST", "executions", {**place, "name": "launched", "spec": {"launch_plan": {"name": "odd"}}})
    call("POST", "executions", {**place, "name": "cancelled", "spec": {"job": {"command": ["true"]}}})
    call("DELETE", f"executions/{PROJECT}/{DOMAIN}/cancelled", {"cause": TEXT})
