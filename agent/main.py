"""rainbow-agent: the command line of the agent beside a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from agent.config import Config
    from agent.engines.base import Engine

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_SECRET_VARIABLE = "RAINBOW_REGISTRATION_SECRET"


@click.group(
    context_settings=_SETTINGS,
    epilog="""
\b
From nothing to running, beside a new cluster:
  rainbow-agent check --endpoint https://rainbow.example.org
  rainbow-agent register --cluster alpha --endpoint https://rainbow.example.org --secret-file secret.txt
  rainbow-agent run --cluster alpha --endpoint https://rainbow.example.org --engine local

What is typed there can stand in ~/.config/rainbow/agent.yaml, /etc/rainbow/agent.yaml or the file given with --config
(see `rainbow-agent run --help` for its keys); what is typed goes before it.
""",
)
@click.version_option(version("rainbow"), prog_name="rainbow-agent")
def main() -> None:
    """The Rainbow agent stands beside a cluster and calls out to the admin; the admin never calls it.

    It takes executions that were placed on its cluster, runs them on its engine, and reports what becomes of them.
    """


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which cluster, and where its admin and its token are."""
    for option in reversed(
        [
            click.option(
                "-c",
                "--config",
                "file",
                envvar="RAINBOW_AGENT_CONFIG",
                metavar="FILE",
                help="Configuration file, YAML.",
            ),
            click.option("--cluster", envvar="RAINBOW_CLUSTER", metavar="NAME", help="Name of the cluster."),
            click.option(
                "--endpoint",
                envvar="RAINBOW_ENDPOINT",
                metavar="URL",
                help="Where the admin listens; else http://127.0.0.1:8088.",
            ),
            click.option(
                "--token-file",
                envvar="RAINBOW_TOKEN_FILE",
                metavar="FILE",
                help="File of the cluster's token; else `token` in the state directory.",
            ),
            click.option("--ca-file", envvar="RAINBOW_CA_FILE", metavar="FILE", help="CA certificate, for https."),
            click.option(
                "--state-directory",
                envvar="RAINBOW_AGENT_STATE",
                metavar="DIRECTORY",
                help="What the agent must not forget; else ~/.local/state/rainbow/agent/CLUSTER.",
            ),
        ]
    ):
        command = option(command)
    return command


def _config(file: str | None, **typed: Any) -> Config:
    from agent.config import ConfigError, default_config_file, load_config

    keys = {"token_file": "tokenFile", "ca_file": "caFile", "state_directory": "stateDirectory"}
    try:
        path = Path(file) if file else default_config_file()
        return load_config(path, {keys.get(name, name): value for name, value in typed.items()})
    except ConfigError as error:
        _fail(str(error))


@main.command(
    epilog="""
\b
Examples:
  rainbow-agent run --cluster alpha --engine local
  rainbow-agent run --config /etc/rainbow/agent.yaml
  * * * * *  rainbow-agent run --once --config /etc/rainbow/agent.yaml      (in a crontab)

\b
The configuration file, each key with an example:
  endpoint: https://rainbow.example.org    where the admin listens
  cluster: alpha                           the name this cluster registered with
  engine: local                            local, slurm, or one that an installed package brings
  engineOptions: {ignoreImage: true}       what the engine takes; unknown ones are refused
  stateDirectory: /var/lib/rainbow-agent   for one agent only, on a disk that outlives a reboot
  tokenFile: /etc/rainbow/alpha.token      written by `rainbow-agent register`
  caFile: /etc/rainbow/ca.pem              certificate authorities to trust for https
  slots: 10                                executions at once
  want: 10                                 new executions to take with one sync
  pollSeconds: 0.5                         how often the engine is asked what has become of them
  plugins: [ray]                           plugins that this cluster offers
  properties: {rack: 7}                    anything else worth knowing of it

\b
Options of the engine local:
  ignoreImage: false           run the command of a job that names an image, without the image
  memoryLimit: address-space   how memory is limited. address-space: the kernel refuses each process more than the limit
                               (programs that reserve much and use little suffer: use resident). resident: what the
                               job's processes use together is measured, and a job above its limit ended. none: not
  graceSeconds: 5              between SIGTERM and SIGKILL when a job is ended
  keepSeconds: 3600            how long a finished job's directory is kept

\b
Under systemd set KillMode=process, so that jobs of the engine local outlive a restart of the agent.

\b
Exit status: 0 after a stop in good order, 1 where the admin could not be told, refused the token, or lets another
agent serve the cluster, 2 for a wrong command line.
""",
)
@_options
@click.option("--engine", metavar="NAME", help="What runs executions: local, slurm, or one that a package brings.")
@click.option("--slots", type=int, metavar="N", help="Executions at once; else 10.")
@click.option("--once", is_flag=True, help="Sync, start and report what there is, and end; for cron.")
@click.option("--drain", is_flag=True, help="When told to stop, wait for what runs instead of leaving it.")
@click.option("-q", "--quiet", is_flag=True, help="Print warnings and errors only.")
def run(file: str | None, once: bool, drain: bool, quiet: bool, **typed: Any) -> None:
    """Take executions, run them, report them.

    The agent can be killed and started again at any time: what it holds is written down, and native jobs are found
    again by their names, so that nothing is lost and nothing runs twice.

    SIGTERM or Ctrl-C hands back to the admin what has not started, and leaves what runs to go on: the next start takes
    it up, if it comes before the leases are over. With --drain the agent waits for it instead. A second signal ends the
    agent at once; nothing is handed back then.

    An agent that cannot reach the admin tries again with growing pauses, and ends its work before the leases are over,
    for then the admin may give it to others.

    With --once it takes and starts what there is, reports what has ended, and ends; what runs goes on. The admin's
    agents.leaseSeconds must then be longer than the time between two runs.
    """
    from agent.crashes import check_crash_variable

    if wrong := check_crash_variable():
        _fail(wrong)
    sys.exit(_run(_config(file, **typed), once=once, drain=drain, quiet=quiet))


