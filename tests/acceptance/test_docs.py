"""The documentation is true: its commands run, its links lead somewhere, and nothing is left out."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from admin import errors, metrics
from admin.app import all_operations
from admin.configuration import environment_variables, load_settings
from admin.configuration.keys import CONFIGURATION
from admin.core.fields.branches import MapOf, Section
from admin.core.fields.leaves import Field
from admin.core.settings.warnings import WarningCode
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import admin_of_agents, running_site
from tests.support.shells import CONFIG, Shell

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
README = ROOT / "README.md"
#: Done by the test itself: a running admin, and the programs on the path.
NOT_RUN = {"make run", "make test", ". .venv/bin/activate"}
#: What asks at a terminal.
ASKING = re.compile(r"^rainbowctl (update|delete|rollback|apply|export|redecide) ")


def commands(text: str) -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def outputs(section: str) -> list[str]:
    """What a section says that its commands print, as one expression each; an ellipsis stands for anything.

    A block that begins with a command of its own shows what would happen in another state.
    """
    blocks = re.findall(r"```console\n.*?```.*?```text\n(?!\$ )(.*?)```", section, flags=re.DOTALL)
    return [".*".join(re.escape(" ".join(part.split())) for part in block.split("…")) for block in blocks]


def shell_of(admin: RunningAdmin, directory: Path) -> Shell:
    """A shell in a directory as `make run` leaves it."""
    shell = Shell(admin, directory)
    shutil.copytree(CONFIG, shell.cwd / "config")
    (shell.cwd / ".rainbow").mkdir()
    (shell.cwd / ".rainbow/token").write_text("as `make run` writes it\n")
    return shell


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page.read_text())], ids=lambda page: page.name)
def test_the_commands_of_a_page_work_in_order_on_a_new_admin(page: Path, admin: RunningAdmin, tmp_path: Path) -> None:
    shell = shell_of(admin, tmp_path)
    not_printed: dict[str, str] = {}
    for section in re.split(r"^##+ ", page.read_text(), flags=re.MULTILINE):
        printed = ""
        for command in commands(section):
            done = shell.run(command.replace("http://127.0.0.1:8088", admin.url))
            assert done.status == 0, f"{command}\n{done.out}{done.err}"
            assert '"error"' not in done.out, f"{command}\n{done.out}"
            printed += f"{done.out} {done.err} "
        missing = [output for output in outputs(section) if not re.search(output, " ".join(printed.split()))]
        not_printed |= dict.fromkeys(missing, printed)
    assert not_printed == {}


def test_the_blocks_of_the_readme_work_in_order_beside_an_agent_as_they_are_pasted(tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(), flags=re.DOTALL)
    lines = [[line for line in block.splitlines() if line not in NOT_RUN] for block in blocks]
    asking = [line for block in lines for line in block if ASKING.search(line) and "--dryRun" not in line]
    assert [line for line in asking if not line.endswith(" --force")] == []
    [pasted] = [block for block in lines if sum(line in asking for line in block) == 3 and "explain" in block[-1]]
    with admin_of_agents(tmp_path) as admin, running_site(admin, tmp_path / "site", cluster="local") as site:
        site.start()
        shell = shell_of(admin, tmp_path)
        for block in lines:
            if block is pasted:
                statuses, screen = shell.paste(block)
                assert statuses == [0] * len(block), screen
                continue
            for line in block:
                out = shell.ok(line.replace("http://127.0.0.1:8088", admin.url))
                assert '"error"' not in out, f"{line}\n{out}"
                assert "--logs" not in line or out == "Hello, world\n", out
        # After the tour nothing waits for a cluster that nobody runs.
        spec = {"job": {"command": ["true"]}}
        for name in (f"first-{number}" for number in range(5)):
            request = {"project": "flytesnacks", "domain": "development", "name": name, "spec": spec}
            answer = shell.rest("POST", "executions", request)
            assert (answer["execution"]["cluster"], answer["warnings"]) == ("local", [])
        codes = [warning["code"] for warning in shell.rest("GET", "warnings")["warnings"]]
        assert "unseen_cluster" not in codes


@pytest.mark.parametrize("page", [*PAGES, *(ROOT / "docs").glob("*/*.md")], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs/index.md").read_text()
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        assert page.name == "index.md" or f"{page.name})" in index, f"{page.name} is not in docs/index.md"


def test_every_guarantee_names_a_test_that_exists() -> None:
    text = (ROOT / "docs/guarantees.md").read_text()
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert f"def {name}(" in (ROOT / path).read_text(), f"{path} has no {name}"
    for line in text.splitlines():
        assert not line.startswith("- ") or "::test_" in line or "not promised" in line.lower(), line


def keys(field: Field, path: str = "") -> set[str]:
    """The last words of every configuration key; what the platform teams name themselves does not count."""
    if isinstance(field, Section):
        return set(field.fields) | {key for inner in field.fields.values() for key in keys(inner)}
    return set()


def test_the_shipped_configuration_explains_every_key_and_holds_the_defaults() -> None:
    text = (ROOT / "config/rainbow.yaml").read_text()
    payload_fields = keys(CONFIGURATION.fields["workflow_execution_config"])
    for key in keys(CONFIGURATION) - payload_fields - {"storage", "ephemeral_storage"}:
        assert re.search(rf"(^|[\s{{#])\s*{key}:", text, flags=re.MULTILINE), f"{key} is not in config/rainbow.yaml"
    assert load_settings(str(ROOT / "config/rainbow.yaml")).document == load_settings().document
    assert isinstance(CONFIGURATION.fields["kinds"], MapOf)


def test_every_section_and_variable_is_documented() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    for name in [*CONFIGURATION.fields, *environment_variables()]:
        assert f"`{name}`" in text, f"{name} is not in docs/configuration.md"


def test_every_path_and_error_is_documented() -> None:
    text = (ROOT / "docs/api.md").read_text() + (ROOT / "docs/operations.md").read_text()
    for operation in all_operations():
        path = re.sub(r"<(?:rest:)?([a-z_]+)>", r"{\1}", operation.path.removeprefix("/api/v1/"))
        assert path in text, f"{path} is not documented"
    named = {
        kind.name
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.RainbowError) and not kind.__subclasses__()
    }
    assert len(named) > 10
    for name in named:
        assert f"`{name}`" in text, f"the error {name} is not documented"


def test_every_metric_and_warning_is_documented() -> None:
    operations = (ROOT / "docs/operations.md").read_text()
    names = re.findall(r'"(rainbow_[a-z_]+)"', Path(metrics.__file__).read_text())
    assert len(names) > 10
    for metric in names:
        assert f"`{metric}`" in operations, f"{metric} is not documented"
    concepts = (ROOT / "docs/concepts.md").read_text()
    for code in WarningCode:
        assert f"`{code.value}`" in concepts, f"the warning {code.value} is not documented"
