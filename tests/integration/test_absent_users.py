"""What is told of grants and groups that name users who do not exist, on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services import user_tokens
from admin.testing import running_admin
from ctl.main import run
from tests.integration.test_grants import changes, define, give, signed_in
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, created, get, ok, put_cluster

SLOW_ON = ("postgresql",)

UNTIL = "until a user of that name is created"


@pytest.fixture
def root(app: Flask) -> FlaskClient:
    """An administrator; otto and ana are users with grants."""
    anybody = app.test_client()
    define(anybody, "ml", "ana", "otto")
    give(anybody, role="admin", user="root")
    give(anybody, role="operator", user="otto")
    give(anybody, role="editor", group="ml", project=PROJECT)
    ok(anybody.post(f"{API}/use_grants", json={"use_grant": {"pool": "gpu", "user": "otto"}}))
    root = signed_in(app, "root")
    for name in ("ana", "otto"):
        ok(root.post(f"{API}/users", json={"user": {"name": name}}))
    return root


def codes(answer: Any, code: str) -> list[str]:
    return [warning["name"] for warning in answer["warnings"] if warning["code"] == code]


def test_a_deleted_user_has_no_access(root: FlaskClient) -> None:
    explaining = "access/explanation?user=otto&permission=clusters.switch"
    assert get(root, explaining)["allowed"]
    ok(root.delete(f"{API}/users/otto", json={"message": "left"}))
    explained = get(root, explaining)
    assert not explained["allowed"]
    assert explained["message"] == (
        "User otto lacks clusters.switch on platform: there is no such user. What gives it to that name has no effect "
        f"{UNTIL}: operator for user otto on platform."
    )
    [unknown] = explained["unknown_names"]
    assert unknown["message"].startswith("No user is called 'otto': it was deleted by revision ")
    assert ", root, " in unknown["message"]
    assert "'left'" in unknown["message"]
    held = get(root, "access/held?user=otto")
    assert held["message"].startswith("There is no user otto. 2 grants and 1 use grant given to that name")
    assert held["message"].endswith(f"have no effect {UNTIL}.")
    assert held["unknown_names"] == [unknown]
    scoped = get(root, f"access?project={PROJECT}&domain={DOMAIN}")
    assert {grant["name"]: grant.get("absent_users") for grant in scoped["grants"]} == {
        "admin:user:root": None,
        "operator:user:otto": ["otto"],
        f"editor:group:ml:{PROJECT}": ["otto"],
    }
    assert scoped["unknown_names"] == [unknown]


def test_who_may_not_read_users_is_told_that_a_grant_does_not_count(app: Flask, root: FlaskClient) -> None:
    give(root, role="admin", user="ana", project=PROJECT)
    give(root, role="viewer", user="otto", project=PROJECT)
    token = user_tokens.create_token(context_of(app), "ana", "laptop").token
    ok(root.delete(f"{API}/users/otto"))
    ana = app.test_client()
    ana.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    explained = get(ana, f"access/explanation?user=otto&permission=attributes.read&project={PROJECT}")
    assert not explained["allowed"]
    assert "there is no such user" in explained["message"]
    assert "unknown_names" not in explained
    [unknown] = get(ana, f"access?project={PROJECT}")["unknown_names"]
    assert unknown["message"] == "No user is called 'otto'."
    nobody = get(ana, f"access/explanation?user=anna&permission=attributes.read&project={PROJECT}")
    assert "no such user" not in nobody["message"]


def test_an_unknown_user_is_told_in_the_same_words(root: FlaskClient) -> None:
    explained = get(root, f"access/explanation?user=anna&permission=attributes.write&project={PROJECT}")
    assert explained["message"].startswith(f"User anna lacks attributes.write on project {PROJECT}: there is no such")
    [unknown] = explained["unknown_names"]
    assert unknown["message"] == "No user is called 'anna'. Did you mean 'ana'?"
    assert get(root, "access/held?user=anna")["unknown_names"] == [unknown]
    assert "unknown_names" not in get(root, "access/explanation?user=ana&permission=fleet.write")
    group = get(root, "access/explanation?group=mll&permission=fleet.write")
    assert group["unknown_names"][0]["message"] == "No group is called 'mll'. Did you mean 'ml'?"


def test_grants_to_users_and_groups_that_do_not_exist_are_warned_of(root: FlaskClient) -> None:
    assert codes(get(root, "warnings"), "unknown_user") == []
    given = give(root, role="viewer", user="anna")
    assert given["warnings"][0]["message"].startswith("No user is called 'anna'. Did you mean 'ana'? It has no effect")
    both = ({"user_definition": {"name": "mia"}}, {"grant_definition": {"role": "viewer", "user": "mia"}})
    assert codes(ok(changes(root, *both)), "unknown_user") == []
    ok(root.delete(f"{API}/users/otto"))
    idle = ["operator:user:otto", "viewer:user:anna", "pool:gpu:user:otto"]
    told = get(root, "warnings")
    assert codes(told, "unknown_user") == idle
    [message] = [warning["message"] for warning in told["warnings"] if warning["name"] == idle[0]]
    assert message.startswith("The user 'otto' was deleted by revision ")
    assert message.endswith(f"It has no effect {UNTIL}.")
    give(root, role="viewer", group="gone")
    no_effect = get(root, "matchable_attributes/no_effect")
    assert codes(no_effect, "unknown_user") == idle
    assert codes(no_effect, "unknown_group") == ["viewer:group:gone"]
    assert codes(get(root, f"matchable_attributes/no_effect?project={PROJECT}"), "unknown_user") == []


def test_what_stays_behind_a_deleted_user_is_named_and_counts_for_the_next_one(root: FlaskClient) -> None:
    left = ["operator:user:otto", "pool:gpu:user:otto", "ml"]
    for query in ("?dry_run=true", ""):
        deleted = ok(root.delete(f"{API}/users/otto{query}"))
        assert codes(deleted, "unknown_user") == left
        message = deleted["warnings"][0]["message"]
        assert message == f"The grant operator for user otto on platform stays. It has no effect {UNTIL}."
    for query in ("?dry_run=true", ""):
        created = ok(root.post(f"{API}/users{query}", json={"user": {"name": "otto"}}))
        [warning] = created["warnings"]
        assert (warning["code"], warning["name"]) == ("earlier_grants", "otto")
        assert warning["message"] == (
            "What was given to the name 'otto' before takes effect with this user: the grant operator for user otto on "
            "platform, the use grant pool:gpu:user:otto, the membership of group ml. `rainbowctl get access --user "
            "otto` lists it."
        )
    assert get(root, "access/explanation?user=otto&permission=clusters.switch")["allowed"]
    removal = {"grant_definition": {"name": "operator:user:otto"}, "delete": True}
    with_grant = ok(changes(root, {"user_definition": {"name": "otto"}, "delete": True}, removal))
    assert codes(with_grant, "unknown_user") == left[1:]


def test_the_text_says_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    token_file = tmp_path / "token"
    token_file.write_text("operators-token-1234567890")
    token_file.chmod(0o600)

    def command(line: str) -> str:
        capsys.readouterr()
        assert run(line.split()) == 0, capsys.readouterr().err
        printed = capsys.readouterr()
        return " ".join((printed.out + printed.err).split())

    with running_admin({"server": {"apiTokenFile": str(token_file)}}) as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        monkeypatch.setenv("RAINBOW_TOKEN", token_file.read_text())
        for name in ("ana", "otto"):
            command(f"create user {name}")
        command("create grant operator --user otto")
        command("create group ml --user ana --user otto")
        command("create grant editor --group ml -p flytesnacks")
        assert "The grant operator for user otto on platform stays." in command("delete user otto --dryRun")
        assert "Group ml keeps 'otto' as a member." in command("delete user otto --force")
        explained = command("explain access otto clusters.switch")
        assert "there is no such user" in explained
        assert "No user is called 'otto': it was deleted by revision" in explained
        assert "There is no user otto. 2 grants given to that name, 1 of them through group ml" in command(
            "get access --user otto"
        )
        scoped = command("get access -p flytesnacks -d development")
        assert "otto (no such user)" in scoped
        assert "No user is called 'otto'" in scoped
        assert "1 grant is given to users or groups that do not exist." in command("get no-effect")
        assert "Did you mean 'ana'?" in command("explain access anna attributes.write -p flytesnacks")
        assert "What was given to the name 'otto' before takes effect" in command("create user otto")


def test_who_may_see_some_is_told_that_of_names(app: Flask, root: FlaskClient) -> None:
    for name in ("birch", "hidden"):
        put_cluster(root, name)
    created(root, "r1")
    give(root, role="viewer", user="ana", project=PROJECT)
    ana = app.test_client()
    ana.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {user_tokens.create_token(context_of(app), 'ana', 'x').token}"
    assert get(ana, "matchable_attributes/no_effect")["partial"]
    for api, which in ((ana, "that you may see is called birhc"), (root, "is called 'birhc'")):
        [unknown] = get(api, "executions?filters=eq(cluster,birhc)")["unknown_names"]
        assert unknown["message"] == f"No cluster {which}. Did you mean 'birch'?"
        [unknown] = get(api, "executions?origin_scope=flytesnaks")["unknown_names"]
        assert "Did you mean 'project flytesnacks'" in unknown["message"]
