"""The commands that get the token of a cluster: `register` and `rotate`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.commands.options import common_options, configuration, engine_of, fail

if TYPE_CHECKING:
    from agent.config import Config
    from agent.engines.base import Engine

_SECRET_VARIABLE = "RAINBOW_REGISTRATION_SECRET"
#: The longest description that is sent with the registration, whose body is bounded; others follow with the token.
_MOST_AT_REGISTRATION = 48 * 1024


@click.command(
    epilog="""
\b
Examples:
  rainbow-agent register --cluster alpha --secret-file /etc/rainbow/registration.secret
  RAINBOW_REGISTRATION_SECRET=... rainbow-agent register --cluster alpha --engine slurm
  rainbow-agent register --cluster alpha          (asks for the secret)
""",
)
@common_options
@click.option("--engine", metavar="NAME", help="Engine that describes the cluster.")
@click.option(
    "--secret-file", metavar="FILE", help=f"File of the registration secret; default {_SECRET_VARIABLE}, else a prompt."
)
def register(file: str | None, secret_file: str | None, **options: Any) -> None:
    """Register this cluster with the admin, and store its token.

    The platform team knows the registration secret (clusters.registrationSecretFile of the admin). It is read from a
    file, a variable or a prompt, never from the command line, where other users could see it.

    The token is printed once, and written to the token file with mode 0600. It cannot be shown again: if it is lost,
    revoke it with `rainbowctl delete token` and register again.
    """
    from agent.transport import AdminClient, cluster_path
    from ctl.client.errors import InvalidRequest

    config = configuration(file, **options)
    undescribed: Engine | None = None

    def request_token() -> dict[str, Any]:
        nonlocal undescribed
        engine = engine_of(config, config.state_directory / "jobs")
        graph, report, secret = _graph(engine), _report(config, engine), _secret(secret_file)
        path, body = cluster_path(config.cluster, "register"), {"secret": secret, "report": report}
        if graph is not None and len(json.dumps(graph)) <= _MOST_AT_REGISTRATION:
            body["description"] = graph
        else:
            undescribed = engine
        with closing(AdminClient(config.endpoint, ca_file=config.ca_file)) as client:
            try:
                return client.post(path, body)
            except InvalidRequest as error:
                if not any(detail.get("field") == "report" for detail in error.details):
                    raise
            undescribed = engine  # by an older admin, which calls the report a description
            return client.post(path, {"secret": secret, "description": report})

    _renew_token(config, request_token, f"Registered cluster {config.cluster}.", may_exist=False)
    if undescribed is not None:
        _describe(config, undescribed)


def _describe(config: Config, engine: Engine) -> None:
    """Send the description of the cluster by itself; where that fails, the agent does it when it runs."""
    from agent.describer import Describer
    from agent.engines.safe import SafeEngine
    from agent.transport import AdminClient, Token

    with closing(AdminClient(config.endpoint, token=Token(config.token_file), ca_file=config.ca_file)) as client:
        Describer(config.cluster, SafeEngine(engine), client, run=lambda send: send()).step()


def _graph(engine: Engine) -> dict[str, Any] | None:
    """What the cluster has, as far as its engine can describe it now."""
    from agent.engines.base import EngineError
    from agent.engines.safe import SafeEngine

    try:
        return SafeEngine(engine).graph()
    except EngineError:
        return None  # the report says what is wrong with it


def _report(config: Config, engine: Engine) -> dict[str, Any]:
    """What there is to report of the cluster, as far as its engine can tell now."""
    from agent.engines.base import EngineError

    report: dict[str, Any] = {"engine": engine.name}
    if config.plugins:
        report["plugins"] = list(config.plugins)
    if config.properties:
        report["properties"] = dict(config.properties)
    try:
        report |= {"engine_version": engine.version(), "capacity": engine.capacity()[0]}
    except EngineError as error:
        click.echo(f"warning: the cluster cannot be described: {error}", err=True)
    return report


def _secret(file: str | None) -> str:
    if file:
        try:
            secret = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            fail(f"--secret-file: {file} cannot be read: {error}")
    elif os.environ.get(_SECRET_VARIABLE):
        secret = os.environ[_SECRET_VARIABLE].strip()
    elif sys.stdin.isatty():
        secret = click.prompt("Registration secret", hide_input=True, err=True).strip()
    else:
        fail(f"the registration secret is missing: give --secret-file, or set {_SECRET_VARIABLE}")
    return secret or fail("the registration secret is empty")


@click.command()
@common_options
@click.option(
    "--overlap", default="10m", show_default=True, metavar="DURATION", help="How long the present token stays valid."
)
def rotate(file: str | None, overlap: str, **options: Any) -> None:
    """Replace the token of this cluster by a new one.

    The token file is replaced; a running agent reads it at its next sync. The present token stays valid for the
    overlap, for others that use it.
    """
    from agent.transport import AdminClient, Token, cluster_path

    config = configuration(file, **options)

    def request_token() -> dict[str, Any]:
        client = AdminClient(config.endpoint, token=Token(config.token_file), ca_file=config.ca_file)
        return client.post(cluster_path(config.cluster, "tokens"), {"overlap": overlap})

    message = f"Cluster {config.cluster} has a new token; the old one expires in {overlap}."
    _renew_token(config, request_token, message, may_exist=True)


def _renew_token(config: Config, request_token: Callable[[], dict[str, Any]], message: str, *, may_exist: bool) -> None:
    """Get a token, and print it before it is written: it cannot be shown again if writing fails."""
    from agent.files import write_file
    from agent.transport import describe
    from ctl.client.errors import RainbowError

    _prepare_token_file(config.token_file, may_exist=may_exist)
    try:
        token = str(request_token()["token"])
    except RainbowError as error:
        fail(describe(error))
    except KeyError as error:
        fail(str(error))
    click.echo(message, err=True)
    click.echo("Its token, which is not shown again:", err=True)
    click.echo(token)
    try:
        write_file(config.token_file, f"{token}\n".encode(), mode=0o600)
    except OSError as error:
        fail(f"the token cannot be written to {config.token_file}: {error.strerror}: copy it there from above")
    click.echo(f"It is stored in {config.token_file}, readable by its owner only.", err=True)


def _prepare_token_file(path: Path, *, may_exist: bool) -> None:
    """Check that a token can be written before one is requested."""
    if path.exists() and not may_exist:
        fail(f"tokenFile: {path} exists already: use it, renew it with `rainbow-agent rotate`, or remove it first")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        fail(f"tokenFile: {path.parent} cannot be created: {error.strerror}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        fail(f"tokenFile: {path.parent} is not writable: name another file with --token-file")
