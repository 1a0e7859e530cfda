"""What is said of objects that change while they are made, beside an API server in memory.

What needs a real one is in tests/kubernetes/test_cluster_resources.py.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.cluster_resources.maker import NamespaceMaker
from agent.cluster_resources.orders import Namespace, Orders
from agent.cluster_resources.reports import Report
from agent.engines.resource_api import ApiRefusal, Document

_CORE = {"Namespace": ("namespaces", False), "ResourceQuota": ("resourcequotas", True)}


class ServerInMemory:
    """Keeps objects by their paths, with a version for each change; what it deletes it holds until it is let go."""

    def __init__(self) -> None:
        self.kinds = _CORE  #: the plural of each, and whether it is in a namespace
        self.objects: dict[str, Document] = {}
        self.applied: list[str] = []
        self._version = 0

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        if path == "/apis":
            return {"groups": []}
        if path == "/api/v1":
            verbs = ["list", "patch", "delete"]
            kinds = [(kind, *rest) for kind, rest in self.kinds.items()]
            return {
                "resources": [
                    {"name": plural, "kind": kind, "namespaced": namespaced, "verbs": verbs}
                    for kind, plural, namespaced in kinds
                ]
            }
        if path in self.objects:
            return copy.deepcopy(self.objects[path])
        plural = path.rpartition("/")[2]
        if plural not in [plural for plural, _ in self.kinds.values()]:
            raise ApiRefusal(404, f"{path} not found")
        label, _, wanted = (query or {})["labelSelector"].partition("=")
        found = [
            copy.deepcopy(item)
            for where, item in self.objects.items()
            if where.split("/")[-2] == plural and item["metadata"]["labels"].get(label) == wanted
        ]
        for item in found:  # objects in lists do not say their kind
            del item["kind"], item["apiVersion"]
        return {"items": found}

    def apply(self, path: str, document: Document) -> Document:
        self.applied.append(path)
        self.change(path, **document)
        return self.get(path)

    def delete(self, path: str) -> None:
        if "deletionTimestamp" in self.objects[path]["metadata"]:
            raise ApiRefusal(409, "it is being deleted already")
        metadata = {**self.objects[path]["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        self.change(path, metadata=metadata)

    def change(self, path: str, **fields: Any) -> None:
        """Change an object as anybody may, which makes a new version of it if it differs."""
        before = self.objects.get(path, {"metadata": {}})
        metadata = {**before["metadata"], **fields.pop("metadata", {})}
        after = copy.deepcopy({**before, **fields, "metadata": metadata})
        if after != before:
            self._version += 1
            after["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = after


QUOTA = "/api/v1/namespaces/team-dev/resourcequotas/quota"
HOME = "/api/v1/namespaces/team-dev"


def orders(**more: Any) -> Orders:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quota"},
        "spec": {"hard": {"pods": "9"}},
    }
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-dev"}}
    made = Namespace(name="team-dev", project="team", domain="dev", digest="d", objects=(quota, home))
    return Orders(installation="i", namespaces={"team-dev": made}, may_prune=True, **more)


def states(report: Report) -> dict[str, str]:
    return {entry["object"]: entry["state"] for entry in report.objects}


APPLIED = {"Namespace/team-dev": "applied", "ResourceQuota/quota": "applied"}


def test_what_a_quota_is_used_for_is_no_change_of_it() -> None:
    server = ServerInMemory()
    maker = NamespaceMaker(server)
    (report,) = maker.make(orders())
    assert states(report) == APPLIED
    server.applied.clear()
    server.change(QUOTA, status={"used": {"pods": "3"}})
    (report,) = maker.make(orders())
    assert (states(report), server.applied) == (APPLIED, [])
    server.change(QUOTA, spec={"hard": {"pods": "99"}})
    (report,) = maker.make(orders())
    assert states(report)["ResourceQuota/quota"] == "repaired"
    assert server.objects[QUOTA]["spec"] == {"hard": {"pods": "9"}}
    assert server.applied == [QUOTA]


def test_a_pod_that_starts_while_a_quota_is_applied_makes_it_no_repair() -> None:
    server = ServerInMemory()
    NamespaceMaker(server).make(orders())

    class Busy(ServerInMemory):
        def apply(self, path: str, document: Document) -> Document:
            if path == QUOTA:
                self.change(QUOTA, status={"used": {"pods": "4"}})
            return super().apply(path, document)

    busy = Busy()
    busy.objects = server.objects
    (report,) = NamespaceMaker(busy).make(orders())  # of an agent that was started since, which applies everything
    assert busy.applied == [HOME, QUOTA]
    assert states(report) == APPLIED


def test_a_namespace_that_goes_is_waited_for_and_made_again() -> None:
    server = ServerInMemory()
    maker = NamespaceMaker(server)
    maker.make(orders())
    server.delete(HOME)
    for repairer in (maker, maker, NamespaceMaker(server)):
        (report,) = repairer.make(orders())
        assert states(report) == {"Namespace/team-dev": "failed"}
        assert "is made again when it is gone" in report.objects[0]["message"]
        assert not report.exists
        assert report.has_failed  # so that it is tried again soon
    server.objects.clear()
    (report,) = maker.make(orders())
    assert set(states(report).values()) == {"repaired"}
    assert report.exists


def test_an_object_in_no_namespace_is_of_the_one_that_is_in_its_name() -> None:
    server = ServerInMemory()
    server.kinds = {**_CORE, "Issuer": ("issuers", False)}
    made = orders().namespaces["team-dev"]
    issuers = tuple(
        {"apiVersion": "v1", "kind": "Issuer", "metadata": {"name": name}} for name in ("all", "of-team-dev")
    )
    both = {"team-dev": replace(made, objects=(*made.objects, *issuers))}
    (report,) = NamespaceMaker(server).make(replace(orders(), namespaces=both))
    assert states(report) == {**APPLIED, "Issuer/all": "failed", "Issuer/of-team-dev": "applied"}
    assert "write {{ namespace }} in its name" in str(report.objects)
    assert "/api/v1/issuers/all" not in server.objects


def test_there_is_no_namespace_that_is_deleted_between_its_listing_and_its_making() -> None:
    class Racing(ServerInMemory):
        def apply(self, path: str, document: Document) -> Document:
            if path == HOME and HOME in self.objects:
                self.delete(HOME)
            return super().apply(path, document)

    server = Racing()
    NamespaceMaker(server).make(orders())
    (report,) = NamespaceMaker(server).make(orders())
    assert states(report) == {"Namespace/team-dev": "failed"}
    assert not report.exists


class ServerOfScalers(ServerInMemory):
    """Has a kind in two versions, as which it gives the same object with different fields."""

    _ROOTS = ("/apis/autoscaling/v1", "/apis/autoscaling/v2")

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        if path in self._ROOTS:
            resource = {"name": "scalers", "kind": "Scaler", "namespaced": True, "verbs": ["list", "patch", "delete"]}
            return {"resources": [resource]}
        root = next((root for root in self._ROOTS if path.startswith(root)), None)
        if root is None:
            return super().get(path, query)
        if path == f"{root}/scalers":
            return {"items": [self._shown(root, item) for where, item in self.objects.items() if "/scalers/" in where]}
        if self._stored(path) not in self.objects:
            raise ApiRefusal(404, f"{path} not found")
        return self._shown(root, self.objects[self._stored(path)])

    def apply(self, path: str, document: Document) -> Document:
        self.applied.append(path)
        kept = {name: value for name, value in document.items() if name != "apiVersion"}
        self.change(self._stored(path), **(kept if "/scalers/" in path else document))
        return self.get(path)

    def _stored(self, path: str) -> str:
        return path.replace("/v1/", "/v2/") if path.startswith(self._ROOTS) else path

    def _shown(self, root: str, item: Document) -> Document:
        field = f"most_{root[-2:]}"
        (most,) = item["spec"].values()
        return {**copy.deepcopy(item), "spec": {field: most}}


def test_a_kind_that_templates_use_in_two_versions_is_compared_in_that_of_the_template() -> None:
    server = ServerOfScalers()
    maker = NamespaceMaker(server)
    scalers = tuple(
        {
            "apiVersion": f"autoscaling/{version}",
            "kind": "Scaler",
            "metadata": {"name": version},
            "spec": {f"most_{version}": 9},
        }
        for version in ("v1", "v2")
    )
    wanted = orders()
    home = replace(wanted.namespaces["team-dev"], objects=(*wanted.namespaces["team-dev"].objects, *scalers))
    wanted = replace(wanted, namespaces={"team-dev": home})
    path = "/apis/autoscaling/v2/namespaces/team-dev/scalers/v2"

    def make(maker: NamespaceMaker) -> tuple[set[str], list[str]]:
        server.applied.clear()
        (report,) = maker.make(wanted)
        return {name for name, state in states(report).items() if state != "applied"}, list(server.applied)

    assert make(maker)[0] == set()
    assert make(maker) == (set(), [])
    server.change(path, status={"now": 3})
    assert make(maker) == (set(), [])
    server.change(path, spec={"most_v2": 99})
    assert make(maker) == ({"Scaler.autoscaling/v2"}, [path])
    assert server.objects[path]["spec"] == {"most_v2": 9}
    assert make(maker) == (set(), [])
    assert make(NamespaceMaker(server))[0] == set()  # one that was started since applies everything, and repairs none


def test_what_is_pruned_stays_so_until_it_is_gone() -> None:
    server = ServerInMemory()
    maker = NamespaceMaker(server)
    maker.make(orders())
    gone = Orders(installation="i", namespaces={}, may_prune=True, prunes_namespaces=True)
    for _ in range(2):
        (report,) = maker.make(gone)
        assert states(report) == {"Namespace/team-dev": "pruned", "ResourceQuota/quota": "pruned"}
