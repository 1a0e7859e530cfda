"""Queues: where an execution lines up, by the first of its tags that some queue serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from admin.core.placement.choice import WeightedChoice
from admin.core.problems import Problem, Refused, closest, did_you_mean
from admin.core.settings.origins import described
from admin.core.settings.resolution import Resolved


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue and the tags it serves."""

    name: str
    tags: tuple[str, ...]


def find_queues(queues: Iterable[Queue], tags: Resolved) -> WeightedChoice | None:
    """The queues that one is drawn from; None without tags, refused where no queue serves any of them."""
    wanted = tags.value.get("tags", [])
    if not wanted:
        return None
    known = list(queues)
    for tag in wanted:
        serving = [queue.name for queue in known if tag in queue.tags]
        if serving:
            return WeightedChoice((name, 1) for name in serving)
    near = closest(wanted[0], [tag for queue in known for tag in queue.tags])
    listed = ", ".join(f"'{tag}'" for tag in wanted)
    raise Refused(
        "unknown_queue_tag",
        Problem(
            field="tags",
            reason=f"No queue serves {listed}, set at {described(tags.origins['tags',])}.{did_you_mean(near)} "
            "Change the attribute, or configure a queue for the tag.",
            closest=near,
        ),
    )
