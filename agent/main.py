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

These options can also be set in ~/.config/rainbow/agent.yaml, /etc/rainbow/agent.yaml or the file given with --config
(see `rainbow-agent run --help` for its keys); options on the command line override the file.
""",
)
@click.version_option(version("rainbow"), prog_name="rainbow-agent")
def main() -> None:
    """The Rainbow agent runs executions on a cluster. It calls the admin; the admin never calls it.

    It leases the executions that were placed on its cluster, runs them on its engine, and reports how they end.
    """


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


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the cluster, its admin and its token."""
    for flag, key, variable, metavar, text in reversed(_OPTIONS):
        command = click.option(flag, key, envvar=variable, metavar=metavar, help=text)(command)
    file = click.option(
        *("-c", "--config", "file"), envvar="RAINBOW_AGENT_CONFIG", metavar="FILE", help="Configuration file, YAML."
    )
    return file(command)


def _config(file: str | None, **options: Any) -> Config:
    """The configuration in a file, overridden by options, which are named as the keys are."""
    from agent.config import ConfigError, default_config_file, load_config

    if "RAINBOW_TOKEN_FILE" in os.environ and not options.get("tokenFile"):
        note = "Note: RAINBOW_TOKEN_FILE is rainbowctl's; the agent's token file is set by RAINBOW_AGENT_TOKEN_FILE."
        click.echo(note, err=True)
    try:
        return load_config(Path(file) if file else default_config_file(), options)
    except ConfigError as error:
        _fail(str(error))


_heartbeat_option = click.option(
    "--heartbeat", metavar="FILE", help="A file to touch every few seconds, for a probe that looks at its time."
)


@main.command(
    epilog="""
\b
Examples:
  rainbow-agent run --cluster alpha --engine local
  rainbow-agent run --config /etc/rainbow/agent.yaml
  * * * * *  rainbow-agent run --once --config /etc/rainbow/agent.yaml      (in a crontab)

\b
The configuration file, each key with an example:
  endpoint: https://rainbow.example.org    URL of the admin
  cluster: alpha                           the name this cluster registered with
  engine: local                            flux, kubernetes, local, slurm, or one of an installed package
  engineOptions: {ignoreImage: true}       options of the engine; unknown ones are refused
  stateDirectory: /var/lib/rainbow-agent   used by one agent only, on a disk that survives a reboot
  tokenFile: /etc/rainbow/alpha.token      written by `rainbow-agent register`
  caFile: /etc/rainbow/ca.pem              certificate authorities to trust for https
  runAs: rainbow-jobs                      the user that jobs run as; an agent of root's must name one, or say root
  slots: 10                                executions at once
  want: 10                                 new executions to take with one sync
  pollSeconds: 0.5                         how often the engine is asked for the states of its jobs
  plugins: [ray]                           plugins that this cluster offers
  properties: {rack: 7}                    anything else to report of this cluster

\b
Options of the engine local:
  ignoreImage: false           run the command of a job that names an image, without the image
  memoryLimit: address-space   how memory is limited. address-space: the kernel refuses each process more than the limit
                               (use resident for programs that reserve much more than they use). resident: the memory
                               of all processes of a job is measured, and a job above its limit is ended. none: no limit
  graceSeconds: 5              time between SIGTERM and SIGKILL when a job is ended
  keepSeconds: 3600            how long a finished job's directory is kept
  logLimitBytes: 67108864      what is kept of each stream of a job: its beginning, and three times as much of its end

\b
Options of the engine kubernetes, the most used of them (all are in docs/engines/kubernetes.md):
  kubeconfig, context          instead of KUBECONFIG, the service account of a pod, or ~/.kube/config
  namespace: "{{ project }}-{{ domain }}"   where Jobs are created
  image                        of jobs that name none
  queues: {gold: {priorityClass: gold}}     what the queue of an execution means here

\b
Options of the engine flux (all are in docs/engines/flux.md):
  uri                          of the instance, instead of FLUX_URI and the system's
  attributes: {bank: physics}  more of attributes.system of every jobspec

\b
Under systemd set KillMode=process, so that jobs of the engine local survive a restart of the agent.

\b
Exit status: 0 after a clean stop; 1 if the admin could not be reached, refused the token, or another agent serves the
cluster; 2 for a wrong command line.
""",
)
@_options
@click.option(
    "--engine",
    metavar="NAME",
    help="Engine: flux, kubernetes, local, slurm, or one that an installed package provides.",
)
@click.option(
    *("--run-as", "runAs"), envvar="RAINBOW_RUN_AS", metavar="USER", help="User that jobs run as; see docs/agents.md."
)
@click.option("--slots", type=int, metavar="N", help="Executions at once; default 10.")
@click.option("--once", is_flag=True, help="Sync, start what is offered, report what has ended, and exit; for cron.")
@click.option(
    "--take-over",
    is_flag=True,
    help="Serve the cluster in place of another agent, even one that is not silent.",
)
@click.option("--drain", is_flag=True, help="On SIGTERM or SIGINT wait for running executions instead of leaving them.")
@_heartbeat_option
@click.option("-q", "--quiet", is_flag=True, help="Print warnings and errors only.")
def run(
    file: str | None, once: bool, take_over: bool, drain: bool, heartbeat: str | None, quiet: bool, **options: Any
) -> None:
    """Lease executions, run them, and report them.

    The agent can be killed and started again at any time: its leases are stored on disk, and native jobs are found
    again by name, so that nothing is lost and nothing runs twice.

    SIGTERM or Ctrl-C hands back to the admin what has not started, and leaves running executions alone: the next start
    resumes them. With --drain the agent waits for them instead. A second signal ends the agent at once, without handing
    anything back.

    An agent that cannot reach the admin tries again with growing pauses. Its executions go on meanwhile, as they do
    while no agent runs, unless their policy is on_lost: fail or retry: these are ended when their leases are over.

    A cluster has one agent. Until another one has been silent for the admin's agents.unreachableSeconds (lostSeconds,
    where that is less than leaseSeconds), the admin refuses this one, which then waits until the cluster is free. With
    --take-over it takes the other's place at once; the other ends.

    With --once the agent starts what is offered, reports what has ended, and exits; running executions go on. For those
    of on_lost: fail or retry, the admin's agents.leaseSeconds must be longer than the time between two runs.
    """
    import signal

    from agent.clocks import SYSTEM_CLOCK
    from agent.crashes import check_crash_variable
    from agent.engines.users import hide_process
    from agent.heartbeat import Heartbeat
    from agent.loop import Agent
    from agent.state_directory import StateDirectory, StateError
    from agent.status import StatusLine, log_to
    from agent.transport import AdminClient, Token, exposures
    from ctl.client.errors import RainbowError

    if problem := check_crash_variable():
        _fail(problem)
    config = _config(file, **options)
    _check_user(config)
    hide_process()
    line = StatusLine(sys.stderr)
    log = log_to(line, quiet=quiet)
    token = Token(config.token_file)
    try:
        token.read()
        client = AdminClient(config.endpoint, token=token, ca_file=config.ca_file)
        state = StateDirectory(config.state_directory)
    except (RainbowError, StateError) as error:
        _fail(str(error))
    for warning in exposures(config.token_file, config.endpoint, has_ca_file=config.ca_file is not None):
        log.warning(warning)
    try:
        if config.run_as:
            state.let_jobs_through()
        engine = _engine(config, state.jobs)
        agent = Agent(config, engine, state, client, take_over=take_over)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop(drain=drain))
        beating = Heartbeat(heartbeat, SYSTEM_CLOCK)

        def watch(agent: Agent) -> None:
            line.update(agent)
            beating.beat()

        status = agent.run(once=once, watch=watch)
    finally:
        line.clear()
        state.close()
    sys.exit(status)


