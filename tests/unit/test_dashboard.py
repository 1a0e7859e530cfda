"""The Grafana dashboard asks for metrics and labels that the admin has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from admin import metrics

FILE = Path(__file__).parents[2] / "config/grafana-dashboard.json"
#: What a histogram is made of, and the label that tells its buckets apart.
PARTS = ("_bucket", "_sum", "_count")

DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def known_metrics() -> dict[str, set[str]]:
    """Every metric by the name under which it is scraped, with its labels."""
    state = metrics.State(
        warnings={"unknown_label": 1},
        revision=1,
        executions=[("QUEUED", "ASSIGNED", "development", "east", "gpu", "", 1)],
        quotas=[(["", "development", "", "", "cpu"], 1.5, 4.0)],
        clusters={"east": True},
        sync_ages={"east": 1.5},
        capacities={"east": {"cpu": 8}},
        free={"east": {"cpu": 6}},
        token_pools={"hive": metrics.PoolCounts(10, 4, 1)},
    )
    labels_by_name: dict[str, set[str]] = {}
    for family in metrics.StateCollector(lambda: state).collect():
        for sample in family.samples:
            labels_by_name[sample.name] = set(sample.labels)
    for counted in vars(metrics).values():
        labels = getattr(counted, "_labelnames", None)
        if labels is None:
            continue
        for family in counted.describe():
            is_histogram = family.type == "histogram"
            for suffix in PARTS if is_histogram else ("_total",):
                labels_by_name[f"{family.name}{suffix}"] = {*labels, *(["le"] if suffix == "_bucket" else [])}
    return labels_by_name


def expressions() -> Iterator[tuple[str, str]]:
    """Every question to Prometheus, with where it stands."""
    for panel in PANELS:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def test_the_known_metrics_are_those_of_the_registry() -> None:
    registered = {family.name for family in REGISTRY.collect() if family.name.startswith("rainbow_")}
    names = {re.sub(r"_(bucket|sum|count|total)$", "", name) for name in known_metrics()}
    assert registered <= names


@pytest.mark.parametrize(("place", "expression"), list(expressions()))
def test_it_asks_only_for_metrics_and_labels_that_exist(place: str, expression: str) -> None:
    metrics = known_metrics()
    names = re.findall(r"rainbow_[a-z_]+", expression)
    assert names
    for name in names:
        assert name in metrics, f"{place}: the admin has no metric {name}"
    labels = set().union(*(metrics[name] for name in names))
    used = {
        *re.findall(r"([a-z_]+)=~?\"", expression),
        *(label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", group)),
        *re.findall(r"label_values\([a-z_]+, ([a-z_]+)\)", expression),
    }
    assert used <= labels, f"{place}: {names} has no label {sorted(used - labels)}"


def test_legends_use_labels_that_the_question_keeps() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            kept = {
                label for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in re.split(r",\s*", group)
            }
            shown = set(re.findall(r"{{\s*([a-z_]+)\s*}}", target["legendFormat"]))
            assert shown <= kept, panel["title"]


def test_it_is_a_dashboard_for_any_data_source() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert DASHBOARD["schemaVersion"] >= 39
    assert DASHBOARD["templating"]["list"][0]["type"] == "datasource"
    sources = [panel["datasource"] for panel in PANELS]
    sources += [target["datasource"] for panel in PANELS for target in panel["targets"]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    refs = [[target["refId"] for target in panel["targets"]] for panel in PANELS]
    assert all(len(set(ids)) == len(ids) for ids in refs)


def test_panels_do_not_lie_on_each_other() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_the_questions_of_operators_have_a_panel() -> None:
    titles = {panel["title"] for panel in PANELS}
    assert {
        *(f"Placements by {what}" for what in ("cluster", "pool", "label", "domain", "reason")),
        "Waiting executions by reason",
        "Creation latency",
        "Queue time",
        "Cluster able",
        "Time since the last sync",
        "Finished by phase",
    } <= titles
