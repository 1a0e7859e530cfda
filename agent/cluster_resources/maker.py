"""Makes namespaces: applies what is rendered, repairs what others change, prunes what is no longer rendered."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from agent.cluster_resources.kinds import Kind, Kinds
from agent.cluster_resources.orders import Namespace, Orders
from agent.cluster_resources.reports import Report
from agent.engines.resource_api import ApiRefusal, ApiUnavailable, Document, KubernetesApi

#: Labels of every object that is made: whose it is, and of which project and domain.
INSTALLATION, PROJECT, DOMAIN = "rainbow/installation", "rainbow/project", "rainbow/domain"
#: The annotation by which an object that others have changed is told from one that is rendered otherwise now.
DIGEST = "rainbow/digest"
#: Kinds that hold what cannot be made again; they are deleted only where that is configured.
_PRECIOUS = frozenset({"Namespace", "PersistentVolumeClaim", "Secret"})
#: After how many calls in a row that the API server does not answer a round ends.
_MOST_UNANSWERED = 3
#: What the API server notes of an object, whoever changes whatever of it.
_KEPT_BY_SERVER = frozenset({"managedFields", "resourceVersion", "generation"})
#: Kinds that are never looked through: there are many of them, and templates make none.
_NOT_LISTED = frozenset({"Pod", "Event", "Endpoints", "Node", "PodTemplate", "ReplicationController"})

#: An object of ours on the cluster, by its group, kind, namespace and name.
Key = tuple[str, str, str, str]
#: Objects of ours on the cluster, each with the kind by which it was listed.
Live = dict[Key, tuple[Kind, Document]]


class NamespaceMaker:
    """Makes the namespaces of one cluster."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._kinds = Kinds(api)
        self._applied: dict[Key, Document] = {}  #: what was applied
        #: The resourceVersions of objects when they had been applied, and the digests of what they held.
        self._applied_as: dict[Key, tuple[str, str]] = {}
        self._is_surveyed = False  #: whether all kinds of the cluster were looked through
        self._ours: set[tuple[str, str]] = set()  #: groups and kinds of which there are, or were, objects of ours
        self._unanswered = 0  #: calls in a row that the API server did not answer

    def make(self, orders: Orders, tell: Callable[[Report], None] = lambda report: None) -> list[Report]:
        """Bring the cluster to what is ordered, and say what became of each namespace, as soon as it is made.

        ApiUnavailable where the API server does not answer; what was done until then stays.
        """
        self._unanswered = 0
        live = self._list_ours(orders)
        names = _namespaces_of(orders, live)
        surplus: dict[str, list[Key]] = {}
        for key, (_, item) in live.items():
            surplus.setdefault(_namespace_of(key, item, names), []).append(key)
        reports: list[Report] = []
        # Executions may wait for those that are not there yet.
        for namespace in sorted(orders.namespaces.values(), key=lambda entry: _namespace_key(entry.name) in live):
            report = self._make_namespace(orders, namespace, live)
            self._settle(orders, report, live, surplus.pop(namespace.name, ()))
            reports.append(report)
            tell(report)
        for name, keys in surplus.items():
            left = [key for key in keys if key in live]
            if left and name not in orders.kept:
                labels = live[left[0]][1]["metadata"].get("labels", {})
                project, domain = labels.get(PROJECT, ""), labels.get(DOMAIN, "")
                report = Report(namespace=name, project=project, domain=domain, exists=True)
                self._settle(orders, report, live, left)
                reports.append(report)
                tell(report)
        return reports

    def _list_ours(self, orders: Orders) -> Live:
        """Every object that has the label of this admin: one call for each kind of which there are any.

        All kinds of the cluster are looked through once: a template that is gone by now may have made any of them.
        """
        versions = {document["apiVersion"] for entry in orders.namespaces.values() for document in entry.objects}
        self._kinds.learn("v1")
        is_complete = self._learn(sorted(versions))
        if not self._is_surveyed:
            is_complete = self._learn(self._kinds.preferred_versions()) and is_complete
        rendered = {
            (_group(document["apiVersion"]), document["kind"])
            for entry in orders.namespaces.values()
            for document in entry.objects
        }
        ours: Live = {}
        for kind in self._kinds.known(first=versions):
            name = (kind.group, kind.name)
            if kind.name in _NOT_LISTED or (self._is_surveyed and name not in rendered | self._ours):
                continue
            try:
                listed = self._api.get(kind.list_path, {"labelSelector": f"{INSTALLATION}={orders.installation}"})
            except ApiRefusal:
                continue  # the agent may not list what no template makes; what one makes is said when it is applied
            except ApiUnavailable:
                # Of one kind it may be, which a server of its own has; that all are silent is found out soon.
                is_complete = False
                self._note_silence()
                continue
            self._unanswered = 0
            for item in listed.get("items", []):
                self._ours.add(name)
                ours[_key(kind, item)] = kind, item
        self._is_surveyed = self._is_surveyed or is_complete
        return ours

    def _learn(self, versions: Iterable[str]) -> bool:
        """Ask for the kinds of some versions; False where the server of one, which may be its own, does not answer."""
        is_complete = True
        for version in versions:
            try:
                self._kinds.learn(version)
                self._unanswered = 0
            except ApiUnavailable:
                is_complete = False
                self._note_silence()
        return is_complete

    def _note_silence(self) -> None:
        """Count a call that was not answered; called where that is raised, which goes on after several in a row."""
        self._unanswered += 1
        if self._unanswered >= _MOST_UNANSWERED:
            raise

    def _make_namespace(self, orders: Orders, namespace: Namespace, live: Live) -> Report:
        report = Report(
            namespace=namespace.name, project=namespace.project, domain=namespace.domain, digest=namespace.digest
        )
        # The namespace itself comes first, since nothing can be made in one that is not there or not ours.
        objects = sorted(namespace.objects, key=lambda document: document["kind"] != "Namespace")
        _, there = live.get(_namespace_key(namespace.name), (None, None))
        for document in objects:
            applied = self._make_object(orders, namespace, document, live, report)
            if document["kind"] == "Namespace" and report.objects[-1]["state"] in ("failed", "not ours"):
                # Executions can run in one that was made before, unless it is about to go.
                report.exists = there is not None and not _is_ending(applied or there)
                # What else is of it is rendered all the same, and is not to be pruned as what nothing renders.
                for key in [key for key, (_, item) in live.items() if _is_of(item, namespace)]:
                    del live[key]
                return report
        if objects and objects[0]["kind"] == "Namespace":
            report.exists = True
        else:
            report.exists = self._is_there(namespace.name)
        return report

    def _make_object(
        self, orders: Orders, namespace: Namespace, document: Document, live: Live, report: Report
    ) -> Document | None:
        """Make an object and report it; what the API server answered if it was applied now."""
        name = document["metadata"]["name"]
        identity = f"{document['kind']}/{name}"
        try:
            kind = self._kinds.find(document["apiVersion"], document["kind"])
            identity = kind.identity(name)
            wanted = _labelled(document, kind, namespace, orders.installation)
            key, path = _key(kind, wanted), kind.path(namespace.name, name)
            listed_by, item = live.pop(key, (kind, None))
            if not kind.is_namespaced and namespace.name not in name:
                # Of two namespaces with the same object each would take it from the other, again and again.
                raise ApiRefusal(400, f"a {kind.name} is in no namespace: write {{{{ namespace }}}} in its name.")
            was_made = key in self._applied or identity in namespace.made
            if item is not None and listed_by != kind and not self._is_unchanged(key, wanted, item):
                item = self._read(path)  # what another version of the kind has of it cannot be compared
            if item is not None and self._is_unchanged(key, wanted, item):
                report.add(identity, "applied")
                return None
            is_default_account = (document["kind"], name) == ("ServiceAccount", "default")
            if item is None and not is_default_account:
                # It may be ours all the same: the agent may not list its kind, or it was made since.
                item = self._read(path)
                if item is not None and (item["metadata"].get("labels") or {}).get(INSTALLATION) != orders.installation:
                    report.add(identity, "not ours", _hand_over(kind, namespace.name, name, orders.installation))
                    return None
            was_applied = item is not None and _digest_of(item) == _digest_of(wanted)
            try:
                applied = self._api.apply(path, wanted)
            except ApiRefusal as error:
                report.add(identity, "drifted" if was_applied else "failed", str(error))
                return None
        except ApiRefusal as error:
            report.add(identity, "failed", str(error))
            return None
        except ApiUnavailable as error:
            report.add(identity, "failed", str(error))  # and the others are tried all the same
            self._note_silence()
            return None
        self._unanswered = 0
        self._ours.add((kind.group, kind.name))
        if _is_ending(applied):
            self._applied_as.pop(key, None)
            report.add(identity, "failed", "it is being deleted, and is made again when it is gone.")
            return applied
        digest = _content_digest(applied)
        self._applied[key], self._applied_as[key] = wanted, (_resource_version(applied), digest)
        if was_applied and item is not None and digest != _content_digest(item):
            report.add(identity, "repaired", f"others had changed it: {_managers(item)}")
        elif was_made and item is None:
            report.add(identity, "repaired", "it had been deleted.")
        else:
            report.add(identity, "applied")
        return applied

    def _is_unchanged(self, key: Key, wanted: Document, item: Document) -> bool:
        """Whether nobody has changed an object since it was applied like this."""
        if self._applied.get(key) != wanted or key not in self._applied_as:
            return False
        version, digest = self._applied_as[key]
        return _resource_version(item) == version or _content_digest(item) == digest

    def _is_there(self, namespace: str) -> bool:
        try:
            found = self._read(f"/api/v1/namespaces/{namespace}")
        except ApiRefusal:
            return False  # the agent may not see it
        return found is not None and not _is_ending(found)

    def _read(self, path: str) -> Document | None:
        """An object; None where there is none."""
        try:
            return self._api.get(path)
        except ApiRefusal as error:
            if error.status == 404:
                return None
            raise

    def _settle(self, orders: Orders, report: Report, live: Live, keys: Iterable[Key]) -> None:
        """Delete the objects of a namespace that nothing renders any more, or report that they are left."""
        for key in keys:
            if key in live:
                self._settle_surplus(orders, key, *live.pop(key), report)

    def _settle_surplus(self, orders: Orders, key: Key, kind: Kind, item: Document, report: Report) -> None:
        _, kind_name, inside, name = key
        identity, is_gone = kind.identity(name), report.namespace not in orders.namespaces
        if not orders.may_prune:
            report.add(identity, "orphaned", "no template makes it; nothing is deleted while any template fails.")
            return
        # What a namespace holds that is gone as a whole goes with it.
        if (kind_name in _PRECIOUS or is_gone) and not orders.prunes_namespaces:
            report.add(
                identity, "orphaned", "no template makes it; cluster_resources.pruneNamespaces lets it be deleted."
            )
            return
        try:
            if _is_ending(item):
                pass  # and takes what it holds with it
            elif (kind_name, name) == ("ServiceAccount", "default"):
                bare = {
                    "apiVersion": kind.api_version,
                    "kind": kind_name,
                    "metadata": {"name": name, "namespace": inside},
                }
                self._api.apply(kind.path(inside, name), bare)  # gives up the fields that were ours, and the label
            else:
                self._api.delete(kind.path(inside, name))
        except ApiRefusal as error:
            if error.status != 404:
                report.add(identity, "failed", str(error))
                return
        except ApiUnavailable as error:
            report.add(identity, "failed", str(error))
            self._note_silence()
            return
        self._unanswered = 0
        report.add(identity, "pruned", "no template makes it any more.")
        self._applied.pop(key, None)
        self._applied_as.pop(key, None)