def _run(config: Config, *, once: bool, drain: bool, quiet: bool) -> int:
    import logging
    import signal

    from agent.intents import StateDirectory, StateError
    from agent.loop import Agent
    from agent.status import StatusHandler, StatusLine
    from agent.transport import Token, Transport, Unauthenticated

    line = StatusLine(sys.stderr)
    log = logging.getLogger("rainbow.agent")
    log.handlers = [StatusHandler(line)]
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    token = Token(config.token_file)
    try:
        token.text()
        state = StateDirectory(config.state_directory)
    except (Unauthenticated, StateError) as error:
        _fail(str(error))
    try:
        engine = _engine(config, state.jobs)
        agent = Agent(config, engine, state, lambda: Transport(config.endpoint, token=token, ca_file=config.ca_file))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop(drain=drain))
        return agent.run(once=once, watch=line.update)
    finally:
        line.clear()
        state.close()


def _engine(config: Config, directory: Path) -> Engine:
    from agent.engines.base import EngineError, find_engine

    try:
        return find_engine(config.engine)(config.engine_options, directory)
    except EngineError as error:
        _fail(str(error))


@main.command(
    epilog="""
\b
Examples:
  rainbow-agent register --cluster alpha --secret-file /etc/rainbow/registration.secret
  RAINBOW_REGISTRATION_SECRET=... rainbow-agent register --cluster alpha --engine slurm
  rainbow-agent register --cluster alpha          (asks for the secret)
""",
)
@_options
@click.option("--engine", metavar="NAME", help="The engine to describe the cluster by.")
@click.option(
    "--secret-file", metavar="FILE", help=f"File of the registration secret; else {_SECRET_VARIABLE}, else a prompt."
)
def register(file: str | None, secret_file: str | None, **typed: Any) -> None:
    """Register this cluster with the admin, and keep the token that it gives.

    The registration secret is the platform team's (clusters.registrationSecretFile of the admin). It is read from a
    file, a variable or a prompt, never from the command line, where others could see it.

    The token is shown this once, and written to the token file with mode 0600. Nobody can show it again: where it is
    lost, have it revoked (`rainbowctl delete token`) and register again.
    """
    from agent.registration import TokenFileError, prepare_token_file, write_token
    from agent.registration import register as ask
    from agent.transport import AdminError, Transport

    config = _config(file, **typed)
    try:
        prepare_token_file(config.token_file, may_exist=False)
        description = _description(config)
        token = ask(
            Transport(config.endpoint, ca_file=config.ca_file), config.cluster, _secret(secret_file), description
        )
    except (TokenFileError, AdminError, KeyError) as error:
        _fail(str(error))
    _keep(write_token, config, token, f"Registered cluster {config.cluster}.")


