"""Users and their tokens, through the shell."""

from __future__ import annotations

import json
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.acceptance.test_server import rainbow_admin
from tests.support.admins import BEYOND_LOOPBACK, RunningAdmin, running_admin
from tests.support.http_agents import HttpAgent, write_configuration
from tests.support.shells import Shell
from tests.support.waiting import wait_until

SHARED = "shared-token-0123456789abcdef"


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def database(directory: Path) -> list[str]:
    return ["--database", f"sqlite:///{directory / 'rainbow.db'}"]


def token_of(directory: Path, *arguments: str) -> str:
    done = rainbow_admin("create-token", *arguments, *database(directory), cwd=directory)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"rbu-[0-9a-f]{8}-[\w-]{43}\n", done.stdout)
    return done.stdout.strip()


def refusal_within_a_second(shell: Shell, command: str, **variables: str) -> str:
    """What a command is refused with; each worker knows of it within a second."""

    def refusal() -> str:
        done = shell.run(command, **variables)
        return done.err if done.status == 4 else ""

    return wait_until(refusal, 30)


def test_the_first_user_gets_in_from_the_host_and_then_everybody_needs_a_token(shell: Shell, tmp_path: Path) -> None:
    assert shell.ok("rainbowctl whoami") == "anonymous (local)\n"
    assert json.loads(shell.ok("rainbowctl whoami -o json")) == {"user": "anonymous", "groups": [], "proof": "none"}
    unknown = rainbow_admin("create-token", "ada", *database(tmp_path), cwd=tmp_path)
    assert unknown.returncode == 1
    assert "No user is called 'ada'" in unknown.stderr
    assert "--create" in unknown.stderr
    ada = token_of(tmp_path, "ada", "--create")
    assert token_of(tmp_path, "ada", "--create") != ada
    assert "rainbow-admin create-token USER" in refusal_within_a_second(shell, "rainbowctl get project")
    assert shell.ok("rainbowctl whoami", RAINBOW_TOKEN=ada) == "ada (by token)\n"
    assert shell.ok("rainbowctl whoami -o name", RAINBOW_TOKEN=ada) == "user/ada\n"
    shell.ok("rainbowctl update execution-cluster-label -p flytesnacks --value mycluster", RAINBOW_TOKEN=ada)
    history = json.loads(shell.ok("rainbowctl history -o json", RAINBOW_TOKEN=ada))
    assert (history[0]["author"], history[0]["proof"], "claimed_by" in history[0]) == ("ada", "token", False)
    for revision in history[1:3]:  # the grant, and before it the user
        assert (revision["author"], revision["message"]) == ("anonymous", "rainbow-admin create-token")
    grants = json.loads(shell.ok("rainbowctl get grant -o json", RAINBOW_TOKEN=ada))
    assert [grant["name"] for grant in grants] == ["admin:user:ada"]


