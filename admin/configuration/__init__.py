"""The admin's configuration: its keys and defaults, and the settings that are read from them."""

from __future__ import annotations

from admin.configuration.settings import Server, Settings, environment_variables, load_settings

__all__ = ["Server", "Settings", "environment_variables", "load_settings"]