def _description(config: Config) -> dict[str, Any]:
    """What the cluster is, as far as its engine can say already."""
    from agent.engines.base import EngineError

    engine = _engine(config, config.state_directory / "jobs")
    described: dict[str, Any] = {"engine": engine.name}
    if config.plugins:
        described["plugins"] = list(config.plugins)
    if config.properties:
        described["properties"] = dict(config.properties)
    try:
        described |= {"engine_version": engine.version(), "capacity": engine.capacity()[0]}
    except EngineError as error:
        click.echo(f"warning: the engine cannot be asked yet: {error}", err=True)
    return described


def _secret(file: str | None) -> str:
    if file:
        try:
            secret = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            _fail(f"--secret-file: {file} cannot be read: {error}")
    elif os.environ.get(_SECRET_VARIABLE):
        secret = os.environ[_SECRET_VARIABLE].strip()
    elif sys.stdin.isatty():
        secret = click.prompt("Registration secret", hide_input=True, err=True).strip()
    else:
        _fail(f"the registration secret is missing: give --secret-file, or set {_SECRET_VARIABLE}")
    return secret or _fail("the registration secret is empty")


@main.command()
@_options
@click.option(
    "--overlap", default="10m", show_default=True, metavar="DURATION", help="How long the present token still counts."
)
def rotate(file: str | None, overlap: str, **typed: Any) -> None:
    """Get a new token for this cluster, in place of the present one.

    The token file is replaced; an agent that runs reads it at its next sync. The older token still counts for the
    overlap, for whoever else has it.
    """
    from agent.registration import TokenFileError, prepare_token_file, write_token
    from agent.registration import rotate as ask
    from agent.transport import AdminError, Token, Transport

    config = _config(file, **typed)
    try:
        prepare_token_file(config.token_file, may_exist=True)
        transport = Transport(config.endpoint, token=Token(config.token_file), ca_file=config.ca_file)
        token = ask(transport, config.cluster, overlap)
    except (TokenFileError, AdminError, KeyError) as error:
        _fail(str(error))
    _keep(write_token, config, token, f"Cluster {config.cluster} has a new token; the older one counts for {overlap}.")


def _keep(write: Callable[[Path, str], None], config: Config, token: str, done: str) -> None:
    """Show a token this once, and write it down; even where it cannot be written it must be shown."""
    click.echo(done, err=True)
    click.echo("Its token, shown this once:", err=True)
    click.echo(token)
    try:
        write(config.token_file, token)
    except OSError as error:
        _fail(f"the token cannot be written to {config.token_file}: {error.strerror}; write it there yourself")
    click.echo(f"It is kept in {config.token_file}, readable by its owner only.", err=True)


@main.command()
@click.option(
    "--endpoint", envvar="RAINBOW_ENDPOINT", default="http://127.0.0.1:8088", show_default=True, metavar="URL"
)
@click.option("--token-file", envvar="RAINBOW_TOKEN_FILE", metavar="FILE", help="File with the bearer token.")
@click.option("--ca-file", envvar="RAINBOW_CA_FILE", metavar="FILE", help="CA certificate, for https.")
def check(endpoint: str, token_file: str | None, ca_file: str | None) -> None:
    """Check the way to the admin.

    The admin must answer, be ready, and accept the token.

    Exits 0 if all is well, 1 with the reason if not.
    """
    import requests

    try:
        token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else os.environ.get("RAINBOW_TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        options: dict[str, Any] = {"timeout": 10, "verify": ca_file or True, "headers": headers}
        ready = requests.get(f"{endpoint.rstrip('/')}/readyz", **options)
        # What an operator's token may read, and a cluster's too.
        read = requests.get(f"{endpoint.rstrip('/')}/api/v1/executions", params={"limit": 1}, **options)
    except requests.exceptions.SSLError:
        _fail(f"the certificate of {endpoint} is not trusted: give the right CA with --ca-file")
    except (requests.ConnectionError, requests.Timeout):
        _fail(f"the admin at {endpoint} does not answer: check --endpoint, and that the admin runs")
    except (OSError, ValueError) as error:
        _fail(str(error))
    if ready.status_code != 200:
        _fail(f"the admin at {endpoint} is not ready: {_message(ready)}")
    if read.status_code != 200:
        _fail(f"the admin at {endpoint} refuses this agent: {_message(read)}")
    click.echo(f"The admin at {endpoint} is ready.")


def _message(response: Any) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}"


def _fail(reason: str) -> NoReturn:
    click.echo(f"error: {reason}", err=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
