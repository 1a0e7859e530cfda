"""
The calls of the client that are about executions and where they run.

    answer = client.create_execution({"project": "p", "domain": "d", "spec": {"job": {"command": ["true"]}}})
    id = ExecutionId.from_document(answer["id"])
    client.terminate_execution(id, cause="a test")
"""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ctl.client.answers import Document, group_values
from ctl.client.calls.base import PAGE, Calls, non_empty, without_refused
from ctl.client.errors import Conflict, InvalidRequest, NotFound, Unanswered, Unreachable

if TYPE_CHECKING:
    from ctl.client.executions import ExecutionId

#: The longest wait for an event that the admin allows.
LONGEST_WAIT_SECONDS = 60
#: How much longer than the wait itself the answer may take.
_SPARE_SECONDS = 5.0
#: How much of an output file one request reads.
_OUTPUT_PIECE_BYTES = 1024 * 1024
#: How much longer than usual a request about many executions may take.
_MANY_SECONDS = 300.0
#: Executions that the answer of a simulation lists, unless another number is asked for.
_LISTED_MOVES = 1000
#: How much longer a batch may take for each of its executions.
_SECONDS_PER_EXECUTION = 0.1


class ExecutionCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def create_execution(
        self,
        request: Mapping[str, Any],
        *,
        key: str | None = None,
        claimed_by: str | None = None,
        dry_run: bool = False,
    ) -> Document:
        """
        Create an execution, `{"project", "domain", "name"?, "inputs"?, "spec"}`; `created` is false if it was there.

        Without a name the request carries a key, a new one unless one is given, so that it can be sent again where its
        answer got lost, and still starts one execution only. `claimed_by` is kept as the name of its creator, which
        nothing verifies.
        """
        return self._create("executions", request, key, claimed_by, dry_run)

    def create_executions(
        self,
        requests: Sequence[Mapping[str, Any]],
        *,
        key: str | None = None,
        claimed_by: str | None = None,
        dry_run: bool = False,
    ) -> Document:
        """
        Create up to 1,000 executions at once, each a request as in `create_execution`, each answered for itself.

        `results` has for each, in the same order, its `id`, `created`, `phase`, `cluster`, `reason` and `warnings`, or
        the `error` it was refused with. Those without a name get one from the key and their place, so that the same
        requests under the same key are the same executions: where the answer gets lost they are sent once more.
        `resent` tells of that, for what was not created then may have been by the first sending.
        """
        headers = {"Idempotency-Key": key or os.urandom(16).hex()}

        def send() -> Document:
            body = {"executions": list(requests), **non_empty({"claimed_by": claimed_by})}
            more_seconds = len(requests) * _SECONDS_PER_EXECUTION
            answer = self._post_as_known(
                "executions", body, dry_run=dry_run, headers=headers, more_seconds=more_seconds
            )
            return self._require_list(answer, "results", len(requests))

        try:
            return send()
        except Unanswered as lost:
            try:
                return {**send(), "resent": True}
            except Unreachable:
                # The first request may have arrived, even if the second did not.
                raise lost from None

    def repeat_execution(
        self,
        how: str,
        request: Mapping[str, Any],
        *,
        key: str | None = None,
        claimed_by: str | None = None,
        dry_run: bool = False,
    ) -> Document:
        """As `create_execution`, from an earlier one: `how` is relaunch or recover, and `id` in the request which."""
        return self._create(f"executions/{how}", request, key, claimed_by, dry_run)

    def place(
        self,
        request: Mapping[str, Any],
        changes: Sequence[Mapping[str, Any]] = (),
        *,
        fleet: bool = False,
        limit: int | None = None,
        why_not: str | None = None,
    ) -> Document:
        """Where an execution would run and why; `changes` are assumed to have been made. Nothing is written.

        With `fleet` every cluster, candidate or not, says when it could run it, and a job that no candidate could ever
        run is no error. `limit` is the most of the clusters that are no candidates; `why_not` a cluster that the answer
        is to say of, in a sentence, why it is not chosen.
        """
        more = {"changes": list(changes) or None, "fleet": fleet or None, "limit": limit, "why_not": why_not}
        body = {**request, **non_empty(more)}
        return self._transport.call("POST", "placements", body=body, is_safe=True)

    def execution(self, id: ExecutionId, *, with_status: bool = False) -> Document:
        """One execution with everything that was resolved for it; `with_status` adds where it stands now, and why."""
        if not with_status:
            return self._read(id.path)
        return self._read_as_known(id.path, {"with_status": "true"}, "with_status")

    def wait_for_execution(self, id: ExecutionId, after_event: int, seconds: int) -> Document:
        """One execution as soon as it has more than `after_event` events, or after `seconds` at the latest."""
        query = {"after_event": after_event, "wait_seconds": min(seconds, LONGEST_WAIT_SECONDS)}
        return self._read(id.path, query, more_seconds=seconds + _SPARE_SECONDS)

    def executions(self, project: str | None = None, domain: str | None = None, **query: Any) -> Iterator[Document]:
        """
        Executions page by page, newest first unless sorted otherwise; without project or domain, of all.

        Filters are those of the API: `phase`, `reason`, `cause`, `cluster`, `pool`, `label`, `workflow`, `launch_plan`,
        `version`, `state`, `created_by`, `origin`, `origin_scope`, `limit_scope`, `created_after`, `created_before`,
        `filters`, `limit` (the size of a page), `sort_by.key`, `sort_by.direction`, and `with_origin`, which adds the
        rung that decided where each one went.
        """
        for page in self.execution_pages(project, domain, **query):
            yield from page["executions"]

    def execution_pages(
        self, project: str | None = None, domain: str | None = None, **query: Any
    ) -> Iterator[Document]:
        """The same as pages, each with its `executions`; the last one says what was pruned (`not_counted`)."""
        path = "executions"
        if project and domain:
            path += f"/{quote(project, safe='')}/{quote(domain, safe='')}"
        else:
            query |= {"project": project, "domain": domain}
        optional = ("with_origin", "with_limit_scope")
        yield from self._answers(path, "executions", {"limit": PAGE, **non_empty(query)}, optional=optional)

    def execution_counts(self, by: str, **query: Any) -> Document:
        """
        How many executions have each phase, reason, cause, cluster, …, the most frequent first, or of days the
        newest; filters as above.

        The admin counts a limited number of executions in one answer; this asks until all of them are counted.
        """
        from ctl.client.facts import DAYS

        groups: dict[tuple[str, ...], Document] = {}
        remarks: Document = {}
        for page in self._answers("execution_counts", "counts", {"by": by, **non_empty(query)}):
            remarks = non_empty({name: page.get(name) for name in ("unknown_names", "not_counted")})
            for group in page["counts"]:
                _add_group(groups, group)
        counts = sorted(groups.values(), key=lambda group: (-group["count"], group_values(group)))
        if by.split(",")[0] in DAYS:
            counts.sort(key=lambda group: str(group["value"]), reverse=True)
        return {"by": by, "counts": counts, "total": sum(group["count"] for group in counts), **remarks}

    def unknown_execution_names(self, **query: Any) -> list[Document]:
        """The names among the filters of an empty list of executions that nothing has, each with similar ones."""
        answer = self._read("executions", {**non_empty(query), "limit": 1}, holding="executions")
        return list(answer.get("unknown_names") or [])

    def execution_events(self, id: ExecutionId) -> Iterator[Document]:
        """What happened to an execution, oldest first, page by page."""
        yield from self._pages(f"{id.path}/events", "events")

    def execution_log(
        self,
        id: ExecutionId,
        stream: str,
        *,
        attempt: int | None = None,
        offset: int | None = None,
        tail: int | None = None,
        since: str | None = None,
        limit: int | None = None,
        seconds: int = 0,
    ) -> Document:
        """
        What an attempt, the last one by default, printed from a byte on; `complete` tells that there is no more.

        Without an offset, from the start, from the last lines (`tail`) or from what was stored `since` a time or so
        long ago; `next_offset` is where it goes on. Where there is no output yet, the admin waits up to `seconds` for
        it.
        """
        wait = min(seconds, LONGEST_WAIT_SECONDS)
        start = {"offset": offset, "tail": tail, "since": since}
        query = {"stream": stream, "attempt": attempt, **start, "limit": limit, "wait_seconds": wait or None}
        more_seconds = wait + _SPARE_SECONDS if wait else 0.0
        return self._read(f"{id.path}/logs", non_empty(query), more_seconds=more_seconds)

    def execution_outputs(self, id: ExecutionId) -> list[Document]:
        """The files that an execution left; small ones with their content in base64, of large ones the beginning."""
        return list(self._read(f"{id.path}/outputs", holding="outputs")["outputs"])

    def execution_output(self, id: ExecutionId, path: str) -> Iterator[bytes]:
        """What is kept of a file that an execution left, piece by piece."""
        query: dict[str, Any] = {"path": path, "offset": 0, "limit": _OUTPUT_PIECE_BYTES}
        attempt = None
        is_complete = False
        while not is_complete:
            piece = self._read(f"{id.path}/outputs/content", query)
            if attempt not in (None, piece["attempt"]):
                raise Conflict(f"The output {path!r} was replaced by that of another attempt: read it again.")
            attempt, is_complete = piece["attempt"], bool(piece["complete"])
            yield b64decode(piece["content_base64"])
            query["offset"] = piece["next_offset"]

    def explain_execution(
        self, id: ExecutionId, decision: int | None = None, *, why_not: str | None = None
    ) -> Document:
        """The decision in force with its whole trail, or an earlier one by its number.

        `why_not` is a cluster: the answer then says in a sentence why it is not there.
        """
        return self._read(f"{id.path}/explanation", non_empty({"decision": decision, "why_not": why_not}))

    def compare_execution(self, id: ExecutionId, other: ExecutionId | None = None) -> Document:
        """Where the settings that an execution was decided by differ from those that its request would get now.

        With another execution they are compared with those that this one was decided by.
        """
        query = {}
        if other is not None:
            query = {"other_project": other.project, "other_domain": other.domain, "other_name": other.name}
        with self._newer_parameter("other_project", "It compares an execution with the settings of now alone."):
            return self._read(f"{id.path}/comparison", query, holding="differences")

    def set_execution_state(self, id: ExecutionId, state: str, *, claimed_by: str | None = None) -> Document:
        """
        Make an execution ACTIVE or ARCHIVED; `changed` tells whether it was not.

        `claimed_by` is the author, kept with the event; an older admin keeps none.
        """
        return self._change_as_known("PUT", id.path, {"state": state}, {"claimed_by": claimed_by})

    def terminate_execution(
        self,
        id: ExecutionId,
        *,
        cause: str = "",
        claimed_by: str | None = None,
        give_up: bool = False,
        dry_run: bool = False,
    ) -> Document:
        """End an execution; `changed` is false where it was finished already.

        With `give_up` it ends without its agent, which is refused unless its cluster is silent. With `dry_run` it goes
        on, and `phase_after` tells what it would be.
        """
        body = {"cause": cause, "claimed_by": claimed_by, "give_up": give_up or None}
        # An older admin refuses every parameter of this path by name, and so ends nothing.
        with self._newer_parameter("dry_run", "It cannot tell what ending an execution would do: look with `get`."):
            return self._write("DELETE", id.path, non_empty(body), dry_run=dry_run)

    def terminate_executions(
        self,
        selector: Mapping[str, Any],
        *,
        cause: str = "",
        claimed_by: str | None = None,
        give_up: bool = False,
        dry_run: bool = False,
    ) -> Document:
        """End every execution that a selector, which must not be empty, matches; or `give_up` those that can be."""
        options = {"cause": cause, "claimed_by": claimed_by, "give_up": give_up or None}
        body = {"selector": dict(selector), **non_empty(options)}
        return self._write("POST", "executions/terminate", body, dry_run=dry_run, more_seconds=_MANY_SECONDS)

    def redecide(
        self,
        selector: Mapping[str, Any],
        *,
        claimed_by: str | None = None,
        dry_run: bool = False,
        limit: int | None = None,
        token: str | None = None,
    ) -> Document:
        """Decide waiting executions again, with the current settings.

        A dry run looks at a limited number of them. With a `limit` at most so many are decided, those after the `token`
        of the answer before; an older admin knows neither, and decides all.
        """
        body = {"selector": dict(selector), **non_empty({"claimed_by": claimed_by, "limit": limit, "token": token})}
        try:
            return self._write("POST", "executions/redecide", body, dry_run=dry_run, more_seconds=_MANY_SECONDS)
        except InvalidRequest as error:
            body = without_refused(body, ["limit"], error)
            return self._write("POST", "executions/redecide", body, dry_run=dry_run, more_seconds=_MANY_SECONDS)

    def simulate(self, changes: Sequence[Mapping[str, Any]], since: str, **options: Any) -> Document:
        """Which executions since then would have gone elsewhere with these changes.

        Options are `project`, `domain`, `limit`, and `fleet`: `recorded` for the states that each decision recorded.
        The admin compares a limited number in one answer; this asks until all of them are compared.
        """
        body: Document = {"changes": list(changes), "since": since, **non_empty(options)}
        pages: list[Document] = []
        while True:
            answer = self._transport.call("POST", "simulations", body=body, is_safe=True, more_seconds=_MANY_SECONDS)
            pages.append(self._require_list(answer, "executions"))
            token = answer.get("token")
            if not token or token == body.get("token"):
                return _add_simulations(pages, options.get("limit"))
            body = {**body, "token": token}

    def placement_counts(self, by: str, since: str, **where: Any) -> Document:
        """How many executions went where since then, largest first."""
        counts: dict[tuple[str, ...], Document] = {}
        answer: Document = {}
        for answer in self._answers("placement_counts", "counts", {"by": by, "since": since, **non_empty(where)}):
            for entry in answer["counts"]:
                _add_group(counts, entry)
        ordered = sorted(counts.values(), key=lambda entry: (-entry["count"], str(entry["value"])))
        return {**answer, "counts": ordered, "total": sum(entry["count"] for entry in ordered)}

    def has_launch_plan(self, project: str, domain: str, name: str) -> bool:
        """Whether any version of a launch plan is registered under that name."""
        path = "/".join(["launch_plans", *(quote(part, safe="") for part in (project, domain, name))])
        try:
            return bool(self._read(path, {"limit": 1}, holding="launch_plans")["launch_plans"])
        except NotFound:
            return False

    def _create(
        self, path: str, request: Mapping[str, Any], key: str | None, claimed_by: str | None, dry_run: bool
    ) -> Document:
        body = {**request, **non_empty({"claimed_by": claimed_by})}
        if body.get("name") or dry_run:
            return self._post_as_known(path, body, dry_run=dry_run)
        headers = {"Idempotency-Key": key or os.urandom(16).hex()}
        try:
            answer = self._post_as_known(path, body, headers=headers)
        except Unanswered:
            answer = self._post_as_known(path, body, headers=headers)
        # With a new key an existing execution can only come from the first sending of this request.
        return answer if key else {**answer, "created": True}

    def _post_as_known(self, path: str, body: Document, **options: Any) -> Document:
        """The answer to a creation; without the name of its creator, where an older admin refuses that by name."""
        try:
            return self._write("POST", path, body, **options)
        except InvalidRequest as error:
            return self._write("POST", path, without_refused(body, ["claimed_by"], error), **options)