@main.command(
    epilog="""
\b
Examples:
  rainbow-agent janitor --cluster alpha
  rainbow-agent janitor --config /etc/rainbow/agent.yaml
""",
)
@click.option("--cluster", envvar="RAINBOW_CLUSTER", metavar="NAME", help="Name of the cluster.")
@click.option(
    *("-c", "--config", "file"), envvar="RAINBOW_AGENT_CONFIG", metavar="FILE", help="The agent's configuration file."
)
@_heartbeat_option
def janitor(file: str | None, cluster: str | None, heartbeat: str | None) -> None:
    """End the Jobs of a Kubernetes cluster whose agent is gone.

    Executions of on_lost: fail or retry must end when their lease is over, agent or no agent. Their agent renews a
    Lease object for them; the janitor, a process of its own, ends their Jobs when that was not renewed for its
    duration. The engine `kubernetes` takes such executions only while a janitor runs.

    It reads engineOptions of the agent's configuration, talks to the Kubernetes API alone, and runs until SIGTERM.
    """
    import signal
    import threading

    from agent.clocks import SYSTEM_CLOCK
    from agent.engines.base import EngineError
    from agent.heartbeat import Heartbeat
    from agent.status import StatusLine, log_to

    config = _config(file, cluster=cluster)
    log_to(StatusLine(sys.stderr), quiet=False)
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    try:
        from agent.engines.kubernetes.janitor import Janitor

        beating = Heartbeat(heartbeat, SYSTEM_CLOCK)
        Janitor({"cluster": config.cluster, **config.engine_options}).run(is_over.is_set, beating.beat)
    except ImportError as error:
        _fail(f"the janitor needs the extra kubernetes (pip install 'rainbow[kubernetes]'): {error}")
    except EngineError as error:
        _fail(str(error))


def _check_user(config: Config) -> None:
    """Keep an agent of root's from running jobs as root unless it is told to."""
    from agent.engines.base import BUILT_IN

    is_of_machine = config.engine in BUILT_IN and config.engine != "kubernetes"  # whose jobs are other users' pods
    if os.geteuid() == 0 and is_of_machine and not config.run_as:
        _fail(
            "runAs: the agent runs as root, and so would every job: start it as the user that jobs are to run as, name "
            "that user with --run-as USER (engine local only), or say --run-as root if that is what you want"
        )


