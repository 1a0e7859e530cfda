"""The rendering cache: the cluster resources of every namespace, as of the last revision that was rendered."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping

from admin.configuration.external_values import ExternalReader
from admin.configuration.settings import ClusterResources
from admin.configuration.template_files import TemplateFiles
from admin.core.cluster_resources.rendering import Rendering
from admin.core.settings.scopes import Scope

Renderings = Mapping[Scope, Rendering]


class RenderingCache:
    """The files that namespaces are made of, and what was last made of them."""

    def __init__(self, resources: ClusterResources) -> None:
        self.templates = TemplateFiles(resources.template_path)
        self.external_values = ExternalReader(resources.external_values)
        self.lock = threading.Lock()  #: so that only one thread renders what is missing
        self._key: Hashable = None
        self._renderings: Renderings = {}

    def find(self, key: Hashable) -> Renderings | None:
        """The renderings of a key; None where others were kept last."""
        return self._renderings if self._key == key else None

    def last(self) -> Renderings:
        """The renderings that were kept last, of whatever key."""
        return self._renderings

    def keep(self, key: Hashable, renderings: Renderings) -> None:
        self._renderings, self._key = renderings, key
