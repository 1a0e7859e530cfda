"""The command `run`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from agent.commands.options import common_options, configuration, engine_of, fail, heartbeat_option

if TYPE_CHECKING:
    from agent.config import Config


@click.command(
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
@common_options
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
@heartbeat_option
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
        fail(problem)
    config = configuration(file, **options)
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
        fail(str(error))
    for warning in exposures(config.token_file, config.endpoint, has_ca_file=config.ca_file is not None):
        log.warning(warning)
    try:
        if config.run_as:
            state.let_jobs_through()
        engine = engine_of(config, state.jobs)
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


def _check_user(config: Config) -> None:
    """Keep an agent of root's from running jobs as root unless it is told to."""
    from agent.engines.base import BUILT_IN

    is_of_machine = config.engine in BUILT_IN and config.engine != "kubernetes"  # whose jobs are other users' pods
    if os.geteuid() == 0 and is_of_machine and not config.run_as:
        fail(
            "runAs: the agent runs as root, and so would every job: start it as the user that jobs are to run as, name "
            "that user with --run-as USER (engine local only), or say --run-as root if that is what you want"
        )
