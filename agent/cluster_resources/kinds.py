"""Kinds: what an API server knows of, and where its objects are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from agent.engines.resource_api import ApiRefusal, KubernetesApi


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of objects."""

    api_version: str
    name: str
    plural: str
    is_namespaced: bool

    @property
    def _root(self) -> str:
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    @property
    def group(self) -> str:
        """Its group; empty for the core's."""
        return self.api_version.rpartition("/")[0]

    @property
    def list_path(self) -> str:
        """The path of its objects in all namespaces."""
        return f"{self._root}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """The path of one object."""
        inside = f"/namespaces/{namespace}" if self.is_namespaced else ""
        return f"{self._root}{inside}/{self.plural}/{name}"

    def identity(self, name: str) -> str:
        """Kind and name, as reports have them."""
        return f"{self.name}.{self.group}/{name}" if self.group else f"{self.name}/{name}"


class Kinds:
    """The kinds that an API server knows, asked for once."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._by_version: dict[str, dict[str, Kind]] = {}

    def find(self, api_version: str, name: str) -> Kind:
        """A kind; ApiRefusal where the server has none."""
        for is_fresh in (False, True):
            if is_fresh or api_version not in self._by_version:
                self._by_version[api_version] = {kind.name: kind for kind in self._read(api_version)}
            if name in self._by_version[api_version]:
                return self._by_version[api_version][name]
        raise ApiRefusal(404, f"the server has no kind {name} in {api_version}")

    def learn(self, api_version: str) -> None:
        """Ask for the kinds of a version, if they are not known."""
        if api_version not in self._by_version:
            try:
                self._by_version[api_version] = {kind.name: kind for kind in self._read(api_version)}
            except ApiRefusal:
                return  # the server does not have it; that is said where an object of it is applied

    def preferred_versions(self) -> list[str]:
        """The version that each group of the cluster prefers, but for the core's."""
        try:
            groups = self._api.get("/apis").get("groups", [])
        except ApiRefusal:
            return []  # the agent may not ask, and knows the kinds of what is rendered
        return [group["preferredVersion"]["groupVersion"] for group in groups]

    def known(self, first: Collection[str] = ()) -> list[Kind]:
        """The kinds of all versions that were asked for, each once: by the first of these versions that has it."""
        kinds: dict[tuple[str, str], Kind] = {}
        for version in sorted(self._by_version, key=lambda version: version not in first):
            for kind in self._by_version[version].values():
                kinds.setdefault((kind.group, kind.name), kind)
        return list(kinds.values())

    def _read(self, api_version: str) -> Iterator[Kind]:
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        for resource in self._api.get(root).get("resources", []):
            verbs = resource.get("verbs", [])
            if "/" not in resource["name"] and {"list", "patch", "delete"} <= set(verbs):
                yield Kind(
                    api_version=api_version,
                    name=resource["kind"],
                    plural=resource["name"],
                    is_namespaced=resource["namespaced"],
                )
