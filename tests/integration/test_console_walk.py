"""Every page that links lead to: it shows values as text, changes nothing, and tells commands that rainbowctl has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import quote

import click
import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select

from admin.console.commands import selector_options, update_options
from admin.store.database import metadata
from ctl.cli.session import Session
from ctl.client.selectors import parse_selector
from ctl.main import root
from tests.integration.test_console import send
from tests.support.apps import context_of, opened_app
from tests.support.console_walks import walked
from tests.support.hostile_values import EMOJI, LONG, MARKUP, RIGHT_TO_LEFT, store_hostile_values
from tests.support.placing import API, DOMAIN, PROJECT, created, ok, put_cluster

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
#: What looking at pages may write: when a token was used, and what the index has read.
_NOTED = {"audit_events", "cluster_tokens", "user_tokens"}


def hostile(app: Flask) -> FlaskClient:
    """An admin with markup in every value that may have it."""
    api = app.test_client()
    store_hostile_values(lambda method, path, body: ok(api.open(f"{API}/{path}", method=method, json=body)))
    created(api, "waits", job={"command": ["true"]})
    pool = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "none"}}}}
    ok(api.put(f"{API}/project_attributes/{PROJECT}", json={**pool, "message": MARKUP, "claimed_by": "ann"}))
    return api


def counts(app: Flask) -> dict[str, int]:
    """How many rows each table has."""
    with context_of(app).database.reading() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
            if table.name not in _NOTED
        }


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The text of every page that links lead to from the first one, each path with one query."""
    with opened_app(f"sqlite:///{tmp_path_factory.mktemp('walk') / 'rainbow.db'}") as app:
        api = hostile(app)
        before = counts(app)
        search = f"search={quote(MARKUP)}"
        starts = ["/console/", f"/console/executions?{search}", f"/console/executions?by=reason&{search}"]
        starts += ["/console/executions?created_before=1d&gpu=0&filters=contains(workflow,a)", "/console/sign-in"]
        texts = walked(api, starts)
        assert counts(app) == before, "looking at pages has changed something"
        yield texts


def test_pages_show_every_value_as_text(pages: dict[str, str]) -> None:
    assert len(pages) > 6
    for address, text in pages.items():
        assert "<script>alert" not in text, address
        assert "<img src=x" not in text, address
        assert "&#39;49" not in text, address
        assert not re.search(r"""(?i)(href|action|src)=["']?\s*javascript:""", text), address
        assert not re.search(r"<script(?! [^>]*src=)|<style|\sstyle=|<[^>]*\son[a-z]+=\"", text), address
    for value in (MARKUP, RIGHT_TO_LEFT, EMOJI, LONG[-9000:]):
        shown = [address for address, text in pages.items() if value in unescape(text)]
        assert len(shown) > 3, value[:50]


def test_rainbowctl_has_every_command_that_pages_tell(pages: dict[str, str]) -> None:
    commands = {
        unescape(found): address
        for address, text in pages.items()
        for found in re.findall(r"<code>(rainbowctl [^<]*)</code>", text)
    }
    assert len(commands) > 4
    for command, address in commands.items():
        try:
            parse(shlex.split(command)[1:])
        except (click.UsageError, ValueError) as problem:
            pytest.fail(f"{address}: {command}: {problem}")
    assert any(" contains " in command for command in commands)


def parse(words: list[str]) -> click.Context:
    """Read a command line as rainbowctl does, and run nothing."""
    ctx = root().make_context("rainbowctl", list(words), obj=Session())
    while isinstance(ctx.command, click.Group):
        name, command, rest = ctx.command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        assert command is not None
        ctx = command.make_context(name, rest, parent=ctx)
    for param in ctx.command.params:
        if "--filter.fieldSelector" in param.opts and (selector := ctx.params.get(str(param.name))):
            assert parse_selector(selector, "--filter.fieldSelector", now=datetime.now(UTC))
    return ctx


def test_what_no_flag_says_is_a_field_selector() -> None:
    selector = {
        "phase": "QUEUED",
        "launch_plan": "nightly",
        "node": "a,b",
        "filters": 'contains(name,"a,(b)\\"")+eq(labels.team,ml)',
    }
    options = selector_options(selector)
    assert options[:4] == ["--phase", "QUEUED", "--launchPlan", "nightly"]
    assert options[4] == "--filter.fieldSelector"
    assert options[5] == 'node in (a;b),name contains a\\,\\(b\\)",labels.team=ml'


@pytest.mark.parametrize("search", ["a,b", "a)b", "((", 'say "a"', "\\", "ü🌈", "+"])
def test_any_text_is_searched_for_in_names(shared: FlaskClient, search: str) -> None:
    page = shared.get(f"/console/executions?search={quote(search)}")
    assert page.status_code == 200
    assert "fieldSelector" in page.text


