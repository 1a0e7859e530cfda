"""rainbow-agent: the command line of the agent beside a cluster."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("rainbow"), prog_name="rainbow-agent")
def main() -> None:
    """The Rainbow agent stands beside a cluster and calls out to the admin; the admin never calls it.

    This version checks the way to the admin; leasing and running executions is not part of it yet.
    """


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
        domains = requests.get(f"{endpoint.rstrip('/')}/api/v1/domains", **options)
    except requests.exceptions.SSLError:
        _fail(f"the certificate of {endpoint} is not trusted: give the right CA with --ca-file")
    except (requests.ConnectionError, requests.Timeout):
        _fail(f"the admin at {endpoint} does not answer: check --endpoint, and that the admin runs")
    except (OSError, ValueError) as error:
        _fail(str(error))
    if ready.status_code != 200:
        _fail(f"the admin at {endpoint} is not ready: {_message(ready)}")
    if domains.status_code != 200:
        _fail(f"the admin at {endpoint} refuses this agent: {_message(domains)}")
    click.echo(f"The admin at {endpoint} is ready.")


def _message(response: Any) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}"


def _fail(reason: str) -> None:
    click.echo(f"error: {reason}", err=True)
    sys.exit(1)