def _key(kind: Kind, document: Document) -> Key:
    metadata = document["metadata"]
    inside = metadata.get("namespace", "") if kind.is_namespaced else ""
    return kind.group, kind.name, inside, metadata["name"]


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _namespace_key(name: str) -> Key:
    return "", "Namespace", "", name


def _namespaces_of(orders: Orders, live: Live) -> dict[tuple[str, str], str]:
    """The namespaces of projects and domains, of those that are gone as they are on the cluster."""
    names = {_scope(item): key[3] for key, (_, item) in live.items() if key == _namespace_key(key[3])}
    return names | {(entry.project, entry.domain): entry.name for entry in orders.namespaces.values()}


def _namespace_of(key: Key, item: Document, names: Mapping[tuple[str, str], str]) -> str:
    """The namespace that an object is in, or was made for; one that is in none says so by its labels."""
    _, _, inside, name = key
    if key == _namespace_key(name):
        return name
    return inside or names.get(_scope(item), name)


def _scope(item: Document) -> tuple[str, str]:
    labels = item["metadata"].get("labels") or {}
    return labels.get(PROJECT, ""), labels.get(DOMAIN, "")


def _labelled(document: Document, kind: Kind, namespace: Namespace, installation: str) -> Document:
    """An object with the labels that say whose it is; a template cannot set them."""
    wanted = copy.deepcopy(document)
    metadata = wanted["metadata"]
    metadata.pop("namespace", None)
    if kind.is_namespaced:
        metadata["namespace"] = namespace.name
    own = {INSTALLATION: installation, PROJECT: namespace.project, DOMAIN: namespace.domain}
    metadata["labels"] = {**(metadata.get("labels") or {}), **own}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), DIGEST: _digest(wanted)}
    return wanted