#: The sums of simulations, and those by the name of a cluster or the code of a refusal.
_SUMS, _SUMS_BY_NAME = ("compared", "moved", "refused", "by_last_bids"), ("by_cluster", "by_refusal")


def _add_simulations(pages: Sequence[Document], limit: int | None) -> Document:
    """The answer of several pages of a simulation together; the fleet is that of the last."""
    if len(pages) == 1:
        return pages[0]
    answer = dict(pages[-1])
    answer |= {name: sum(int(page.get(name) or 0) for page in pages) for name in _SUMS if any(name in p for p in pages)}
    for name in _SUMS_BY_NAME:
        sums: dict[str, dict[str, int]] = {}
        for page in pages:
            for key, sides in (page.get(name) or {}).items():
                before = sums.setdefault(key, {"before": 0, "after": 0})
                sums[key] = {side: before[side] + int(sides.get(side) or 0) for side in before}
        answer[name] = dict(sorted(sums.items()))
    listed = [move for page in pages for move in page["executions"]]
    return {**answer, "executions": listed[: limit or _LISTED_MOVES]}


def _add_group(groups: dict[tuple[str, ...], Document], group: Document) -> None:
    """Add the count of a group in one answer to those of other answers."""
    earlier = groups.get(group_values(group), {"count": 0})
    times = [entry["not_before"] for entry in (earlier, group) if entry.get("not_before")]
    names: Document = {name: group[name] for name in ("value", "values") if name in group}
    merged = {**names, "count": earlier["count"] + group["count"]}
    if "requested" in group:  # an older admin does not say
        before = earlier.get("requested") or {}
        merged["requested"] = {name: before.get(name, 0) + amount for name, amount in group["requested"].items()}
    waiting = [entry["waiting"] for entry in (earlier, group) if entry.get("waiting")]
    if waiting:
        merged["waiting"] = _add_waiting(waiting)
    started = [entry["started"] for entry in (earlier, group) if entry.get("started")]
    if started:
        merged["started"] = _add_started(started)
    ran = [entry["ran"] for entry in (earlier, group) if entry.get("ran")]
    if ran:
        merged["ran"] = _add_ran(ran)
    groups[group_values(group)] = {**merged, "not_before": min(times, key=datetime.fromisoformat)} if times else merged


def _add_waiting(waiting: list[Document]) -> Document:
    """What waits in a group of several answers, of which together the median is not known."""
    if len(waiting) == 1:
        return waiting[0]
    return {
        "count": sum(entry["count"] for entry in waiting),
        "longest_seconds": max(entry["longest_seconds"] for entry in waiting),
    }


def _add_ran(ran: list[Document]) -> Document:
    """What ran of a group of several answers, and what that had."""
    added: Document = {name: sum(entry[name] for entry in ran) for name in ran[0]}
    longest, mean = max(entry["longest_seconds"] for entry in ran), round(added["seconds"] / added["count"], 3)
    return {**added, "longest_seconds": longest, "mean_seconds": mean}


def _add_started(started: list[Document]) -> Document:
    """What has started in a group of several answers."""
    number = sum(entry["count"] for entry in started)
    return {
        "count": number,
        "longest_seconds": max(entry["longest_seconds"] for entry in started),
        "mean_seconds": round(sum(entry["count"] * entry["mean_seconds"] for entry in started) / number, 3),
    }
