"""What an agent reads of a Kubernetes cluster as it comes: logs, output files, and watches that break off."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from agent.engines.kubernetes.logs import DatedLines
from agent.engines.kubernetes.outputs import read_outputs
from tests.support.waiting import wait_until

OLD, NEW, NEWEST = (f"2026-01-01T00:00:0{second}.5Z" for second in range(3))


def test_times_are_taken_off_the_lines_of_a_log() -> None:
    lines = DatedLines()
    assert lines.take(f"{OLD} a\n{NEW} b c\n{NEWEST}".encode()) == (NEW, b"a\nb c\n")
    assert lines.take(b" d") == ("", b"")
    assert lines.end() == (NEWEST, b"d")


def test_a_log_that_is_resumed_goes_on_after_the_last_time() -> None:
    lines = DatedLines(NEW)
    assert lines.take(f"{OLD} a\n{NEW} b\n{NEWEST} c\n".encode()) == (NEWEST, b"c\n")
    assert lines.end() == ("", b"")


def test_a_line_that_never_ends_is_passed_on_piece_by_piece() -> None:
    lines = DatedLines()
    assert lines.take(f"{OLD} a\n{NEW} ".encode()) == (OLD, b"a\n")
    piece = b"x" * 100_000
    for _ in range(3):
        assert lines.take(piece) == ("", piece)
    # Not before it has ended is its time told, since it is to be read again if the connection is lost.
    assert lines.take(f"y\n{NEWEST} z\n".encode()) == (NEWEST, b"y\nz\n")
    resumed = DatedLines(NEW)
    assert resumed.take(f"{NEW} ".encode() + piece) == ("", b"")
    assert resumed.take(piece + f"\n{NEWEST} z".encode()) == (NEW, b"")
    assert resumed.end() == (NEWEST, b"z")


def test_what_is_no_output_file_is_left_out() -> None:
    content = base64.b64encode(b"content").decode()
    printed = f"rainbow-output x y\nrainbow-output 0 7\n{content}\nrainbow-output -1 {'9' * 5000}\nrainbow-end\n"
    files = read_outputs(printed.encode(), ["result"])
    assert files is not None
    assert {name: (file.content[:7], file.size) for name, file in files.items()} == {"result": (b"content", 7)}


def test_a_watch_goes_on_when_the_program_that_gives_credentials_fails(tmp_path: Path) -> None:
    pytest.importorskip("lightkube")
    from agent.engines.kubernetes.api import Api
    from agent.engines.kubernetes.watches import Loop, Watch

    program, kubeconfig = tmp_path / "credentials", tmp_path / "kubeconfig"
    program.write_text("echo refused >&2; exit 1\n")
    kubeconfig.write_text(f"""
apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:1"}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
users:
- name: u
  user: {{exec: {{apiVersion: client.authentication.k8s.io/v1beta1, command: sh, args: [{program}]}}}}
""")
    api = Api(str(kubeconfig))
    loop = Loop(api)
    try:
        watch = Watch(loop, "/api/v1/pods")
        wait_until(lambda: "Exec sh returned 1" in watch.problem)
        token = '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"t"}}'
        program.write_text(f"echo '{token}'\n")
        wait_until(lambda: "connect" in watch.problem.lower())
    finally:
        loop.close()
        api.close()
