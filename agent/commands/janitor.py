"""The command `janitor`."""

from __future__ import annotations

import sys

import click

from agent.commands.options import configuration, fail, heartbeat_option


@click.command(
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
@heartbeat_option
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

    config = configuration(file, cluster=cluster)
    log_to(StatusLine(sys.stderr), quiet=False)
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    try:
        from agent.engines.kubernetes.janitor import Janitor

        beating = Heartbeat(heartbeat, SYSTEM_CLOCK)
        Janitor({"cluster": config.cluster, **config.engine_options}).run(is_over.is_set, beating.beat)
    except ImportError as error:
        fail(f"the janitor needs the extra kubernetes (pip install 'rainbow[kubernetes]'): {error}")
    except EngineError as error:
        fail(str(error))
