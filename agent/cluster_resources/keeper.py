"""Keeps namespaces as the admin renders them: fetches what has changed, has it made, and reports what became of it."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent.calls import Runner, run_in_thread
from agent.clocks import SYSTEM_CLOCK, Clock
from agent.cluster_resources.maker import NamespaceMaker
from agent.cluster_resources.orders import Namespace, Orders
from agent.cluster_resources.reports import Report
from agent.engines.resource_api import ApiUnavailable, KubernetesApi
from agent.transport import AdminClient, cluster_path, describe, is_older
from ctl.client.errors import ClientError

log = logging.getLogger("rainbow.agent")

#: How often the admin is asked whether something has changed; such a call is small.
_ASK_SECONDS = 5.0
#: How often one is asked that has no namespaces for this cluster, or does not know of any.
_IDLE_SECONDS = 60.0
_ANSWER_SECONDS = 60.0
#: The first pause before what failed is tried again; it doubles up to the interval of refreshing.
_RETRY_SECONDS = 5.0
#: How often everything is reported again, since an admin may have been restored from a backup meanwhile.
_REPORT_SECONDS = 600.0
#: How often the admin is told what was made, while there is more to make: executions wait for it.
_TELL_SECONDS = 2.0
#: Namespaces of one report, and about how many bytes: an admin refuses a request of 1 MiB.
_BATCH = 200
_BATCH_BYTES = 256 * 1024


#: The namespace of the jobs of a project and domain; ValueError where Kubernetes takes no such name.
NamespaceOf = Callable[[str, str], str]


class NamespaceKeeper:
    """Makes the namespaces of one cluster, beside the agent's own thread."""

    def __init__(
        self,
        cluster: str,
        api: KubernetesApi,
        client: AdminClient,
        *,
        namespace_of: NamespaceOf | None = None,
        clock: Clock = SYSTEM_CLOCK,
        run: Runner = run_in_thread,
    ) -> None:
        self.is_busy = False
        self._path = cluster_path(cluster, "cluster_resources")
        self._maker = NamespaceMaker(api)
        self._client = client
        self._namespace_of = namespace_of
        self._clock = clock
        self._run = run
        self._ask_at = 0.0
        self._make_at = 0.0  #: when to look at the cluster again, though nothing has changed
        self._retry_seconds = _RETRY_SECONDS
        self._digest = ""  #: of all that was fetched
        self._known: dict[str, Namespace] = {}
        self._kept: frozenset[str] = frozenset()
        self._reported: dict[str, dict[str, Any]] = {}
        self._unreported: dict[str, dict[str, Any]] = {}  #: what the admin is still to be told
        self._report_all_at = 0.0
        self._send_at = 0.0  #: when to tell what was made so far
        self._problem = ""
        self._difference = ""

    def step(self) -> None:
        """Begin to ask, and to make what has changed, if it is time."""
        if self.is_busy or self._clock.steady() < self._ask_at:
            return
        self.is_busy = True
        self._run(self._work)

    def _work(self) -> None:
        try:
            self._ask_at = self._clock.steady() + (_ASK_SECONDS if self.exchange() else _IDLE_SECONDS)
            self._note("")
        except ClientError as error:
            self._ask_at = self._clock.steady() + (_IDLE_SECONDS if is_older(error) else _ASK_SECONDS)
            if not is_older(error):
                self._note(f"namespaces cannot be exchanged with the admin: {describe(error)}")
        except ApiUnavailable as error:
            self._ask_at = self._clock.steady() + self._retry_seconds
            self._make_at = 0.0
            self._retry_seconds = min(2 * self._retry_seconds, _IDLE_SECONDS)
            self._note(f"namespaces cannot be made: {error}")
        except Exception:  # the agent's other work goes on
            self._ask_at = self._clock.steady() + _IDLE_SECONDS
            log.exception("namespaces cannot be made")
        finally:
            self.is_busy = False

    def _note(self, problem: str) -> None:
        """Log a problem once, and that it is over."""
        if problem and problem != self._problem:
            log.warning(problem)
        elif not problem and self._problem:
            log.info("namespaces are made again")
        self._problem = problem

    def exchange(self) -> bool:
        """Ask the admin, and make what has changed or is due; False where this cluster makes no namespaces."""
        answer = self._ask({"digest": self._digest})
        if not answer["enabled"]:
            # The admin forgets what it was told; should it ask again, it is told everything.
            self._digest, self._known, self._reported, self._unreported = "", {}, {}, {}
            return False
        self._send_reports()
        is_changed = answer["digest"] != self._digest
        if is_changed:
            answer = self._fetch()
        if is_changed or self._clock.steady() >= self._make_at:
            self._make(answer)
        return True

    def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._client.post(self._path, body, seconds=_ANSWER_SECONDS)

    def _fetch(self) -> dict[str, Any]:
        """Get the namespaces that differ, page by page."""
        while True:
            known = {name: namespace.digest for name, namespace in self._known.items()}
            answer = self._ask({"digest": self._digest, "known": known})
            for entry in answer["namespaces"]:
                self._known[entry["namespace"]] = Namespace(
                    name=entry["namespace"],
                    project=entry["project"],
                    domain=entry["domain"],
                    digest=entry["digest"],
                    objects=tuple(entry["objects"]),
                    made=frozenset(entry.get("made", ())),
                )
            for name in answer["gone"]:
                self._known.pop(name, None)
            self._kept = frozenset(answer["kept"])
            if not answer["more"]:
                self._digest = answer["digest"]
                self._note_difference()
                return answer

    def _note_difference(self) -> None:
        """Log that jobs would go elsewhere than to the namespaces that are made, once."""
        difference = other_namespace(self._known.values(), self._namespace_of) if self._namespace_of else ""
        if difference and difference != self._difference:
            log.warning(difference)
        self._difference = difference

    def _make(self, answer: dict[str, Any]) -> None:
        orders = Orders(
            installation=answer["installation"],
            namespaces={name: entry for name, entry in self._known.items() if name not in self._kept},
            kept=self._kept,
            may_prune=answer["may_prune"],
            prunes_namespaces=answer["prune_namespaces"],
        )
        if self._clock.steady() >= self._report_all_at:
            self._reported = {}
            self._report_all_at = self._clock.steady() + _REPORT_SECONDS
        self._send_at = self._clock.steady() + _TELL_SECONDS
        try:
            reports = self._maker.make(orders, self._note_report)
        finally:
            self._send_reports()
        if any(report.has_failed for report in reports):
            pause = min(self._retry_seconds, answer["refresh_seconds"])
            self._retry_seconds *= 2
        else:
            pause, self._retry_seconds = answer["refresh_seconds"], _RETRY_SECONDS
        self._make_at = self._clock.steady() + pause
        names = {report.namespace for report in reports}
        self._reported = {name: report for name, report in self._reported.items() if name in names}

    def _note_report(self, report: Report) -> None:
        """Tell the admin what is other than it was told last, now and then while others are still made."""
        if not (report.project and report.domain):
            return
        document = report.document()
        if self._reported.get(report.namespace) != document:
            self._unreported[report.namespace] = document
        if self._clock.steady() >= self._send_at or len(self._unreported) >= _BATCH:
            with contextlib.suppress(ClientError):  # it is told at the end
                self._send_reports()
            self._send_at = self._clock.steady() + _TELL_SECONDS

    def _send_reports(self) -> None:
        """Send what the admin was not told yet, some of it at a time; what does not arrive is sent later."""
        while self._unreported:
            batch = first_reports(self._unreported)
            self._ask({"digest": self._digest, "reports": list(batch.values())})
            self._reported |= batch
            self._unreported = {name: report for name, report in self._unreported.items() if name not in batch}


def other_namespace(namespaces: Iterable[Namespace], namespace_of: NamespaceOf) -> str:
    """That the jobs of a project would be created in another namespace than in the one that is made for it."""
    for entry in namespaces:
        try:
            name = namespace_of(entry.project, entry.domain)
        except ValueError:
            name = "none that Kubernetes takes"
        if name != entry.name:
            return (
                f"the admin makes the namespace {entry.name} for {entry.project}/{entry.domain}, and "
                f"engineOptions.namespace names {name} for its jobs: set it to the admin's namespace_mapping.template"
            )
    return ""


def first_reports(reports: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The first of some reports, by namespace, as many as one request may have; at least one."""
    first: dict[str, dict[str, Any]] = {}
    size = 0
    for name, report in reports.items():
        size += len(json.dumps(report))
        if first and (size > _BATCH_BYTES or len(first) == _BATCH):
            break
        first[name] = report
    return first
