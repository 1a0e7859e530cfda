"""The command `check`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agent.commands.options import fail


@click.command()
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
        fail(describe(error))
    except (OSError, ValueError) as error:
        fail(f"--token-file: {token_file} cannot be read: {error}")
    # Both an operator's token and a cluster's may list executions.
    for path, query, problem in (
        ("/readyz", {}, "is not ready"),
        ("executions", {"limit": 1}, "refuses this agent"),
    ):
        try:
            transport.call("GET", path, query=query, is_safe=True)
        except ClientError as error:
            fail(f"the admin at {endpoint} {problem}: {describe(error)}" if error.status else describe(error))
    click.echo(f"The admin at {endpoint} is ready.")
