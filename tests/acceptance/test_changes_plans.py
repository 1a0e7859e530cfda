"""Plans, and changes that meet others or lose their connection: whole, or not at all."""

from __future__ import annotations

import json
import re
import socket
import socketserver
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.acceptance.test_changes_apply import head, mixed_documents, write_documents
from tests.support.admins import RunningAdmin
from tests.support.servers import serving
from tests.support.shells import Shell

DOCUMENT = "kind: workflow-priority\ndomain: staging\npriority: {}\n"


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def test_a_plan_is_applied_exactly_as_it_was_shown(shell: Shell) -> None:
    (shell.cwd / "s.yaml").write_text(DOCUMENT.format(1))
    shown = shell.ok("rainbowctl plan -f s.yaml --out week.plan")
    assert "1 to create." in shown
    assert (shell.cwd / "week.plan").stat().st_mode & 0o777 == 0o600
    (shell.cwd / "s.yaml").write_text(DOCUMENT.format(99))
    done = shell.run("rainbowctl apply week.plan -m planned")
    assert (done.status, head(shell)) == (0, 1), done.err
    assert shell.values("WORKFLOW_PRIORITY") == [{"priority": 1}]
    assert "from revision 0." in done.err


def test_a_plan_made_before_someone_elses_write_is_refused_with_what_moved(shell: Shell) -> None:
    shell.ok("rainbowctl update workflow-priority -d staging --priority 1")
    shell.ok("rainbowctl update workflow-priority -d production --priority 1")
    documents = f"{DOCUMENT.format(2)}---\nkind: workflow-priority\ndomain: production\npriority: 1\n"
    shell.ok("rainbowctl plan -f - --out week.plan", stdin=documents)
    # The row that moves is one that the plan leaves as it is: it was made from that one too.
    shell.ok("rainbowctl update workflow-priority -d production --priority 5")
    message = shell.refused(5, "rainbowctl apply week.plan")
    assert "1 row changed in the meantime: nothing was written." in message
    assert "workflow-priority at domain production: expected at version 2, now at version 3" in message
    again = shell.refused(5, "rainbowctl apply week.plan --force -q")
    assert re.sub(r"\d+ s ago", "…", again) == re.sub(r"\d+ s ago", "…", message.split("\n", 1)[1])
    assert head(shell) == 3


def test_a_plan_that_was_edited_cut_off_or_made_for_another_admin_is_refused(shell: Shell) -> None:
    shell.ok("rainbowctl plan -f - --out week.plan", stdin=DOCUMENT.format(2))
    plan = (shell.cwd / "week.plan").read_text()
    (shell.cwd / "edited.plan").write_text(plan.replace('"priority": 2', '"priority": 3'))
    (shell.cwd / "cut.plan").write_text(plan[:200])
    assert "was changed after it was written" in shell.refused(2, "rainbowctl apply edited.plan")
    assert "is an incomplete plan" in shell.refused(2, "rainbowctl apply cut.plan")
    port = urlsplit(shell.admin.url).port
    elsewhere = f"rainbowctl apply week.plan --endpoint localhost:{port}"
    assert f"was made for {shell.admin.url}, and this is http://localhost:{port}" in shell.refused(2, elsewhere)
    assert head(shell) == 0
    shell.ok(f"{elsewhere} --force")
    assert head(shell) == 1


def test_two_changes_at_once_are_each_whole_or_not_there(shell: Shell) -> None:
    """Rounds of two applies that share scopes; what is stored afterwards is never a mix of the two."""
    ids = [f"team-{number}" for number in range(40)]
    shell.ok("rainbowctl apply -f - -q", stdin="".join(f"---\nkind: project\nid: {id}\n" for id in ids))
    groups = {"a": ids[:30], "b": ids[10:]}
    last = head(shell)
    for round_number in range(6):
        values = {"a": 2 * round_number + 1, "b": 2 * round_number + 2}
        for name, members in groups.items():
            row = "---\nkind: workflow-priority\nproject: {}\npriority: {}\n"
            (shell.cwd / f"{name}.yaml").write_text("".join(row.format(id, values[name]) for id in members))
        with ThreadPoolExecutor(2) as pool:
            runs = pool.map(lambda name: shell.run(f"rainbowctl apply -f {name}.yaml -q"), groups)
            done = dict(zip(groups, runs, strict=True))
        statuses = {name: each.status for name, each in done.items()}
        assert set(statuses.values()) <= {0, 5}, done
        assert 0 in statuses.values(), done
        stored = {
            row["project"]: row["attributes"]["priority"] for row in shell.rows("WORKFLOW_PRIORITY", "limit=1000")
        }
        winners = [name for name, status in statuses.items() if status == 0]
        for part in (ids[:10], ids[10:30], ids[30:]):
            assert len({stored.get(id) for id in part}) == 1, stored
        for name in winners:
            own = set(groups[name]) - set(groups["b" if name == "a" else "a"])
            assert {stored[id] for id in own} == {values[name]}
        assert {stored[id] for id in ids[10:30]} <= {values[name] for name in winners}
        assert head(shell) == last + len(winners)
        last = head(shell)


