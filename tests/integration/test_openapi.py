"""The OpenAPI document can be used: every body has an example, which is accepted, and no part of it is opaque."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from flask.testing import FlaskClient

from admin.core.grants import Grant, Grantee
from admin.messages.tokens import RegisterClusterBody
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.grants import grant_write
from admin.services.changeable.users import user_write
from admin.services.changes import make_change
from admin.services.user_tokens import create_token
from tests.support.apps import context_of, opened_app
from tests.support.databases import SqliteDatabases

#: What is described is the same on each kind of database.
DATABASES = ("sqlite",)
#: Operations that others need, in their order; and those that end what others need.
FIRST = [
    *("change_attributes", "roll_back"),
    *(
        "create_cluster",
        "register_cluster",
        "sync_cluster",
        "exchange_cluster_resources",
        "create_pool",
        "create_label",
    ),
    *("register_workflow", "register_launch_plan", "create_execution"),
]
LAST = [
    *("terminate_execution", "recover_execution", "drain_cluster", "undrain_cluster"),
    *("delete_use_grant", "delete_label", "delete_pool", "delete_cluster", "delete_grant", "delete_group"),
    "delete_cluster_group",
    *("create_user", "put_user", "create_user_token", "delete_user"),  # with a user, everything needs a token
]
#: What there is only after a database was restored.
ABSENT = {"end_reconciliation": 404, "allocate_tokens": 404, "renew_tokens": 409, "release_tokens": 409}

Document = dict[str, Any]


@pytest.fixture(scope="module")
def api(sqlite_databases: SqliteDatabases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    directory: Path = tmp_path_factory.mktemp("openapi")
    secret = directory / "secret"
    secret.write_text(RegisterClusterBody.example["secret"])
    secret.chmod(0o600)
    with opened_app(sqlite_databases.set_up(directory), clusters={"registrationSecretFile": str(secret)}) as app:
        yield app.test_client()


@pytest.fixture(scope="module")
def document(api: FlaskClient) -> Document:
    answer: Document = api.get("/api/v1/openapi.json").get_json()
    return answer


def operations(document: Document) -> list[tuple[str, str, Document]]:
    """The method, path and description of each operation, in an order in which their examples are accepted."""
    listed = [(method, path, item) for path, methods in document["paths"].items() for method, item in methods.items()]

    def place(operation: tuple[str, str, Document]) -> int:
        id = operation[2]["operationId"]
        if id in FIRST:
            return FIRST.index(id) - len(FIRST)
        return 1 + LAST.index(id) if id in LAST else 0

    return sorted(listed, key=place)


def test_no_two_messages_have_the_same_name(document: Document) -> None:
    assert [name for name in document["components"]["schemas"] if "." in name] == []


def test_every_operation_has_an_id_of_its_own(document: Document) -> None:
    ids = Counter(item["operationId"] for _method, _path, item in operations(document))
    assert [id for id, count in ids.items() if count > 1] == []
    assert {*FIRST, *LAST} <= set(ids)


def administrator(user: str) -> Grant:
    return Grant(role="admin", grantee=Grantee("user", user))


#: What a cluster's agent sends with its own token, after it has registered.
OF_AGENTS = ("sync_cluster", "exchange_cluster_resources")


def test_every_example_is_a_request_that_is_accepted(api: FlaskClient, document: Document) -> None:
    refused: dict[str, str] = {}
    agent: dict[str, str] = {}
    user: dict[str, str] = {}
    sent = 0
    for method, path, item in operations(document):
        if "requestBody" not in item:
            continue
        parameters = item["parameters"]
        examples = {
            parameter["name"]: parameter.get("example", parameter["schema"].get("example")) for parameter in parameters
        }
        needed = [parameter["name"] for parameter in parameters if is_needed(parameter)]
        query = {name: examples[name] for name in needed}
        url = path.format_map(examples)
        body = item["requestBody"]["content"]["application/json"]["example"]
        answer = api.open(
            url,
            method=method.upper(),
            query_string=query,
            json=body,
            headers=agent if item["operationId"] in OF_AGENTS else user,
        )
        if item["operationId"] == "create_user":
            context, name = context_of(api.application), body["user"]["name"]
            others = [user_write("root", {}), *(grant_write(administrator(user)) for user in ("root", name))]
            make_change(context, others, ChangeOptions())  # so that it is not the last administrator who is deleted
            create_token(context, "root", "example")
            issued = create_token(context, name, "example")
            user = {"Authorization": f"Bearer {issued.token}"}
        if item["operationId"] == "register_cluster":
            agent = {"Authorization": f"Bearer {answer.get_json()['token']}"}
        if answer.status_code != ABSENT.get(item["operationId"], 200):
            refused[item["operationId"]] = answer.get_data(as_text=True)
        sent += 1
    assert refused == {}
    assert sent > 50


def is_needed(parameter: Document) -> bool:
    return parameter["in"] == "query" and bool(parameter.get("required"))


def test_every_example_is_as_the_document_describes_it(document: Document) -> None:
    for _method, _path, item in operations(document):
        if "requestBody" in item:
            content = item["requestBody"]["content"]["application/json"]
            schema = {**content["schema"], "components": document["components"]}
            jsonschema_rs.validator_for(schema).validate(content["example"])


def test_no_part_of_a_body_is_opaque(document: Document) -> None:
    for _method, _path, item in operations(document):
        if "requestBody" in item:
            schema = item["requestBody"]["content"]["application/json"]["schema"]
            assert list(opaque_parts(schema, document, set())) == [], item["operationId"]
    spec = document["components"]["schemas"]["ExecutionSpec"]
    assert {"job", "launch_plan", "cluster_assignment"} <= spec["properties"].keys()
    assert "command" in spec["properties"]["job"]["properties"]


def opaque_parts(schema: Document, document: Document, seen: set[str], path: str = "") -> Iterator[str]:
    """Where objects of which the document says nothing stand."""
    if "$ref" in schema:
        if schema["$ref"] in seen:
            return
        seen.add(schema["$ref"])
        target = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    says = schema.keys() & {"properties", "additionalProperties", "description"}
    if "object" in (schema.get("type"), *schema.get("type", ())) and not says:
        yield path
    for name, part in schema.get("properties", {}).items():
        yield from opaque_parts(part, document, seen, f"{path}.{name}")
    if "items" in schema:
        yield from opaque_parts(schema["items"], document, seen, f"{path}[]")


def test_a_browser_is_led_to_the_console_and_a_program_told_of_the_documentation(api: FlaskClient) -> None:
    page = api.get("/", headers={"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"})
    assert (page.status_code, page.location, page.headers["Vary"]) == (302, "/console/", "Accept")
    assert "swagger" in api.get("/api/v1/docs/").get_data(as_text=True)
    for accepted in ("*/*", "application/json"):
        answer = api.get("/", headers={"Accept": accepted})
        assert (answer.status_code, answer.get_json()["documentation"]) == (200, "/api/v1/docs/")
    assert api.get("/", headers={"Accept": "text/html"}, query_string={"x": 1}).status_code == 400
