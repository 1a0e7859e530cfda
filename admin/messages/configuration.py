"""The configuration that an admin runs with."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from admin.configuration import Settings
from admin.messages.shared import Answer, one_of


class ConfigurationKeyAnswer(Answer):
    key: Annotated[str, Meta(description="As the file has it: server.port.")]
    value: Any
    source: Annotated[str, one_of("default", "file", "environment", "command line")]


class AdminConfigurationAnswer(Answer):
    values: Annotated[
        list[ConfigurationKeyAnswer], Meta(description="Of the worker that answers; passwords are hidden.")
    ]

    @classmethod
    def from_settings(cls, settings: Settings) -> AdminConfigurationAnswer:
        values = (
            ConfigurationKeyAnswer(key=key, value=value, source=settings.sources.get(key, "default"))
            for key, value in settings.shown_values.items()
        )
        return cls(values=list(values))