class CuttingProxy(socketserver.ThreadingTCPServer):
    """Passes requests on to an admin, and cuts the connection at one point of a change that is really written.

    A change is what is posted to `path`; `only` is the number of the one to cut, from 1, where it is not all of them.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, url: str, cuts: str, path: str = "attribute_changes", only: int | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _CuttingHandler)
        self.target = ("127.0.0.1", int(urlsplit(url).port or 0))
        self.cuts = cuts
        self.start = f"POST /api/v1/{path} HTTP".encode()
        self.only = only
        self.changes_seen = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _CuttingHandler(socketserver.StreamRequestHandler):
    server: CuttingProxy

    def handle(self) -> None:
        head_lines = []
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            head_lines.append(line)
        lengths = [line for line in head_lines if line.lower().startswith(b"content-length:")]
        body = self.rfile.read(int(lengths[0].split(b":")[1])) if lengths else b""
        kept = [line for line in head_lines if not line.lower().startswith(b"connection:")]
        request = b"".join([*kept, b"Connection: close\r\n\r\n"]) + body
        is_change = bool(head_lines) and head_lines[0].startswith(self.server.start)
        self.server.changes_seen += is_change
        cuts = self.server.cuts if is_change and self.server.only in (None, self.server.changes_seen) else ""
        if cuts == "before":
            return
        with socket.create_connection(self.server.target) as upstream:
            if cuts == "halfway":
                upstream.sendall(request[: len(request) - len(body) // 2])
                return
            upstream.sendall(request)
            answer = b"".join(iter(lambda: upstream.recv(65536), b""))
        if cuts != "after":
            self.wfile.write(answer[: len(answer) // 2] if cuts == "answering" else answer)


def cutting_proxy(
    url: str, cuts: str, path: str = "attribute_changes", only: int | None = None
) -> AbstractContextManager[CuttingProxy]:
    return serving(CuttingProxy(url, cuts, path, only))


@pytest.mark.parametrize(("cuts", "is_done"), [("before", 0), ("halfway", 0), ("after", 1), ("answering", 1)])
def test_a_connection_cut_in_the_middle_leaves_all_or_nothing(shell: Shell, cuts: str, is_done: int) -> None:
    write_documents(shell.cwd / "settings", mixed_documents(200))
    with cutting_proxy(shell.admin.url, cuts) as proxy:
        done = shell.run("rainbowctl apply -f settings", RAINBOW_ENDPOINT=proxy.url)
        assert done.status == 6, done.err
        assert proxy.changes_seen == 1, "a change that may have arrived is not sent again"
    assert "The change is all or nothing: either all of it happened, or none. `rainbowctl history` shows" in done.err
    assert "revision 0 was the latest before it." in done.err
    assert head(shell) == is_done
    stored = json.loads(shell.ok("rainbowctl history -o json"))
    assert [revision["change_count"] for revision in stored] == [200] * is_done
    again = shell.run("rainbowctl apply -f settings -q")
    assert (again.status, head(shell)) == (0, 1)


def test_a_plan_through_a_connection_that_holds_is_as_without_the_proxy(shell: Shell) -> None:
    with cutting_proxy(shell.admin.url, "never") as proxy:
        shell.ok("rainbowctl apply -f -", stdin=DOCUMENT.format(3), RAINBOW_ENDPOINT=proxy.url)
    assert head(shell) == 1