def _engine(config: Config, directory: Path) -> Engine:
    from agent.engines.base import EngineError, find_engine

    options = {**config.engine_options, **({"runAs": config.run_as} if config.run_as else {})}
    try:
        factory = find_engine(config.engine)
        own = {"cluster": config.cluster, "endpoint": config.endpoint}
        options = {**{name: own[name] for name in own if name in getattr(factory, "defaults", ())}, **options}
        return factory(options, directory)
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

    config = _config(file, **options)

    def request_token() -> dict[str, Any]:
        description = _description(config)
        client = AdminClient(config.endpoint, ca_file=config.ca_file)
        body = {"secret": _secret(secret_file), "description": description}
        return client.post(cluster_path(config.cluster, "register"), body)

    _renew_token(config, request_token, f"Registered cluster {config.cluster}.", may_exist=False)
    _describe(config)


def _describe(config: Config) -> None:
    """Send the description of the cluster; where that fails, the agent does it when it runs."""
    from agent.describer import Describer
    from agent.engines.safe import SafeEngine
    from agent.transport import AdminClient, Token

    client = AdminClient(config.endpoint, token=Token(config.token_file), ca_file=config.ca_file)
    engine = SafeEngine(_engine(config, config.state_directory / "jobs"))
    Describer(config.cluster, engine, client, run=lambda send: send()).step()


def _description(config: Config) -> dict[str, Any]:
    """The cluster, as far as its engine can describe it now."""
    from agent.engines.base import EngineError

    engine = _engine(config, config.state_directory / "jobs")
    description: dict[str, Any] = {"engine": engine.name}
    if config.plugins:
        description["plugins"] = list(config.plugins)
    if config.properties:
        description["properties"] = dict(config.properties)
    try:
        description |= {"engine_version": engine.version(), "capacity": engine.capacity()[0]}
    except EngineError as error:
        click.echo(f"warning: the cluster cannot be described: {error}", err=True)
    return description


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
    "--overlap", default="10m", show_default=True, metavar="DURATION", help="How long the present token stays valid."
)
def rotate(file: str | None, overlap: str, **options: Any) -> None:
    """Replace the token of this cluster by a new one.

    The token file is replaced; a running agent reads it at its next sync. The present token stays valid for the
    overlap, for others that use it.
    """
    from agent.transport import AdminClient, Token, cluster_path

    config = _config(file, **options)

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
        _fail(describe(error))
    except KeyError as error:
        _fail(str(error))
    click.echo(message, err=True)
    click.echo("Its token, which is not shown again:", err=True)
    click.echo(token)
    try:
        write_file(config.token_file, f"{token}\n".encode(), mode=0o600)
    except OSError as error:
        _fail(f"the token cannot be written to {config.token_file}: {error.strerror}: copy it there from above")
    click.echo(f"It is stored in {config.token_file}, readable by its owner only.", err=True)


def _prepare_token_file(path: Path, *, may_exist: bool) -> None:
    """Check that a token can be written before one is requested."""
    if path.exists() and not may_exist:
        _fail(f"tokenFile: {path} exists already: use it, renew it with `rainbow-agent rotate`, or remove it first")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        _fail(f"tokenFile: {path.parent} cannot be created: {error.strerror}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        _fail(f"tokenFile: {path.parent} is not writable: name another file with --token-file")


@main.command()
@click.option(
    "--endpoint", envvar="RAINBOW_ENDPOINT", default="http://127.0.0.1:8088", show_default=True, metavar="URL"
)
@click.option("--token-file", envvar="RAINBOW_TOKEN_FILE", metavar="FILE", help="File with the bearer token.")
@click.option("--ca-file", envvar="RAINBOW_CA_FILE", metavar="FILE", help="CA certificate, for https.")
def check(endpoint: str, token_file: str | None, ca_file: str | None) -> None:
    """Check the connection to the admin.

    The admin must answer, be ready, and accept the token.

    Exits 0 if so, else 1 with the reason.
    """
    from agent.transport import describe
    from ctl.client.errors import ClientError, RainbowError
    from ctl.client.transport import Transport

    try:
        token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else os.environ.get("RAINBOW_TOKEN")
        transport = Transport(endpoint, token=token, ca_file=ca_file, retries=0, timeout=10, user_agent="rainbow-agent")
    except RainbowError as error:
        _fail(describe(error))
    except (OSError, ValueError) as error:
        _fail(f"--token-file: {token_file} cannot be read: {error}")
    # Both an operator's token and a cluster's may list executions.
    for path, query, problem in (
        ("/readyz", {}, "is not ready"),
        ("executions", {"limit": 1}, "refuses this agent"),
    ):
        try:
            transport.call("GET", path, query=query, is_safe=True)
        except ClientError as error:
            _fail(f"the admin at {endpoint} {problem}: {describe(error)}" if error.status else describe(error))
    click.echo(f"The admin at {endpoint} is ready.")


def _fail(reason: str) -> NoReturn:
    from ctl.client.formats import printable_lines

    click.echo(f"error: {printable_lines(reason)}", err=True)
    sys.exit(1)


if __name__ == "__main__":
    main()