def _is_of(item: Document, namespace: Namespace) -> bool:
    """Whether an object of ours was made for the project and domain of a namespace."""
    return _scope(item) == (namespace.project, namespace.domain)


def _digest_of(item: Document) -> str:
    return str((item["metadata"].get("annotations") or {}).get(DIGEST, ""))


def _resource_version(item: Document) -> str:
    """Changes with every change of an object, also of its status; the same in all versions of its kind."""
    return str(item["metadata"]["resourceVersion"])


def _content_digest(item: Document) -> str:
    """Changes with what somebody sets of an object; not with its status, which for a quota is that of every pod."""
    metadata = {name: value for name, value in item["metadata"].items() if name not in _KEPT_BY_SERVER}
    # Objects in lists do not say their kind.
    kept = {name: value for name, value in item.items() if name not in ("status", "kind", "apiVersion")}
    content = {**kept, "metadata": metadata}
    return _digest(content)


def _digest(document: Document) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]


def _is_ending(item: Document) -> bool:
    """Whether an object is being deleted, and only waits for what it holds."""
    return "deletionTimestamp" in item["metadata"]


def _hand_over(kind: Kind, namespace: str, name: str, installation: str) -> str:
    inside = f" -n {namespace}" if kind.is_namespaced else ""
    command = f"kubectl label {kind.plural} {name}{inside} {INSTALLATION}={installation}"
    return f"it exists without the label of this admin and is not touched: `{command}` hands it over."


def _managers(item: Document) -> str:
    """Who has changed an object besides the agent, as the API server notes it."""
    return ", ".join(dict.fromkeys(_foreign(item["metadata"].get("managedFields", [])))) or "unknown"


def _foreign(entries: list[Document]) -> Iterator[str]:
    for entry in sorted(entries, key=lambda entry: str(entry.get("time", "")), reverse=True):
        if entry.get("manager") not in (None, "rainbow") and entry.get("subresource") != "status":
            yield str(entry["manager"])
