"""What the documentation lists is what the code has: phases, fields, codes, keys, types, statuses and metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from admin import metrics
from admin.app import all_operations
from admin.configuration import environment_variables
from admin.configuration.keys import CONFIGURATION
from admin.core.executions import attempts
from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import CLUSTER_LOST, DRAINED
from admin.core.executions.selectors import FIELDS
from admin.core.fields.branches import Section
from admin.core.fields.leaves import Field
from admin.core.jobs.input_types import TYPES
from admin.core.jobs.job import JOB
from admin.core.permissions import PERMISSIONS, ROLES
from admin.core.placement.decisions import ASSIGNED
from ctl.client.errors import EXIT_BROKEN_PIPE, EXIT_CODES

ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))}
#: Variables that other programs and libraries read.
FOREIGN = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "NO_COLOR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
#: Of other formats: of Flyte, which is refused here, and of Flux's jobspecs.
FOREIGN_KEYS = {"cluster_resources.templatePath", "attributes.system", "limits.memory"}


def rows(page: str, head: str) -> list[list[str]]:
    """The cells of the table of a page whose first column has this head."""
    [table] = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGES[page], flags=re.MULTILINE)
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()]
    return [[cell.strip() for cell in line] for line in lines]


def names(cell: str) -> list[str]:
    """The names in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def test_the_phases_and_what_may_follow_each() -> None:
    documented = {
        name: set(names(following))
        for phases, _meaning, following in rows("executions", "phase")
        for name in names(phases)
    }
    assert documented == {phase.value: {other.value for other in Phase if phase.may_become(other)} for phase in Phase}


def test_the_fields_of_a_job() -> None:
    documented = {name for row in rows("executions", "field of a job") for name in names(row[0])}
    resources = JOB.fields["resources"]
    assert isinstance(resources, Section)
    assert documented == (JOB.fields.keys() - {"resources"}) | {f"resources.{name}" for name in resources.fields}


def test_the_types_of_inputs() -> None:
    assert {name for row in rows("executions", "type") for name in names(row[0])} == set(TYPES)


def test_the_fields_to_select_by() -> None:
    [listed] = re.findall(r"`not in \(A;B\)`, on\s([a-z_,\s]+?\sand\s[a-z_]+)", PAGES["executions"])
    assert sorted(re.split(r",\s|\sand\s", listed.replace("\n", " "))) == sorted(FIELDS)


@pytest.mark.parametrize("reason", [ASSIGNED, CLUSTER_LOST, attempts.CLUSTER_SILENT, DRAINED, attempts.UNDECIDED])
def test_every_reason_is_explained(reason: str) -> None:
    """Those of filters are compared beside the filters."""
    assert f"`{reason}`" in PAGES["executions"] + PAGES["placement"]


def test_every_code_that_is_named_exists() -> None:
    """A code that was renamed, or is given no longer, must not stay in the documentation."""
    sources = [path for package in ("admin", "agent", "ctl", "tests") for path in (ROOT / package).rglob("*.py")]
    words = set(re.findall(r"\b[A-Z][A-Z_]+\b", "\n".join(path.read_text() for path in sources)))
    words |= {*environment_variables(), *FOREIGN}
    for page, text in PAGES.items():
        assert {code for code in re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", text) if code not in words} == set(), page


def test_every_configuration_key_that_is_named_exists() -> None:
    for page in PAGES.keys() - {"architecture"}:  # which names modules
        keys = re.findall(r"`([a-zA-Z_]+(?:\.[a-zA-Z_]+)+)`", PAGES[page])
        of_sections = {key for key in keys if key.split(".")[0] in CONFIGURATION.fields} - FOREIGN_KEYS
        of_sections -= PERMISSIONS.keys()
        assert {key for key in of_sections if not is_key(key)} == set(), page


def is_key(key: str) -> bool:
    field: Field = CONFIGURATION
    for word in key.split("."):
        if not isinstance(field, Section):
            return True  # a name of the platform team's
        if word not in field.fields:
            return False
        field = field.fields[word]
    return True


def test_the_permission_of_every_route() -> None:
    documented = {names(route)[0]: names(permission)[0] for route, permission in rows("grants", "route")}
    declared = {
        f"{operation.method} {shown_path(operation.path)}": operation.permission for operation in all_operations()
    }
    assert documented == declared
    assert list(documented) == list(declared), "in the order of the OpenAPI document"


def shown_path(path: str) -> str:
    return re.sub(r"<(?:rest:)?([a-z_]+)>", r"{\1}", path.removeprefix("/api/v1/"))


def test_the_permissions_and_roles() -> None:
    documented = {names(name)[0]: (allows, held) for name, allows, held in rows("grants", "permission")}
    assert documented == {name: (item.description, item.place.value) for name, item in PERMISSIONS.items()}
    described = {names(name)[0]: description for name, description in rows("grants", "role")}
    assert described == {role.name: role.description for role in ROLES.values()}


def test_every_metric_that_is_named_exists() -> None:
    names = re.findall(r'"(rainbow_[a-z_]+)"', Path(metrics.__file__).read_text())
    for page, text in PAGES.items():
        assert set(re.findall(r"`(rainbow_[a-z_]+)`", text)) <= set(names), page


def test_the_exit_statuses() -> None:
    documented = {int(status): meaning.replace("`", "") for status, meaning in rows("rainbowctl", "status")}
    assert documented.pop(EXIT_BROKEN_PIPE)
    assert documented == EXIT_CODES
