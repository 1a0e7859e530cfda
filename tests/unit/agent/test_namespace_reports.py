from __future__ import annotations

import json
from typing import Any

from agent.cluster_resources.keeper import first_reports, other_namespace
from agent.cluster_resources.orders import Namespace
from agent.cluster_resources.reports import Report
from agent.engines.kubernetes.names import namespace_of

MOST_BYTES = 1024 * 1024  #: server.maxBodyBytes by default


def failing(namespace: str, objects: int, words: str) -> Report:
    report = Report(namespace=namespace, project="flyteexamples", domain="development")
    for number in range(objects):
        report.add(f"ConfigMap/object-{number}", "failed", words)
    return report


def test_reports_of_many_failing_objects_fit_into_requests() -> None:
    unreported = {
        f"team-{number}": failing(f"team-{number}", 20, "forbidden " * 40).document() for number in range(400)
    }
    wanted = dict(unreported)
    sent: dict[str, Any] = {}
    while unreported:
        batch = first_reports(unreported)
        assert batch
        assert len(json.dumps(list(batch.values()))) < MOST_BYTES / 2
        sent |= batch
        unreported = {name: report for name, report in unreported.items() if name not in batch}
    assert sent == wanted


def test_many_small_reports_are_sent_some_at_a_time() -> None:
    reports: dict[str, Any] = {f"team-{number}": {"namespace": f"team-{number}"} for number in range(201)}
    assert list(first_reports(reports)) == [f"team-{number}" for number in range(200)]


def test_one_report_of_a_thousand_long_messages_fits_into_a_request() -> None:
    document = failing("team", 1000, "x" * 5000).document()
    assert len(json.dumps(document)) < MOST_BYTES / 2
    assert first_reports({"team": document}) == {"team": document}
    assert failing("team", 1, "x" * 5000).document()["objects"][0]["message"] == "x" * 4000


def test_jobs_that_would_go_to_another_namespace_than_is_made_are_told() -> None:
    made = Namespace(name="team-a-dev", project="a", domain="dev", digest="", objects=())

    def told(pattern: str) -> str:
        return other_namespace([made], lambda project, domain: namespace_of(pattern, project, domain))

    assert told("team-{{ project }}-{{ domain }}") == ""
    assert told("{{ project }}-{{ domain }}") == (
        "the admin makes the namespace team-a-dev for a/dev, and engineOptions.namespace names a-dev for its jobs: set "
        "it to the admin's namespace_mapping.template"
    )
    assert "names none that Kubernetes takes" in told("-{{ project }}")
