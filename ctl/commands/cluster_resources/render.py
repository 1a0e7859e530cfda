"""`render cluster-resources`: the Kubernetes objects of a namespace, as YAML."""

from __future__ import annotations

from collections.abc import Iterator

from ctl.cli.groups import command
from ctl.cli.options import Option, definition_completer, domain_option, project_option
from ctl.cli.scopes import project_domain
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import WarningsFound
from ctl.client.formats import printable

_HELP = """Show the Kubernetes objects that the templates make of a project and domain. Nothing is written.

The objects are printed as YAML, which `kubectl diff -f -` reads; comments say which template each comes from, and where
each of its values was set. Values that the admin reads from its environment or from files are not shown. Where a
variable has no value, or a template is wrong, nothing is made of this namespace: the file, the line and the reason are
printed, and the exit status is not 0.
"""


@command(
    help=_HELP,
    params=[
        project_option(),
        domain_option(),
        Option(
            ["--cluster"],
            metavar="NAME",
            shell_complete=definition_completer("cluster"),
            help="Ask for a cluster, whose agent must make namespaces.",
        ),
    ],
    examples=[
        "rainbowctl render cluster-resources -p flyteexamples -d development",
        "rainbowctl render cluster-resources -p flyteexamples -d development -o json",
    ],
)
def render_cluster_resources(session: Session, cluster: str | None) -> None:
    project, domain = project_domain(session)
    rendering = session.client.render_cluster_resources(project, domain, cluster)
    if not session.printer.machine_output([f"cluster-resources/{rendering['namespace']}"], rendering):
        for line in _yaml_lines(rendering):
            session.printer.text(f"{line}\n")
    if rendering["problems"]:
        raise WarningsFound(
            f"Nothing is made of the namespace {rendering['namespace']}: " + " ".join(rendering["problems"])
        )


def _yaml_lines(rendering: Document) -> Iterator[str]:
    """The objects as YAML with comments."""
    import yaml

    origins = {variable["name"]: variable for variable in rendering["variables"]}
    clusters = ", ".join(rendering["clusters"]) or "no cluster; none says clusterResources: true"
    yield f"# namespace {rendering['namespace']}, revision {rendering['revision']}, templates: {rendering['templates']}"
    yield f"# made on: {clusters}"
    for entry in rendering["objects"]:
        yield "---"
        yield printable(f"# {entry['object']}, from {entry['template']}:{entry['line']}")
        for name in entry["variables"]:
            yield printable(f"#   {name}: {_one_line(origins[name]['value'])}, set by {origins[name]['text']}")
        text = yaml.safe_dump(entry["document"], sort_keys=False, allow_unicode=True, width=1000)
        yield text.rstrip("\n")


def _one_line(value: str) -> str:
    shown = " ".join(value.split())
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
