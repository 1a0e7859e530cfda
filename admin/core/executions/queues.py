"""Queues: which one an execution waits in, by the first of its tags that a queue serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from admin.core.placement.choice import WeightedChoice
from admin.core.problems import Problem, Refused, closest, did_you_mean
from admin.core.settings.origins import describe_origin
from admin.core.settings.resolution import Resolved


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue and the tags it serves."""

    name: str
    tags: tuple[str, ...]


def find_queues(queues: Iterable[Queue], resolved: Resolved) -> WeightedChoice | None:
    """The queues to draw from; None without tags, Refused where no queue serves any of the tags."""
    tags = resolved.value.get("tags", [])
    if not tags:
        return None
    known = list(queues)
    for tag in tags:
        serving = [queue.name for queue in known if tag in queue.tags]
        if serving:
            return WeightedChoice((name, 1) for name in serving)
    near = closest(tags[0], [tag for queue in known for tag in queue.tags])
    listed = ", ".join(f"'{tag}'" for tag in tags)
    origin = describe_origin(resolved.origins["tags",])
    raise Refused(
        "unknown_queue_tag",
        Problem(
            field="tags",
            reason=f"No queue serves {listed}, set at {origin}.{did_you_mean(near)} "
            "Change the attribute, or configure a queue for the tag.",
            closest=near,
        ),
    )
