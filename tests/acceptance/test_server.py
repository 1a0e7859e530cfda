"""rainbow-admin as a process: how it starts, refuses to start, is guarded, counts, and stops."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from sqlalchemy import create_engine

from admin.configuration import load_settings
from admin.server.startup import warn_of_exposure
from admin.store.schema import known_revisions, latest_revision
from tests.support.admins import BEYOND_LOOPBACK, RunningAdmin, running_admin, workers_of
from tests.support.certificates import write_certificate
from tests.support.programs import clean_environment, run
from tests.support.waiting import wait_until

LABEL = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "mycluster"}}}}
PATH = "/api/v1/project_domain_attributes/flytesnacks/development"


#: For tests that send many wrong tokens.
UNLIMITED = {"RAINBOW_LIMITS_WRONG_TOKENS_PER_MINUTE": "1000000"}


@pytest.fixture
def cold_admin(tmp_path: Path) -> Iterator[RunningAdmin]:
    """An admin started as people start it."""
    with running_admin(tmp_path, is_cold=True) as running:
        yield running


def rainbow_admin(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    done = run("rainbow-admin", *arguments, cwd=cwd, env=clean_environment(**environment))
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def log_lines(admin: RunningAdmin) -> list[dict[str, object]]:
    return [json.loads(line) for line in admin.log.read_text().splitlines()]


def test_an_admin_sets_up_its_database_answers_and_stops_when_told(cold_admin: RunningAdmin) -> None:
    assert cold_admin.get("/healthz").json() == {"status": "ok"}
    assert cold_admin.get("/readyz").json() == {"status": "ready"}
    assert cold_admin.get("/api/v1/version").json()["version"]
    page = cold_admin.get("/api/v1/docs/")
    assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    for asset in ("swagger-ui.css", "swagger-ui-bundle.js"):
        assert asset in page.text
        assert cold_admin.get(f"/api/v1/docs/{asset}").status_code == 200
    assert cold_admin.stop() == 0


def test_every_log_line_is_json_and_a_request_keeps_its_id(cold_admin: RunningAdmin) -> None:
    answer = cold_admin.get("/api/v1/projects/none", headers={"X-Request-Id": "abc-1"})
    assert (answer.headers["X-Request-Id"], answer.json()["request_id"]) == ("abc-1", "abc-1")
    assert len(cold_admin.get("/healthz", headers={"X-Request-Id": "no good\x09"}).headers["X-Request-Id"]) == 20
    cold_admin.stop()
    [line] = [line for line in log_lines(cold_admin) if line.get("request_id") == "abc-1"]
    assert (line["method"], line["path"], line["status"], line["level"]) == (
        "GET",
        "/api/v1/projects/none",
        404,
        "info",
    )


@pytest.mark.parametrize("style", ["json", "text"])
def test_a_name_in_a_path_forges_no_line_of_the_log(tmp_path: Path, style: str) -> None:
    forged = "a%0A12:00:00%20error%20%20%20forged%1B%5B2J%C2%9B%E2%80%A8%7F"
    with running_admin(tmp_path, "--log-format", style) as admin:
        assert admin.get(f"/api/v1/projects/{forged}").status_code in (400, 404)
        wait_until(lambda: "forged" in admin.log.read_text())
        [line] = [line for line in admin.log.read_text().split("\n") if "forged" in line]
    assert line.isprintable()
    assert "request" in line


def test_metrics_are_the_same_totals_whichever_worker_answers(admin: RunningAdmin) -> None:
    for _ in range(40):  # each on a connection of its own, so that both workers get some
        assert admin.get("/api/v1/domains").status_code == 200
    name = 'rainbow_http_requests_total{method="GET",route="/api/v1/domains",status="200"}'
    totals = {line for _ in range(20) for line in admin.get("/metrics").text.splitlines() if line.startswith(name)}
    assert totals == {f"{name} 40.0"}


def test_a_request_in_flight_is_answered_before_the_admin_stops(tmp_path: Path) -> None:
    """The database is locked by someone else, so that a write waits while the admin is told to stop."""
    with running_admin(tmp_path) as admin:
        blocker = create_engine(f"sqlite:///{tmp_path / 'rainbow.db'}").connect()
        blocker.exec_driver_sql("BEGIN IMMEDIATE")
        answers: list[int] = []
        writer = threading.Thread(
            target=lambda: answers.append(requests.put(admin.url + PATH, json=LABEL, timeout=30).status_code)
        )
        writer.start()
        writer.join(0.5)
        assert answers == []
        admin.process.send_signal(signal.SIGTERM)
        for pid in workers_of(admin.process) * 3:  # a worker that is told again goes on with its requests
            writer.join(0.1)
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGTERM)
        assert answers == []
        blocker.exec_driver_sql("ROLLBACK")
        blocker.close()
        writer.join(20)
        assert answers == [200]
        assert admin.process.wait(20) == 0


def test_a_token_guards_every_route_of_the_api(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse-battery-staple\n")
    with running_admin(tmp_path, "--apiTokenFile", str(token), environment=UNLIMITED) as admin:
        document = admin.get("/api/v1/openapi.json").json()
        refused: set[str] = set()
        open_paths: set[str] = set()
        for path, operations in document["paths"].items():
            url = admin.url + path.format(
                domain="development",
                project="flytesnacks",
                workflow="w",
                launch_plan="lp",
                id="flytesnacks",
                number="1",
                name="local",
                version="1",
                prefix="0a0a0a0a",
            )
            for method in operations:
                for header in (
                    {},
                    {"Authorization": "Bearer wrong"},
                    {"Authorization": "correct-horse-battery-staple"},
                ):
                    answer = requests.request(method, url, headers=header, timeout=60)
                    (refused if answer.status_code == 401 else open_paths).add(path)
        assert open_paths == {
            "/",  # which leads to the documentation
            "/healthz",
            "/readyz",
            "/metrics",
            "/api/v1/version",
            "/api/v1/openapi.json",
            "/api/v1/openid",
            "/api/v1/clusters/{name}/register",  # which asks for a secret of its own
        }
        assert refused == set(document["paths"]) - open_paths
        assert admin.get("/nowhere").status_code == 401
        right = {"Authorization": "Bearer correct-horse-battery-staple"}
        assert admin.get("/api/v1/projects", headers=right).status_code == 200
        challenge = admin.get("/api/v1/projects")
        assert challenge.headers["WWW-Authenticate"].startswith("Bearer")
        assert "RAINBOW_TOKEN" in challenge.json()["message"]


@pytest.mark.parametrize("content", ["", "short", "two words of a token here", "täg" * 10])
def test_a_token_that_keeps_nobody_out_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    done = rainbow_admin(
        "serve", "--port", "0", "--apiTokenFile", "token", "--database", "sqlite:///x.db", cwd=tmp_path
    )
    assert (done.returncode, "server.apiTokenFile" in done.stderr) == (2, True)


def test_without_a_token_an_admin_listens_on_loopback_only(tmp_path: Path) -> None:
    done = rainbow_admin("serve", "--host", "0.0.0.0", "--port", "0", "--database", "sqlite:///x.db", cwd=tmp_path)
    assert done.returncode == 1
    assert "--apiTokenFile" in done.stderr
    assert not (tmp_path / "x.db").exists()


def test_the_host_to_listen_on_may_be_a_name(tmp_path: Path) -> None:
    with running_admin(tmp_path, "--host", "localhost") as admin:
        assert admin.get("/api/v1/whoami").json()["user"] == "anonymous"
    done = rainbow_admin("serve", "--host", "no.such.invalid", "--port", "0", "--serveOpenly", cwd=tmp_path)
    assert (done.returncode, "Cannot listen on no.such.invalid:0" in done.stderr) == (1, True)


def test_only_the_flag_of_that_name_opens_an_admin_to_everybody(tmp_path: Path) -> None:
    beyond = ("serve", "--host", "0.0.0.0", "--port", "0", "--database", f"sqlite:///{tmp_path}/rainbow.db")
    done = rainbow_admin(*beyond, cwd=tmp_path)
    assert (done.returncode, "--serveOpenly" in done.stderr) == (1, True)
    assert "`rainbow-admin create-token NAME --create --file FILE`" in done.stderr
    (tmp_path / "rainbow.yaml").write_text("server: {allowedHosts: [rainbow.example.org]}\n")
    with running_admin(tmp_path, "--config", "rainbow.yaml", "--host", BEYOND_LOOPBACK, "--serveOpenly") as admin:
        proxied = {"Host": "rainbow.example.org", "X-Forwarded-For": "192.0.2.7"}
        for headers, status in ((proxied, 200), ({"Host": "evil.example"}, 421), ({}, 200)):
            answer = requests.get(f"{admin.url}/api/v1/projects", headers=headers, timeout=60)
            assert answer.status_code == status, headers
        assert "everybody who can reach the admin may do everything" in admin.log.read_text()
        user = {"user": {"name": "ada"}}
        requests.post(f"{admin.url}/api/v1/users", json=user, timeout=60).raise_for_status()
        wait_until(lambda: {admin.get("/api/v1/projects").status_code for _ in range(10)} == {401})


def test_https_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    tls = write_certificate(tmp_path)
    with running_admin(tmp_path, *tls, scheme="https", verify=str(tmp_path / "ca.pem")) as admin:
        with pytest.raises(requests.exceptions.SSLError):
            admin.get("/healthz")
        env = {"RAINBOW_ENDPOINT": admin.url, "RAINBOW_CA_FILE": str(tmp_path / "ca.pem")}
        for command in (["rainbowctl", "get", "domain", "-o", "name"], ["rainbow-agent", "check"]):
            done = subprocess.run(command, env=clean_environment(**env), capture_output=True, text=True, timeout=30)
            assert (done.returncode, done.stderr) == (0, ""), command
        untrusting = clean_environment(RAINBOW_ENDPOINT=admin.url)
        done = subprocess.run(
            ["rainbowctl", "get", "domain"], env=untrusting, capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 6
        assert "certificate" in done.stderr.lower()


def test_two_admins_do_not_share_a_port(admin: RunningAdmin, tmp_path: Path) -> None:
    port = admin.url.rsplit(":", 1)[1]
    done = rainbow_admin("serve", "--port", port, "--database", "sqlite:///other.db", cwd=tmp_path)
    assert done.returncode == 1
    assert "in use" in done.stderr


def test_an_older_or_foreign_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    arguments = ("--database", "sqlite:///x.db")
    assert rainbow_admin("migrate", *arguments, cwd=tmp_path).stdout.startswith("schema empty -> ")
    engine = create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    engine.dispose()
    done = rainbow_admin("serve", "--port", "0", *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "from-the-future" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("postgresql+psycopg://rainbow@127.0.0.1:9/none", "cannot be opened"),
        ("nosuch://x", "not supported"),
        ("mysql://x/y", "not supported"),
        ("sqlite:////proc/none/x.db", "cannot be opened"),
    ],
)
def test_a_database_that_cannot_be_opened_is_said_in_one_line(tmp_path: Path, url: str, word: str) -> None:
    done = rainbow_admin("serve", "--port", "0", "--database", url, cwd=tmp_path)
    assert done.returncode == 1
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_configuration_is_named_and_nothing_starts(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("sever: {port: 1}\nlogging: {level: loud}\n")
    done = rainbow_admin("serve", "--config", "c.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "Did you mean 'server'?" in done.stderr
    assert "logging.level" in done.stderr
    missing = rainbow_admin("serve", cwd=tmp_path, RAINBOW_ADMIN_CONFIG="none.yaml")
    assert (missing.returncode, "none.yaml" in missing.stderr) == (2, True)


@pytest.mark.slow
def test_two_replicas_on_one_postgresql_set_it_up_once_and_see_each_others_writes(
    tmp_path: Path, new_postgresql_database: Callable[[], str]
) -> None:
    database = new_postgresql_database()
    with (
        running_admin(tmp_path, database=database) as first,
        running_admin(tmp_path, database=database) as other,
    ):
        assert requests.put(first.url + PATH, json=LABEL, timeout=60).json()["revision"] == 1
        assert other.get(f"{PATH}?resource_type=3").json()["version"] == 1


def test_migrate_leaves_a_database_alone_that_is_not_ours(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'cats.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE cats (name TEXT)")
    done = rainbow_admin("migrate", "--database", "sqlite:///cats.db", cwd=tmp_path)
    assert (done.returncode, "not one of Rainbow" in done.stderr) == (1, True)
    with engine.begin() as connection:
        tables = connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars().all()
    engine.dispose()
    assert tables == ["cats"]
    unknown = rainbow_admin("migrate", "--database", "sqlite:///new.db", "--to", "0077", cwd=tmp_path)
    assert (unknown.returncode, unknown.stderr) == (
        1,
        f"error: There is no schema revision 0077; known are {', '.join(known_revisions())}.\n",
    )
    for revision in ("0001", "head", "base"):
        assert (
            rainbow_admin("migrate", "--database", "sqlite:///new.db", "--to", revision, cwd=tmp_path).returncode == 0
        )


def test_an_older_schema_is_refused_until_it_is_migrated(tmp_path: Path) -> None:
    database = ("--database", "sqlite:///x.db")
    rainbow_admin("migrate", *database, "--to", "0001", cwd=tmp_path)
    refused = rainbow_admin("serve", "--port", "0", *database, cwd=tmp_path)
    assert (refused.returncode, "`rainbow-admin migrate`" in refused.stderr) == (1, True)
    newest = latest_revision()
    migrated = rainbow_admin("migrate", *database, cwd=tmp_path)
    assert migrated.stdout == f"schema 0001 -> {newest} (newest: {newest})\n"
    with running_admin(tmp_path, database=f"sqlite:///{tmp_path / 'x.db'}") as admin:
        assert admin.get("/readyz").status_code == 200


def test_an_unusable_certificate_is_said_in_one_line_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    for name in ("empty.pem", "none.pem"):
        tls = ("--tlsCertFile", name, "--tlsKeyFile", name)
        done = rainbow_admin("serve", "--port", "0", *tls, "--database", "sqlite:///x.db", cwd=tmp_path)
        assert (done.returncode, name in done.stderr, len(done.stderr.splitlines())) == (1, True, 1)
    assert not (tmp_path / "x.db").exists()


@pytest.mark.slow
def test_an_interrupt_from_the_keyboard_ends_an_admin_quietly(tmp_path: Path) -> None:
    """A terminal sends it to every process of the group, and the main process tells the workers once more."""
    patient = {"RAINBOW_SERVER_GRACEFUL_SHUTDOWN_SECONDS": "300"}
    with running_admin(tmp_path, environment=patient, is_cold=True) as admin:
        workers = workers_of(admin.process)
        admin.process.send_signal(signal.SIGINT)  # first, since a worker that ends alone is started again
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGINT)
        assert admin.process.wait(120) == 0  # less than its workers may take before they are killed
        assert "Traceback" not in admin.log.read_text()
        assert "Exception" not in admin.log.read_text()


@pytest.mark.slow
def test_what_lets_others_read_a_secret_is_warned_of_and_new_files_are_private(tmp_path: Path) -> None:
    for name in ("token", "secret"):
        (tmp_path / name).write_text("0123456789abcdef\n")
        (tmp_path / name).chmod(0o644)
    tmp_path.chmod(0o755)
    flags = ("--registrationSecretFile", str(tmp_path / "secret"))
    with running_admin(tmp_path, "--apiTokenFile", str(tmp_path / "token"), *flags, is_cold=True) as admin:
        lines = [json.loads(line) for line in admin.log.read_text().splitlines()]
        warned = [line["file"] for line in lines if "chmod 600" in line["message"]]
        assert warned == [str(tmp_path / "token"), str(tmp_path / "secret")]
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("rainbow.db*")}
        assert modes
        assert set(modes.values()) == {0o600}, modes
        assert "clear text" not in admin.log.read_text()


@pytest.mark.parametrize(("host", "is_warned_of"), [("0.0.0.0", True), ("rainbow.example.org", True), ("::1", False)])
def test_tokens_in_clear_text_are_warned_of_where_others_could_read_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, is_warned_of: bool
) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    (tmp_path / "token").chmod(0o600)
    server = {"host": host, "apiTokenFile": str(tmp_path / "token")}
    warn_of_exposure(load_settings(overrides={"server": server}))
    assert any("tokens are sent in clear text" in message for message in caplog.messages) is is_warned_of
    caplog.clear()
    warn_of_exposure(load_settings(overrides={"server": {**server, "tls": {"certFile": "c", "keyFile": "k"}}}))
    assert caplog.messages == []


@pytest.mark.slow
def test_the_operators_token_is_replaced_while_the_admin_runs(tmp_path: Path) -> None:
    old, new = "0123456789abcdef-old", "0123456789abcdef-new"
    file = tmp_path / "token"
    file.write_text(f"{old}\n")

    def statuses(admin: RunningAdmin) -> set[tuple[int, int]]:
        """What each token is answered, asked often enough to meet every worker."""
        url = f"{admin.url}/api/v1/projects"

        def status(token: str) -> int:
            return requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=60).status_code

        return {(status(old), status(new)) for _ in range(20)}

    with running_admin(tmp_path, "--apiTokenFile", str(file), environment=UNLIMITED) as admin:
        assert statuses(admin) == {(200, 401)}
        file.write_text(f"{new}\n{old}\n")
        wait_until(lambda: statuses(admin) == {(200, 200)})
        file.write_text(f"{new}\n")
        wait_until(lambda: statuses(admin) == {(401, 200)})
        file.write_text("")
        wait_until(lambda: statuses(admin) and "the former tokens stay good" in admin.log.read_text())
        assert statuses(admin) == {(401, 200)}


def test_a_page_in_a_browser_cannot_use_an_admin_on_loopback(admin: RunningAdmin) -> None:
    requests.put(f"{admin.url}/api/v1/clusters/east", json={"cluster": {}}, timeout=60).raise_for_status()
    cordon = f"{admin.url}/api/v1/clusters/east/cordon"
    body = {"project": "flytesnacks", "domain": "development", "name": "x", "spec": {"job": {"command": ["true"]}}}
    refused = [
        requests.post(cordon, data={"reason": "a form"}, timeout=60),
        requests.post(cordon, headers={"Content-Type": "text/plain"}, timeout=60),
        requests.post(cordon, headers={"Origin": "http://evil.example"}, timeout=60),
        requests.post(cordon, headers={"Sec-Fetch-Site": "cross-site"}, timeout=60),
        requests.post(f"{admin.url}/api/v1/executions", json=body, headers={"Host": "evil.example:8088"}, timeout=60),
        requests.get(f"{admin.url}/api/v1/projects", headers={"Host": "evil.example"}, timeout=60),
        requests.get(f"{admin.url}/api/v1/effective_attributes?domain=staging", headers={"Host": "x.y"}, timeout=60),
        requests.get(f"{admin.url}/healthz", headers={"Origin": "null"}, timeout=60),
    ]
    names = [(answer.status_code, answer.json()["error"]) for answer in refused]
    form, foreign, host = (415, "unsupported_media_type"), (403, "foreign_origin"), (421, "unknown_host")
    assert names == [form, form, foreign, foreign, host, host, host, foreign]
    asked_first = {"Origin": "http://evil.example", "Access-Control-Request-Method": "PUT"}
    own = {"Origin": admin.url, "Access-Control-Request-Method": "PUT"}
    answers = [
        *refused,
        requests.options(cordon, headers=asked_first, timeout=60),
        requests.options(cordon, headers=own, timeout=60),
        requests.get(f"{admin.url}/api/v1/effective_attributes?domain=staging", headers=own, timeout=60),
    ]
    assert [answer.status_code for answer in answers[-3:]] == [403, 200, 200]
    assert [name for answer in answers for name in answer.headers if name.lower().startswith("access-control")] == []
    assert "cordoned" not in admin.get("/api/v1/clusters/east").text.replace('"cordoned":false', "")
    assert admin.get("/api/v1/executions").json()["executions"] == []
    assert requests.post(cordon, timeout=60).status_code == 200, "without body, type and origin, as curl sends it"


def test_a_name_that_is_configured_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "rainbow.yaml").write_text("server: {allowedHosts: [rainbow.example.org]}\n")
    with running_admin(tmp_path, "--config", "rainbow.yaml") as admin:
        for host, status in (("rainbow.example.org:8088", 200), ("localhost", 200), ("other.example.org", 421)):
            answer = requests.get(f"{admin.url}/api/v1/projects", headers={"Host": host}, timeout=60)
            assert answer.status_code == status, host


PROXY_HEADERS = {
    "Forwarded": "for=192.0.2.7",
    "X-Forwarded-For": "192.0.2.7",
    "X-Forwarded-Host": "rainbow.example.org",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Server": "proxy.example.org",
    "X-Real-IP": "192.0.2.7",
    "CF-Connecting-IP": "192.0.2.7",
    "True-Client-IP": "192.0.2.7",
    "Via": "1.1 proxy",
}


def test_on_loopback_what_comes_through_a_proxy_needs_a_token(admin: RunningAdmin, tmp_path: Path) -> None:
    for name, value in PROXY_HEADERS.items():
        for path in ("/api/v1/projects", "/api/v1/effective_attributes?domain=staging"):
            answer = requests.get(f"{admin.url}{path}", headers={name: value}, timeout=60)
            assert (answer.status_code, answer.json()["error"]) == (401, "unauthenticated"), name
            assert "came through a proxy" in answer.json()["message"]
        assert requests.get(f"{admin.url}/readyz", headers={name: value}, timeout=60).status_code == 200
    assert admin.get("/api/v1/projects").status_code == 200
    (tmp_path / "guarded").mkdir()
    (tmp_path / "guarded/token").write_text("0123456789abcdef\n")
    with running_admin(tmp_path / "guarded", "--apiTokenFile", str(tmp_path / "guarded/token")) as guarded:
        headers = {**PROXY_HEADERS, "Authorization": "Bearer 0123456789abcdef", "Host": "rainbow.example.org"}
        assert requests.get(f"{guarded.url}/api/v1/projects", headers=headers, timeout=60).status_code == 200


def test_no_password_is_printed(tmp_path: Path) -> None:
    url = "postgresql+psycopg://rainbow:hunter2@db.example.org/rainbow?sslpassword=hunter3"
    done = run("rainbow-admin", "config", "--database", url, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"hunter" not in done.stdout + done.stderr
    assert b"rainbow:***@db.example.org" in done.stdout
    for password, port in (("hun@ter2", "5432"), ("hunter2", "notaport")):
        url = f"postgresql+psycopg://rainbow:{password}@db.example.org:{port}/rainbow"
        done = run("rainbow-admin", "serve", "--port", "0", "--database", url, cwd=tmp_path)
        assert (done.returncode, b"hun" in done.stderr, b"ter2" in done.stderr) == (2, False, False)
        assert done.stderr.startswith(b"error: configuration: database.url: ")
    for unreadable in ("nonsense", "postgresql//rainbow:hunter2@db"):
        done = run("rainbow-admin", "config", "--database", unreadable, cwd=tmp_path)
        assert (done.returncode, b"hunter" in done.stdout) == (0, False)
        done = run("rainbow-admin", "serve", "--port", "0", "--database", unreadable, cwd=tmp_path)
        assert done.returncode == 1
        assert b"The database cannot be opened" in done.stderr
        assert b"Traceback" not in done.stderr
        assert b"hunter" not in done.stderr
