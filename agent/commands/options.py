"""What commands share: their options, the configuration and engine that these lead to, and how they fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from agent.config import Config
    from agent.engines.base import Engine

#: Options of several commands that set a key of the configuration: flag, key, variable, metavar and help.
_OPTIONS = (
    ("--cluster", "cluster", "RAINBOW_CLUSTER", "NAME", "Name of the cluster."),
    ("--endpoint", "endpoint", "RAINBOW_ENDPOINT", "URL", "URL of the admin; default http://127.0.0.1:8088."),
    (
        *("--token-file", "tokenFile", "RAINBOW_AGENT_TOKEN_FILE", "FILE"),
        "File of the cluster's token; default `token` in the state directory.",
    ),
    ("--ca-file", "caFile", "RAINBOW_CA_FILE", "FILE", "CA certificate, for https."),
    (
        *("--state-directory", "stateDirectory", "RAINBOW_AGENT_STATE", "DIRECTORY"),
        "Where the agent keeps its state; default ~/.local/state/rainbow/agent/CLUSTER.",
    ),
)


def common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the cluster, its admin and its token."""
    for flag, key, variable, metavar, text in reversed(_OPTIONS):
        command = click.option(flag, key, envvar=variable, metavar=metavar, help=text)(command)
    file = click.option(
        *("-c", "--config", "file"), envvar="RAINBOW_AGENT_CONFIG", metavar="FILE", help="Configuration file, YAML."
    )
    return file(command)


def configuration(file: str | None, **given: Any) -> Config:
    """The configuration in a file, overridden by what is given on the command line, which is named as the keys are."""
    from agent.config import ConfigError, default_config_file, load_config

    if "RAINBOW_TOKEN_FILE" in os.environ and not given.get("tokenFile"):
        note = "Note: RAINBOW_TOKEN_FILE is rainbowctl's; the agent's token file is set by RAINBOW_AGENT_TOKEN_FILE."
        click.echo(note, err=True)
    try:
        return load_config(Path(file) if file else default_config_file(), given)
    except ConfigError as error:
        fail(str(error))


heartbeat_option = click.option(
    "--heartbeat", metavar="FILE", help="A file to touch every few seconds, for a probe that looks at its time."
)


def engine_of(config: Config, directory: Path) -> Engine:
    """The engine that the configuration names; its jobs have their files in the directory."""
    from agent.engines.base import EngineError, find_engine

    options = {**config.engine_options, **({"runAs": config.run_as} if config.run_as else {})}
    try:
        factory = find_engine(config.engine)
        own = {"cluster": config.cluster, "endpoint": config.endpoint}
        options = {**{name: own[name] for name in own if name in getattr(factory, "defaults", ())}, **options}
        return factory(options, directory)
    except EngineError as error:
        fail(str(error))


def fail(reason: str) -> NoReturn:
    """End the program with a reason."""
    from ctl.client.formats import printable_lines

    click.echo(f"error: {printable_lines(reason)}", err=True)
    sys.exit(1)