def test_a_token_from_the_host_makes_an_administrator_where_there_is_none(shell: Shell, tmp_path: Path) -> None:
    first = rainbow_admin("create-token", "ada", "--create", *database(tmp_path), cwd=tmp_path)
    assert "no user had the role admin on the platform: ada has it now\n" in first.stderr
    second = rainbow_admin("create-token", "bea", "--create", *database(tmp_path), cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert "admin" not in second.stderr
    shell.environment["RAINBOW_TOKEN"] = first.stdout.strip()
    assert shell.ok("rainbowctl get grant -o name") == "grant/admin:user:ada\n"
    assert "Nobody would be left" in shell.refused(5, "rainbowctl delete user ada --force")


def test_a_token_from_the_host_may_go_to_a_file_that_only_its_owner_reads(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "ada.token"
    done = rainbow_admin("create-token", "ada", "--create", "--file", str(file), *database(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert shell.ok("rainbowctl whoami", RAINBOW_TOKEN_FILE=str(file)) == "ada (by token)\n"
    again = rainbow_admin("create-token", "ada", "--file", str(file), *database(tmp_path), cwd=tmp_path)
    assert again.returncode == 1
    assert "Give the name of a new file" in again.stderr
    states = [token["state"] for token in json.loads(shell.ok("rainbowctl get user-token ada -o json", **use(file)))]
    assert states == ["revoked", "live"]
    for arguments, problem in ((["a b", "--create"], "user's name"), (["ada", "--expires", "soon"], "--expires")):
        refused = rainbow_admin("create-token", *arguments, *database(tmp_path), cwd=tmp_path)
        assert refused.returncode != 0
        assert problem in refused.stderr


def use(file: Path) -> dict[str, str]:
    return {"RAINBOW_TOKEN_FILE": str(file)}


def test_users_service_accounts_and_tokens_are_made_shown_changed_and_deleted(shell: Shell, tmp_path: Path) -> None:
    shell.environment["RAINBOW_TOKEN"] = token_of(tmp_path, "ada", "--create")
    made = shell.run("rainbowctl create user bea@example.org --description 'Trains.' -m 'new here'")
    assert made.err.startswith("Created user bea@example.org: version 3.\n"), made.err
    assert "`rainbowctl create user-token bea@example.org NAME`" in made.err
    assert "exists already" in shell.refused(5, "rainbowctl create user bea@example.org")
    assert shell.refused(2, "rainbowctl create user 'a b'").startswith("error: ")
    shell.ok("rainbowctl create service-account nightly")
    table = shell.run("rainbowctl get user")
    assert [line.split()[0] for line in table.out.splitlines()] == ["NAME", "ada", "bea@example.org", "nightly"]
    assert "service account" in table.out.splitlines()[3]
    assert "revision 3, ada" in shell.ok("rainbowctl get user bea@example.org -o wide")
    assert [line.split()[0] for line in shell.ok("rainbowctl get service-accounts").splitlines()] == ["NAME", "nightly"]
    assert json.loads(shell.ok("rainbowctl get user nightly -o json"))["service_account"] is True
    for verb in ("get", "delete", "update --description x"):
        command = f"rainbowctl {verb.split()[0]} service-account ada {' '.join(verb.split()[1:])}"
        assert "ada is a person" in shell.refused(3, command)
    shell.ok("rainbowctl update service-account nightly --description 'Starts runs.'")
    nightly = json.loads(shell.ok("rainbowctl get user nightly -o json"))
    assert (nightly["service_account"], nightly["description"]) == (True, "Starts runs.")
    shell.file("user.yaml", "name: robot\ndescription: From a file.\n")
    shell.ok("rainbowctl create service-account --file user.yaml")
    assert json.loads(shell.ok("rainbowctl get service-account robot -o json"))["service_account"] is True

    token = shell.run("rainbowctl create user-token nightly pipeline --expires 90d")
    assert token.out.startswith("rbu-")
    prefix = token.out[4:12]
    assert "not shown again" in token.err
    assert shell.ok("rainbowctl whoami", RAINBOW_TOKEN=token.out.strip()) == "nightly (by token)\n"
    assert "has a token called 'pipeline'" in shell.refused(5, "rainbowctl create user-token nightly pipeline")
    shell.refused(2, "rainbowctl create user-token nightly other -o name")
    shell.ok("rainbowctl create user-token nightly other --newTokenFile new.token")
    assert stat.S_IMODE((shell.cwd / "new.token").stat().st_mode) == 0o600
    listed = shell.ok("rainbowctl get user-token nightly")
    assert {"other", "pipeline", "live", "expiring"} <= set(listed.split())
    assert "Revoked token" in shell.run(f"rainbowctl delete user-token nightly {prefix}").err
    assert "No changes" in shell.run(f"rainbowctl delete user-token nightly {prefix}").err
    shell.refused(3, "rainbowctl delete user-token nightly 00000000")
    refusal_within_a_second(shell, "rainbowctl whoami", RAINBOW_TOKEN=token.out.strip())
    shell.ok("rainbowctl delete user nightly robot --force")
    other = (shell.cwd / "new.token").read_text().strip()
    refusal_within_a_second(shell, "rainbowctl whoami", RAINBOW_TOKEN=other)
    assert "There is no user nobody" in shell.run("rainbowctl delete user nobody").err
    changes = shell.ok("rainbowctl history user nightly")
    assert "delete user nightly" in changes


def test_users_are_applied_exported_and_rolled_back_without_their_tokens(shell: Shell, tmp_path: Path) -> None:
    empty = shell.ok("rainbowctl export")
    shell.environment["RAINBOW_TOKEN"] = token_of(tmp_path, "ada", "--create")
    shell.file(
        "users.yaml",
        "kind: user\nname: bea\ndescription: Trains.\n---\nkind: user\nname: ci\nserviceAccount: true\n",
    )
    assert "create     user bea\n" in shell.ok("rainbowctl plan -f users.yaml")
    assert shell.run("rainbowctl diff -f users.yaml").status == 1
    shell.ok("rainbowctl apply -f users.yaml")
    assert shell.run("rainbowctl diff -f users.yaml").status == 0
    shell.ok("rainbowctl create user-token bea laptop")
    exported = shell.ok("rainbowctl export")
    assert "kind: user\nname: bea\ndescription: Trains.\n" in exported
    assert "kind: user\nname: ci\nservice_account: true\n" in exported
    assert "rbu-" not in exported
    assert shell.ok("rainbowctl export users").count("kind: user\n") == 3
    assert shell.run("rainbowctl diff -f -", stdin=exported).status == 0
    shell.ok("rainbowctl export --dir all")
    assert (shell.cwd / "all/users/bea.yaml").exists()
    shell.ok("rainbowctl rollback 3 --force")
    assert (
        shell.ok("rainbowctl export")
        == empty + "---\nkind: user\nname: ada\n---\nkind: grant\nrole: admin\nuser: ada\n"
    )
    for text, problem in (
        ("kind: user\nname: a b\n", "user's name"),
        ("kind: user\nname: bea\ngroups: [a]\n", "groups"),
        ("kind: user\ndescription: x\n", "lacks name"),
        ("kind: user\nname: bea\ncreated_at: x\n", "not part of the definition"),
    ):
        assert problem in shell.refused(2, "rainbowctl apply -f -", stdin=text)


def sign_in(url: str, token: str) -> None:
    """Sign in at the console, as a browser does."""
    page = f"{url}/console/sign-in"
    with requests.Session() as browser:
        form_token = re.search(r'name="form_token" value="([^"]+)"', browser.get(page, timeout=60).text)
        assert form_token is not None
        fields = {"form_token": form_token[1], "token": token}
        sent = browser.post(page, data=fields, headers={"Origin": url}, allow_redirects=False, timeout=60)
        assert sent.status_code == 303


def test_sessions_of_the_console_are_shown_and_ended(shell: Shell, admin: RunningAdmin, tmp_path: Path) -> None:
    ada = token_of(tmp_path, "ada", "--create")
    refusal_within_a_second(shell, "rainbowctl get project")
    assert shell.run("rainbowctl get session", RAINBOW_TOKEN=ada).err == "Nobody is signed in at the console.\n"
    sign_in(admin.url, ada)
    table = shell.ok("rainbowctl get session", RAINBOW_TOKEN=ada).splitlines()
    assert table[0].split()[:4] == ["USER", "ID", "BY", "TOKEN"]
    user, id, proof, token = table[1].split()[:4]
    assert (user, proof, token) == ("ada", "token", ada[4:12])
    assert shell.ok("rainbowctl get session ada -o name", RAINBOW_TOKEN=ada) == f"session/ada/{id}\n"
    ended = shell.run(f"rainbowctl delete session ada {id} --force", RAINBOW_TOKEN=ada)
    assert (ended.status, ended.err) == (0, f"Ended session {id} of user ada.\n")
    again = shell.run(f"rainbowctl delete session ada {id} --force", RAINBOW_TOKEN=ada)
    assert again.status != 0
    assert "rainbowctl get session ada" in again.err


def test_an_admin_with_users_may_listen_beyond_loopback_without_a_shared_token(tmp_path: Path) -> None:
    token = token_of(tmp_path, "ada", "--create")  # which sets up the database
    with running_admin(tmp_path, "--host", BEYOND_LOOPBACK) as admin:
        assert admin.get("/api/v1/projects").status_code == 401
        assert admin.get("/api/v1/whoami", headers={"Authorization": f"Bearer {token}"}).json()["user"] == "ada"


def test_an_admin_with_a_shared_token_gets_users_and_everything_goes_on(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SHARED}\n")
    config = write_configuration(tmp_path)
    with running_admin(tmp_path, "--config", str(config), "--apiTokenFile", "token") as admin:
        shell = Shell(admin, tmp_path)
        shell.environment["RAINBOW_TOKEN"] = SHARED
        agent = HttpAgent(url=admin.url, cluster="oak")
        agent.register()
        agent.sync()
        create = "rainbowctl create execution {} -p flytesnacks -d development --cluster oak -- true"
        shell.ok(create.format("before"))
        [lease] = agent.take()
        ada = token_of(tmp_path, "ada", "--create")
        time.sleep(1.1)  # every worker knows of the first user within a second
        # The agent goes on, and so does whoever has the shared token, with a name of its own.
        agent.report(lease, "RUNNING")
        agent.report(lease, "SUCCEEDED")
        shell.ok(create.format("after"))
        assert shell.ok("rainbowctl whoami").startswith("shared-token")
        executions = json.loads(shell.ok("rainbowctl get execution -A -o json", RAINBOW_TOKEN=ada))
        assert {execution["id"]["name"]: execution["created_by"] for execution in executions} == {
            "before": "anonymous",
            "after": "shared-token",
        }
        assert "SUCCEEDED" in shell.ok("rainbowctl get execution before -p flytesnacks -d development")
    with running_admin(tmp_path, "--config", str(config)) as admin:  # the shared token has been taken away
        shell = Shell(admin, tmp_path)
        assert "none that this admin accepts" in shell.refused(4, "rainbowctl get project", RAINBOW_TOKEN=SHARED)
        assert "flytesnacks" in shell.ok("rainbowctl get project", RAINBOW_TOKEN=ada)
        agent.url = admin.url
        assert [lease["id"]["name"] for lease in agent.take()] == ["after"]


def test_an_administrator_acts_as_somebody_under_both_names(shell: Shell, tmp_path: Path) -> None:
    ada = token_of(tmp_path, "ada", "--create")
    wait_until(lambda: shell.run("rainbowctl whoami", RAINBOW_TOKEN=ada).status == 0, 30)
    shell.ok("rainbowctl create user bea", RAINBOW_TOKEN=ada)
    assert shell.ok("rainbowctl --as bea whoami", RAINBOW_TOKEN=ada) == "bea (by the token of ada)\n"
    update = "rainbowctl update execution-cluster-label -p flytesnacks --value mycluster"
    assert "No project is called" in shell.refused(2, f"{update} --as bea", RAINBOW_TOKEN=ada)
    shell.ok("rainbowctl create grant editor --user bea", RAINBOW_TOKEN=ada)
    time.sleep(1.1)  # every worker knows of a grant within a second
    shell.ok(f"{update} --as bea", RAINBOW_TOKEN=ada)
    assert "bea (by ada)" in shell.ok("rainbowctl history --filter.limit 1", RAINBOW_TOKEN=ada)
    assert "bea (by ada)" in shell.ok("rainbowctl get execution-cluster-label -A -o wide", RAINBOW_TOKEN=ada)
    assert "No user is called 'bee'" in shell.refused(3, "rainbowctl --as bee get project", RAINBOW_TOKEN=ada)
    assert "'b a'" in shell.refused(2, "rainbowctl --as 'b a' get project", RAINBOW_TOKEN=ada)
    bea = shell.ok("rainbowctl create user-token bea laptop", RAINBOW_TOKEN=ada).strip()
    refusal = shell.refused(4, "rainbowctl --as ada whoami", RAINBOW_TOKEN=bea)
    assert "User bea lacks the permission users.impersonate on platform." in refusal


def test_a_token_is_narrowed_by_flags(shell: Shell, tmp_path: Path) -> None:
    ada = token_of(tmp_path, "ada", "--create")
    wait_until(lambda: shell.run("rainbowctl whoami", RAINBOW_TOKEN=ada).status == 0, 30)
    flags = "--role viewer --permission attributes.read -p flytesnacks -d development -w train"
    token = shell.ok(f"rainbowctl create user-token ada report {flags}", RAINBOW_TOKEN=ada).strip()
    shown = "role viewer, permission attributes.read, project flytesnacks, domain development, workflow train"
    table = shell.ok("rainbowctl get user-token ada", RAINBOW_TOKEN=ada)
    assert shown in table
    assert shell.ok("rainbowctl whoami", RAINBOW_TOKEN=token) == f"ada (by token), narrowed to {shown}\n"
    refusal = shell.refused(2, "rainbowctl create user-token ada other --role viewers", RAINBOW_TOKEN=ada)
    assert "Did you mean 'viewer'?" in refusal
    where = "-p flytesnacks -d development -w train"
    written = f"rainbowctl update execution-cluster-label {where} --value mycluster"
    refusal = " ".join(shell.refused(4, written, RAINBOW_TOKEN=token).split())
    assert "The token of user ada, which is good for role viewer, permission attributes.read, workflow" in refusal
    explain = "rainbowctl explain access ada attributes.write -p flytesnacks -d development"
    explained = " ".join(shell.ok(explain, RAINBOW_TOKEN=token).split())
    assert "User ada has attributes.write" in explained
    assert "The token of this request is narrower: it is good for role viewer" in explained
    assert json.loads(shell.ok(f"{explain} -o json", RAINBOW_TOKEN=token))["token_allowed"] is False


def test_answers_about_users_and_what_they_did_are_the_same_as_text_as_json_and_by_rest(
    shell: Shell, tmp_path: Path
) -> None:
    for name in ("birch", "oak"):
        shell.ok(f"rainbowctl create cluster {name} -q")
    shell.ok("rainbowctl create pool gpu --member birch --member oak -q")
    ada = token_of(tmp_path, "ada", "--create")

    def ok(command: str) -> str:
        return shell.ok(f"rainbowctl {command}", RAINBOW_TOKEN=ada)

    def same(command: str, path: str, key: str | None = None) -> Any:
        """The answer of REST, which `-o json` repeats, as a list of what it lists where it is one."""
        answer = shell.admin.get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {ada}"}).json()
        expected = answer if key is None else answer[key]
        ages = re.compile(r"\d+ s ago")  # a second may have passed between the two
        document = json.loads(ok(f"{command} -o json"))
        assert ages.sub("", json.dumps(document)) == ages.sub("", json.dumps(expected))
        return expected

    def rows(command: str, title: str) -> list[list[str]]:
        """The cells of a table in wide output, below the line that begins with a title."""
        lines = ok(f"{command} -o wide").splitlines()
        start = next(number for number, line in enumerate(lines) if line.startswith(title))
        return [re.split(r"  +", line.strip()) for line in lines[start + 1 :] if line]

    ok("cordon cluster oak --reason 'new disks' -q")
    comparison = same("compare cluster birch --otherCluster oak", "clusters/birch/comparison?other=oak")
    different = [fact for fact in comparison["facts"] if not fact["equal"]]
    assert {fact["field"] for fact in different} == {"takes_none_because", "cordoned", "cordon_reason"}
    text = ok("compare cluster birch --otherCluster oak")
    assert text.splitlines()[0] == comparison["message"]
    assert comparison["message"] == "'birch' and 'oak' differ in state (takes none because, cordoned, cordon reason)."
    assert [line.split()[-2:] for line in text.splitlines() if line.startswith("state  cordoned")] == [
        ["false", "true"]
    ]
    same_name = shell.refused(2, "rainbowctl compare cluster oak --otherCluster oak", RAINBOW_TOKEN=ada)
    assert same_name.startswith("error: --otherCluster: is 'oak' too")

    ok("create user bea -q")
    ok("create user-token bea laptop --newTokenFile bea.token -q")
    time.sleep(1.1)  # an age counts in whole seconds
    [bea] = [user for user in same("get user --idle 1s", "users?idle=1s", "users") if user["name"] == "bea"]
    assert "last_seen_at" not in bea
    assert ["bea", "person", "-"] in [[row[0], row[1], row[4]] for row in rows("get user --idle 1s", "NAME")]
    [token] = [token for token in same("get user-token", "user_tokens", "tokens") if token["user"] == "bea"]
    [listed] = [row for row in rows("get user-token --unused 1s", "USER") if row[0] == "bea"]
    assert listed[1:4] == [token["prefix"], token["name"], token["state"]]
    same("get user-token --unused 1s", "user_tokens?unused=1s", "tokens")
    same("get user-token --unused 90d", "user_tokens?unused=90d", "tokens")
    for command in ("get user --idle", "get user-token --unused"):
        flag = command.split()[-1]
        refusal = shell.refused(2, f"rainbowctl {command} soon", RAINBOW_TOKEN=ada)
        assert refusal.startswith(f"error: {flag}: 'soon' is not a length of time")

    for name in ("a", "b"):
        ok(f"create execution -p flytesnacks -d development {name} --clusterPool gpu -q -o name -- true")
    ok("delete execution -p flytesnacks -d development b --force -q")
    asked = "source=creation&actor=ada"
    created = same("history --author ada --source creation", f"timeline?{asked}", "entries")
    command = "history --author ada --executions --creations"
    entries = same(command, "timeline?actor=ada&executions=true&creations=true&limit=20", "entries")
    assert [entry for entry in entries if entry["source"] == "creation"] == created
    happened = ok(f"{command} -o wide")
    for entry in created:
        assert f"created execution flytesnacks/development/{entry['execution']['name']}" in happened
    note = shell.run(f"rainbowctl {command}", RAINBOW_TOKEN=ada).err
    assert "1 end of an execution" in note
    assert "2 creations of executions" in note
    unknown = shell.run("rainbowctl history --author adda --creations", RAINBOW_TOKEN=ada).err
    searched = "revisions, events, registrations and executions"
    assert f"None of the newest 1,000 {searched} is by 'adda'. Did you mean 'ada'?" in unknown
    counts = json.loads(ok("get execution -A --phase QUEUED --by pool,user -o json"))
    assert [(group["values"], group["count"]) for group in counts["counts"]] == [(["gpu", "ada"], 1)]
    assert [row[:3] for row in rows("get execution -A --phase QUEUED --by pool,user", "POOL")] == [["gpu", "ada", "1"]]
