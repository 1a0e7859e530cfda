"""The rules that are left without a queue or a tag of queues."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from admin.core.executions.launches import Rules
from admin.core.executions.queues import Queue
from admin.core.executions.removals import NOUNS, rules_without
from admin.core.settings.builtin_kinds import BUILTIN_KINDS
from admin.core.settings.kinds import Kinds
from admin.core.settings.platform import PlatformValues

TAGS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, min_size=1)


@given(first=TAGS, second=TAGS, noun=st.sampled_from(NOUNS), name=st.sampled_from(["a", "b", "z"]))
def test_only_what_is_removed_is_missing(first: list[str], second: list[str], noun: str, name: str) -> None:
    served = {"a": set(first), "b": set(second)}
    queues = tuple(Queue(name=queue, tags=tuple(sorted(tags))) for queue, tags in served.items())
    left = rules_without(Rules(kinds=Kinds(BUILTIN_KINDS), platform=PlatformValues(), queues=queues), noun, name).queues
    if noun == "queue":
        served.pop(name, None)
    if noun == "queue_tag":
        served = {queue: tags - {name} for queue, tags in served.items()}
    assert {queue.name: set(queue.tags) for queue in left} == served
