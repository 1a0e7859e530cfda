"""The admin's configuration: its keys and defaults, and the settings that are loaded from them."""

from __future__ import annotations

from admin.configuration.environment import environment_variables
from admin.configuration.loading import load_settings
from admin.configuration.settings import Limits, OpenId, ResourceManager, Server, Settings

__all__ = ["Limits", "OpenId", "ResourceManager", "Server", "Settings", "environment_variables", "load_settings"]
