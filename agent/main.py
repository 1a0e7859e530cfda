"""rainbow-agent: the command line of the agent beside a cluster."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import click

from agent.commands.check import check
from agent.commands.janitor import janitor
from agent.commands.run import run
from agent.commands.tokens import register, rotate

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


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


for command in (check, janitor, register, rotate, run):
    main.add_command(command)


if __name__ == "__main__":
    main()
