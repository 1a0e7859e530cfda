"""The rendering cache: the cluster resources of every namespace, as of the last revision that was rendered."""

from __future__ import annotations

import threading
from collections.abc import Mapping

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
        self._kept: tuple[object, Renderings] = (None, {})  #: the last key and its renderings, replaced as one

    def find(self, key: object) -> Renderings | None:
        """The renderings of a key; None where others were kept last."""
        kept, renderings = self._kept
        return renderings if kept == key else None

    def last(self) -> Renderings:
        """The renderings that were kept last, of whatever key."""
        return self._kept[1]

    def keep(self, key: object, renderings: Renderings) -> None:
        self._kept = key, renderings
