"""The calls about the fleet where the admin is older than the client."""

from __future__ import annotations

from typing import Any

import pytest

from ctl.client import Client, Transport
from ctl.client.errors import NotFound


class OlderAdmin(Transport):
    """Switches one cluster at a time, of those that it has, and knows no newer path."""

    url = "http://admin"

    def __init__(self, *clusters: str) -> None:
        self.clusters = clusters
        self.calls: list[tuple[str, bool]] = []

    def call(self, method: str, path: str, **call: Any) -> Any:
        dry_run = (call.get("query") or {}).get("dry_run") == "true"
        self.calls.append((path, dry_run))
        words = path.split("/")
        if path == "attribute_changes" and dry_run:
            definitions = [change["pool_definition"] for change in call["body"]["changes"]]
            rows = [
                {"resource_type": "POOL", "name": row["name"], "before": {"strategy": "spill"}} for row in definitions
            ]
            return {"rows": rows, "changes": []}
        if words[0] != "clusters":
            raise NotFound("No such path.", name="path_not_found", status=404)
        if words[1] not in self.clusters:
            raise NotFound(f"No cluster is called '{words[1]}'.", name="cluster_not_found", status=404)
        return {"cluster": {"name": words[1]}, "changed": words[1] == "a", "dry_run": dry_run}

    def close(self) -> None:
        pass


def test_an_older_admin_switches_several_clusters_one_after_the_other() -> None:
    admin = OlderAdmin("a", "b")
    answer = Client.from_transport(admin).switch_clusters(["a", "b"], "cordon", reason="new disks")
    assert [entry["cluster"]["name"] for entry in answer["clusters"]] == ["a", "b"]
    assert (answer["changed"], answer["dry_run"]) == (True, False)
    assert answer["notes"] == ["The admin at http://admin is older: the clusters were switched one after the other."]
    assert [path for path, dry_run in admin.calls if not dry_run] == [
        "cluster_switches",
        "clusters/a/cordon",
        "clusters/b/cordon",
    ]


def test_an_older_admin_switches_no_cluster_if_one_is_unknown() -> None:
    admin = OlderAdmin("a")
    with pytest.raises(NotFound, match="No cluster is called 'b'"):
        Client.from_transport(admin).switch_clusters(["a", "b"], "cordon")
    assert [path for path, dry_run in admin.calls if not dry_run] == ["cluster_switches"]


def test_what_an_older_admin_cannot_tell_says_that_it_is_older() -> None:
    client = Client.from_transport(OlderAdmin("a", "b"))
    with pytest.raises(NotFound) as refusal:
        client.switch_clusters(["a", "b"], "cordon", dry_run=True)
    assert "older than this rainbowctl" in refusal.value.message
    with pytest.raises(NotFound) as refusal:
        list(client.definitions_at("pool", 4))
    assert "older than this rainbowctl" in refusal.value.message


def test_an_older_admin_tells_stored_definitions_by_a_dry_run() -> None:
    admin = OlderAdmin()
    [row] = Client.from_transport(admin).stored_definitions("pool", [{"name": "gpu", "members": []}])
    assert (row.name, row.before) == ("gpu", {"strategy": "spill"})
    assert admin.calls == [("definitions", False), ("attribute_changes", True)]