def test_a_search_that_no_name_can_fit_is_refused_at_its_field(shared: FlaskClient) -> None:
    for search in ("\0", "x" * 20_000):
        refused = shared.get(f"/console/executions?search={quote(search)}")
        assert (refused.status_code, "search: " in refused.text) == (400, True)


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ({"payload": {"a": 1}}, ["--attrFile", "FILE"]),
        (
            {"set": {"limits.cpu": "2", "tags": ["a,b"]}, "unset": ["limits.gpu"], "inherit": ["defaults.cpu"]},
            [
                *("--set", 'limits.cpu="2"', "--set", 'tags=["a,b"]'),
                *("--unset", "limits.gpu", "--inherit", "defaults.cpu"),
            ],
        ),
    ],
)
def test_a_planned_change_is_a_command(change: dict[str, Any], options: list[str]) -> None:
    assert update_options(change) == options


def flags_of(words: list[str]) -> dict[str, Any]:
    """What rainbowctl reads from a command line."""
    return {name: value for name, value in parse(words).params.items() if value not in (None, (), False, "")}


def commands_on(api: FlaskClient, address: str) -> list[dict[str, Any]]:
    """The commands beside a page as rainbowctl reads them."""
    page = api.get(address)
    assert page.status_code == 200, page.text
    commands = re.findall(r"<code>(rainbowctl [^<]*)</code>", page.text)
    return [flags_of(shlex.split(unescape(command))[1:]) for command in commands]


def test_commands_have_what_the_address_of_their_page_has(shared: FlaskClient, project: str) -> None:
    put_cluster(shared, f"east-{project}", cluster_resources=True)
    created(shared, "e", project=project)
    [history] = commands_on(
        shared,
        "/console/history?after=7d&before=1h&actor=ann&source=revision&executions=true&resource_type=CLUSTER"
        f"&name=east-{project}",
    )
    values = [value for value in history.values() if isinstance(value, str)]
    assert {"7d", "1h", "ann", "revision", "cluster", f"east-{project}"} <= set(values)
    assert True in history.values()
    [listed] = commands_on(shared, "/console/executions?phase=QUEUED&sort_by.key=name&sort_by.direction=ASCENDING")
    assert (listed["sort_by"], listed["is_ascending"]) == ("name", True)
    address = f"/console/executions/{project}/{DOMAIN}/e?why_not=east-{project}&decision=1"
    explained = commands_on(shared, address)[1]
    assert {f"east-{project}", 1} <= {value for value in explained.values() if isinstance(value, str | int)}
    [namespaces] = commands_on(shared, f"/console/fleet/namespaces?cluster=east-{project}&failing=true")
    assert f"east-{project}" in namespaces.values()
    assert True in namespaces.values()


def test_what_a_form_of_creation_says_is_a_command(shared: FlaskClient, project: str) -> None:
    put_cluster(shared, f"east-{project}")
    job = {
        "command": ["sh", "-c", "echo 'a b'"],
        "image": "debian",
        "resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "duration": "1h"},
        "environment": {"A": "b c"},
    }
    created(shared, "e", project=project, job=job, cluster=f"east-{project}", retry={"attempts": 3, "on_lost": "fail"})
    commands = commands_on(shared, f"/console/create?like={project}/{DOMAIN}/e")
    assert len(commands) == 2  # the preview, and the creation
    for command in commands:
        texts = {name: value for name, value in command.items() if isinstance(value, str | int)}
        assert {"debian", "2", "1Gi", "1h", f"east-{project}", 2, "fail"} <= set(texts.values())
        assert {"A": "b c"} in command.values()
        assert any("echo 'a b'" in value for value in command.values() if isinstance(value, tuple | list))


def test_the_request_of_a_plan_is_shown_with_the_version_that_it_expects(shared: FlaskClient, project: str) -> None:
    row = f"project={project}&domain={DOMAIN}&resource_type=TASK_RESOURCE"
    form = f"/console/settings/edit?{row}&form=raw"
    planned = send(shared, form, form, version="0", payload="defaults: {cpu: '1'}")
    assert planned.status_code == 200, planned.text
    lines = [unescape(line) for line in re.findall(r"<code>([^<]*)</code>", planned.text)]
    assert any(line.startswith("rainbowctl update task-resource-attribute") for line in lines)
    [request] = [line for line in lines if line.startswith("curl")]
    assert "-X PUT" in request
    assert "-H 'If-None-Match: *'" in request
    assert "dry_run=true" in request
