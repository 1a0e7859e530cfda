"""The OpenAPI document is honest: what it describes is what the admin takes and answers.

Checks that are left out, and why:

* positive_data_acceptance: a schema cannot say which projects exist, that a default must not exceed a limit, or that a
  quantity fits a machine, so much that fits the schema is rightly refused. The examples of `kinds` are tested instead.
* negative_data_rejection: more is welcome than is documented (camelCase names, Flyte's enum numbers, `{value: true}`,
  environment variables as a map), and every query parameter is text. The tables of bad requests are exact instead.
* use_after_free, ensure_resource_availability, object_level_authorization: they follow links between operations, and
  the document has none; a project cannot be deleted, and there are no users yet.
* missing_required_header: no header is required but Authorization, which ignored_auth covers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import (
    allow_header_conformance,
    content_type_conformance,
    ignored_auth,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from admin.app import all_operations
from tests.conftest import Scale
from tests.support.apps import opened_app
from tests.support.databases import SqliteDatabases

TOKEN = "a-token-for-the-tests"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
    allow_header_conformance,
]
#: Half of the random names are ones that exist, so that requests get beyond the first check.
REAL = {
    "project": ["flyteexamples", "flytesnacks"],
    "id": ["flyteexamples", "flytesnacks"],
    "domain": ["development", "staging", "production"],
    "workflow": ["core.sort"],
    "launch_plan": ["nightly"],
    "name": ["local", "mycluster", "core.sort"],
    "version": ["1", "latest"],
    "prefix": ["0a0a0a0a"],
    "number": ["1", "2"],
    "resource_type": [*map(str, range(8)), "10"],
}


@pytest.fixture(scope="module")
def guarded_app(sqlite_databases: SqliteDatabases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An app with a token, for all examples of this module."""
    directory: Path = tmp_path_factory.mktemp("openapi")
    token_file = directory / "token"
    token_file.write_text(TOKEN)
    many = {"wrongTokensPerMinute": 1_000_000}  # every operation is tried with wrong ones
    server = {"apiTokenFile": str(token_file)}
    with opened_app(sqlite_databases.set_up(directory), server=server, limits=many) as app:
        yield app


@pytest.fixture(scope="module")
def api_schema(guarded_app: Flask) -> Any:
    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", guarded_app)


OPERATIONS = sorted((operation.path, operation.method) for operation in all_operations())
every_operation = pytest.mark.parametrize(
    ("path", "method"), [(re.sub(r"<(?:rest:)?([a-z_]+)>", r"{\1}", path), method) for path, method in OPERATIONS]
)


def bounded(examples: int) -> settings:
    """The same examples in every run, so that a failure stays until it is mended."""
    return settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


@every_operation
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_an_operation_answers_as_documented(
    api_schema: Any, path: str, method: str, mode: GenerationMode, scale: Scale
) -> None:
    operation = api_schema[path][method]
    if mode is GenerationMode.NEGATIVE and not (operation.query or operation.body or operation.path_parameters):
        return  # it takes nothing, so nothing can be wrong

    @given(case=operation.as_strategy(generation_mode=mode))
    @bounded(scale(3, full=50))
    def check(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(headers=HEADERS, checks=CHECKS)

    check()


@every_operation
def test_an_operation_answers_as_documented_where_the_names_exist(
    api_schema: Any, path: str, method: str, scale: Scale
) -> None:
    names = st.fixed_dictionaries({name: st.sampled_from(real) for name, real in REAL.items()})

    @given(case=api_schema[path][method].as_strategy(), chosen=names)
    @bounded(scale(5, full=50))
    def check(case: schemathesis.Case[Any], chosen: dict[str, str]) -> None:
        case.path_parameters = {name: chosen[name] for name in case.path_parameters or {}}
        if case.query and "resource_type" in case.query:
            case.query["resource_type"] = chosen["resource_type"]
        case.headers.clear()
        case.call_and_validate(headers=HEADERS, checks=CHECKS)

    check()


@every_operation
def test_an_operation_wants_the_token_that_it_says_it_wants(api_schema: Any, path: str, method: str) -> None:
    @given(case=api_schema[path][method].as_strategy())
    @bounded(2)
    def check(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(headers=HEADERS, checks=[not_a_server_error, ignored_auth])

    check()


def test_the_document_lists_every_route(guarded_app: Flask) -> None:
    document = guarded_app.test_client().get("/api/v1/openapi.json").get_json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routed = {
        (method, str(rule).replace("<rest:", "<").replace("<", "{").replace(">", "}"))
        for rule in guarded_app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if not str(rule).startswith(("/api/v1/docs", "/static", "/console"))
    }
    assert described == routed


def test_every_pattern_is_one_that_any_json_schema_validator_reads(guarded_app: Flask) -> None:
    """JSON Schema's expressions are ECMAScript's, which knows no \\Z, \\A, (?P…) or (?i)."""
    document = guarded_app.test_client().get("/api/v1/openapi.json").get_json()
    foreign = [
        pattern for pattern in _patterns(document) if any(word in pattern for word in (r"\Z", r"\A", "(?P", "(?i"))
    ]
    assert foreign == []


def _patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key == "pattern" and isinstance(value, str))
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from _patterns(item)
