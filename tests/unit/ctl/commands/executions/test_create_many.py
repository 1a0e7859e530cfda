"""Many executions from one file, against an admin that notes what it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctl.cli.session import Session, local_user
from ctl.client import Client, Transport
from ctl.client.errors import ClientError, Conflict, Forbidden, InvalidRequest, ServerError, Unanswered, Unreachable
from ctl.commands.executions.batches import batches
from ctl.files.execution_requests import Request
from ctl.main import run

BAD = {
    "status": 400,
    "code": 3,
    "error": "invalid_request",
    "message": "spec.job.command: is empty.",
    "details": [{"field": "spec.job.command", "reason": "is empty."}],
}
TAKEN = {"status": 409, "code": 6, "error": "execution_exists", "message": "The name is taken.", "details": []}
Flaw = Exception | type[BaseException] | None
Rainbowctl = Callable[..., tuple[int, str, str]]  #: from words to exit status, stdout and stderr


class Admin(Transport):
    """Creates what it is sent, once for each name; `flaws` befall its answers in turn, after it has done its work."""

    url = "http://admin"

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sent: list[tuple[str, list[dict[str, Any]]]] = []
        self.refused: dict[str, dict[str, Any]] = {}  #: errors by the first word of the command
        self.flaws: list[Flaw] = []
        self.error: ClientError | None = None  #: the answer to everything
        self.is_gone_after: int | None = None  #: so many requests
        self.launch_plans: list[str] = []
        self.asked: list[str] = []
        self.single: list[dict[str, Any]] = []  #: requests for one execution

    def close(self) -> None:
        pass

    def call(self, method: str, path: str, **call: Any) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        if method == "GET":
            self.asked.append(path)
            return {"launch_plans": [{}] if path.rsplit("/", 1)[1] in self.launch_plans else []}
        if "executions" not in call["body"]:
            self.single.append(call["body"])
            return {"id": {"project": "p", "domain": "d", "name": "a"}, "created": True, "execution": {}}
        key = call["headers"]["Idempotency-Key"]
        self.sent.append((key, call["body"]["executions"]))
        flaw = self.flaws.pop(0) if self.flaws else None
        if self.is_gone_after is not None and len(self.sent) > self.is_gone_after:
            raise Unreachable("Gone.")
        if isinstance(flaw, Unreachable) and not isinstance(flaw, Unanswered):
            raise flaw
        is_dry = bool((call["query"] or {}).get("dry_run"))
        results = [
            self._result(f"{key}/{index}", body, is_dry) for index, body in enumerate(call["body"]["executions"])
        ]
        if flaw is not None:
            raise flaw
        return {"results": results, "dry_run": is_dry}

    def _result(self, generated: str, body: dict[str, Any], is_dry: bool) -> dict[str, Any]:
        spec = body["spec"]
        word = spec["job"]["command"][0] if "job" in spec else spec["launch_plan"]["name"]
        if word in self.refused:
            return {"error": self.refused[word]}
        name = body.get("name") or generated.replace("/", "-")
        is_new = name not in self.names
        if is_new and not is_dry:
            self.names.append(name)
        return {
            "id": {"project": body["project"], "domain": body["domain"], "name": name},
            "created": is_new,
            "phase": "QUEUED",
            "cluster": "east",
            "reason": {"code": "ASSIGNED", "message": "waits"},
            "warnings": [{"code": "odd", "message": "That is odd."}] if word == "odd" else [],
        }


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Admin:
    for name in ("TOKEN", "TOKEN_FILE", "CA_FILE", "CONTEXT", "CONFIG", "OUTPUT"):
        monkeypatch.delenv(f"RAINBOW_{name}", raising=False)
    monkeypatch.setenv("RAINBOW_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("RAINBOW_PROJECT", "p")
    monkeypatch.setenv("RAINBOW_DOMAIN", "d")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Admin()


@pytest.fixture
def rainbowctl(admin: Admin, capsys: pytest.CaptureFixture[str]) -> Rainbowctl:
    """Runs commands against the admin; waiting takes no time, but the clock goes on."""
    clock = Clock()

    def call(*args: str) -> tuple[int, str, str]:
        session = Session(Client.from_transport(admin), sleep=clock.sleep, monotonic=clock.monotonic)
        return (run(list(args), session), *capsys.readouterr())

    return call


class Clock:
    """Time that goes on only when someone sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def create(rainbowctl: Rainbowctl, tmp_path: Path) -> Rainbowctl:
    def create(text: str, *flags: str) -> tuple[int, str, str]:
        (tmp_path / "runs.yaml").write_text(text)
        return rainbowctl("create", "execution", "--execFile", "runs.yaml", *flags)

    return create


def documents(*commands: str, names: str = "") -> str:
    named = [*names, *[""] * len(commands)]
    return "---\n".join(
        (f"name: {name}\n" if name else "") + f"job: {{command: [{command}]}}\n"
        for command, name in zip(commands, named, strict=False)
    )


def test_every_document_is_an_execution_and_flags_apply_to_all(admin: Admin, create: Rainbowctl) -> None:
    status, out, err = create(documents("x", "y", names="ab"), "--clusterPool", "gpu", "--label", "k=v")
    assert status == 0
    assert out.splitlines() == [
        "NAME  CLUSTER  PHASE   RESULT   REASON",
        "a     east     QUEUED  created  ASSIGNED",
        "b     east     QUEUED  created  ASSIGNED",
    ]
    assert err == "2 executions: 2 created.\n"
    [(_key, sent)] = admin.sent
    assert [body["name"] for body in sent] == ["a", "b"]
    assert all(body["spec"]["cluster_assignment"] == {"cluster_pool_name": "gpu"} for body in sent)
    assert all(body["spec"]["labels"] == {"values": {"k": "v"}} for body in sent)


def test_a_list_in_json_counts_as_that_many_documents(admin: Admin, create: Rainbowctl) -> None:
    runs = [{"job": {"command": ["x"]}, "targetDomain": domain} for domain in ("d", "e")]
    status, out, _err = create(json.dumps(runs))
    assert status == 0
    assert [line.split()[:2] for line in out.splitlines()] == [["PROJECT", "DOMAIN"], ["p", "d"], ["p", "e"]]


def test_one_document_is_sent_as_a_request_for_one(admin: Admin, create: Rainbowctl) -> None:
    assert create(documents("x", names="a"))[0] == 0
    spec = {"job": {"command": ["x"]}}
    assert admin.single == [{"project": "p", "domain": "d", "name": "a", "spec": spec, "claimed_by": local_user()}]


def test_a_failure_names_its_place_and_does_not_stop_the_others(admin: Admin, create: Rainbowctl) -> None:
    admin.refused = {"bad": BAD, "taken": TAKEN}
    status, out, err = create(documents("x", "bad", "taken", names="abc"))
    assert admin.names == ["a"]
    assert [line.split(maxsplit=4) for line in out.splitlines()[1:]] == [
        ["a", "east", "QUEUED", "created", "ASSIGNED"],
        ["b", "-", "-", "failed", "runs.yaml:5:16: spec.job.command: is empty."],
        ["c", "-", "-", "failed", "runs.yaml:7:1: The name is taken"],
    ]
    assert "3 executions: 1 created, 2 failed." in err
    assert "error: 2 of 3 executions could not be created." in err
    assert status == 1, "a refusal and a conflict have no status in common"


def test_a_corrected_file_is_sent_again_under_the_same_key(admin: Admin, create: Rainbowctl) -> None:
    admin.refused = {"bad": BAD}
    status, _out, err = create(documents("x", "bad", "x"))
    key = err.split("Correct them in the file. Run the same command again with --idempotencyKey ")[1].split(":")[0]
    status, _out, err = create(documents("x", "good", "x"), "--idempotencyKey", key)
    assert (status, len(admin.names)) == (0, 3)
    assert "3 executions: 1 created, 2 existed already." in err


@pytest.mark.parametrize(("error", "status"), [(BAD, 2), (TAKEN, 5), ({**BAD, "status": 404}, 3)])
def test_the_status_is_that_of_the_failures_where_they_agree(
    admin: Admin, create: Rainbowctl, error: dict[str, Any], status: int
) -> None:
    admin.refused = {"bad": error}
    assert create(documents("x", "bad", "bad"))[0] == status


def test_the_same_again_is_8_if_nothing_is_new_else_0(admin: Admin, create: Rainbowctl) -> None:
    assert create(documents("x", "y", names="ab"))[0] == 0
    status, out, err = create(documents("x", "y", names="ab"))
    assert status == 8
    assert out.count("exists") == 2
    assert "All 2 executions were created earlier by the same requests. Nothing was started." in err
    status, _out, err = create(documents("x", "y", "z", names="abc"))
    assert status == 0
    assert "3 executions: 1 created, 2 existed already." in err


def test_json_has_every_result_and_name_the_created_ones(admin: Admin, create: Rainbowctl) -> None:
    admin.refused = {"bad": BAD}
    status, out, err = create(documents("x", "bad", names="a"), "-o", "json")
    good, bad = json.loads(out)
    assert status == 2
    assert (good["position"], good["result"], good["id"]["name"]) == ("runs.yaml:1:1", "created", "a")
    assert (good["cluster"], good["phase"], good["reason"]["code"]) == ("east", "QUEUED", "ASSIGNED")
    assert (bad["position"], bad["result"]) == ("runs.yaml:4:1", "failed")
    assert bad["error"]["details"] == [{**BAD["details"][0], "position": "runs.yaml:4:16"}]  # type: ignore[index]
    assert json.loads(err)["error"]["exit_code"] == 2
    status, out, err = create(documents("x", "bad", names="a"), "-o", "name")
    assert (status, out) == (2, "execution/p/d/a\n")
    assert "runs.yaml:4:16: spec.job.command: is empty." in err


def test_a_dry_run_creates_nothing_and_shows_what_would_be_created(admin: Admin, create: Rainbowctl) -> None:
    admin.names = ["a"]
    status, out, err = create(documents("x", "y", names="ab"), "--dryRun")
    assert (status, admin.names) == (0, ["a"])
    results = [line.split("QUEUED  ")[1].removesuffix("ASSIGNED").strip() for line in out.splitlines()[1:]]
    assert results == ["exists", "would be created"]
    assert "Dry run: nothing was created. 2 executions: 1 would be created, 1 existed already." in err


def test_many_are_sent_in_batches_each_with_a_key_of_its_own(admin: Admin, create: Rainbowctl) -> None:
    status, out, err = create(documents(*["x"] * 250))
    assert (status, len(out.splitlines()), len(set(admin.names))) == (0, 251, 250)
    assert [len(sent) for _key, sent in admin.sent] == [100, 100, 50]
    assert len({key for key, _sent in admin.sent}) == 3
    assert err == "Creating 250 executions…\n250 executions: 250 created.\n"


def test_a_batch_has_a_limit_in_requests_and_one_in_bytes() -> None:
    requests = [Request(body={"name": name}) for name in ("x", "y" * 300, "z", "z", "z")]
    assert [len(batch) for batch in batches(requests, most_bytes=200)] == [1, 1, 3]
    assert [len(batch) for batch in batches(requests, most_bytes=200, most_requests=2)] == [1, 1, 2, 1]


def test_a_lost_answer_is_asked_for_again_and_nothing_is_created_twice(admin: Admin, create: Rainbowctl) -> None:
    admin.flaws = [Unanswered("No answer."), None, Unanswered("No answer."), Unreachable("Gone."), None]
    status, out, err = create(documents(*["x"] * 150))
    assert status == 0
    assert out.count("created") == 150
    assert len(admin.names) == 150
    assert "Retrying: nothing is created twice." in err
    assert "The admin answers again." in err


def test_after_a_lost_answer_existing_executions_may_be_of_the_same_command(admin: Admin, create: Rainbowctl) -> None:
    admin.flaws = [Unanswered("No answer.")]
    status, out, err = create(documents("x", "y", names="ab"))
    assert (status, out.count("exists")) == (0, 2)
    assert "this command may have created some of those that existed" in err


@pytest.mark.parametrize("error", [Unreachable("Gone."), Forbidden("No."), InvalidRequest("No."), Conflict("No.")])
def test_an_error_for_the_first_batch_is_the_error_of_the_command(
    admin: Admin, create: Rainbowctl, error: ClientError
) -> None:
    admin.error = error
    status, out, err = create(documents("x", "y"))
    assert (status, out, err) == (error.exit_code, "", f"error: {error.message}\n")


@pytest.mark.parametrize(
    ("flaw", "status", "unsettled"),
    [
        (Unanswered("Sent. It may have been carried out."), 6, "100 may have been created and 50 were not."),
        (Unreachable("Gone."), 6, "150 were not."),
        (ServerError("Broken."), 1, "100 may have been created and 50 were not."),
        (Forbidden("No."), 4, "150 were not."),
        (KeyboardInterrupt, 130, "100 may have been created and 50 were not."),
    ],
)
def test_an_early_end_shows_what_is_known_and_the_key_to_go_on_with(
    admin: Admin, create: Rainbowctl, flaw: Flaw, status: int, unsettled: str
) -> None:
    admin.flaws = [None, *[flaw] * 20]  # more than are sent in the time for trying again
    runs = documents(*["x"] * 250)
    exit_status, out, err = create(runs)
    assert exit_status == status
    assert out.count("  created  ") == 100
    assert f"Of 250 executions {unsettled}" in err
    admin.flaws = []
    key = err.split("--idempotencyKey ")[1].split(":")[0]
    exit_status, out, err = create(runs, "--idempotencyKey", key)
    assert exit_status == 0
    assert len(admin.names) == 250, "all of them, and none twice"


def test_a_batch_that_may_have_arrived_before_the_admin_was_gone_is_unknown(admin: Admin, create: Rainbowctl) -> None:
    admin.flaws = [None, Unanswered("No answer. It may have been carried out: look first.")]
    admin.is_gone_after = 2
    status, out, err = create(documents(*["x"] * 250))
    assert status == 6
    assert (out.count("  unknown"), out.count("  not created")) == (100, 50)
    assert "look first" not in err
    assert "Of 250 executions 100 may have been created and 50 were not." in err


def test_a_workflow_that_is_no_launch_plan_is_looked_up_once(admin: Admin, create: Rainbowctl) -> None:
    admin.launch_plans = ["plan"]
    admin.refused = {"none": {"status": 404, "error": "workflow_not_found", "message": "No workflow 'none'."}}
    status, out, err = create("---\n".join(f"workflow: {name}\n" for name in ("plan", "flow", "none", "flow", "plan")))
    launched = [body["spec"]["launch_plan"] for _key, sent in admin.sent for body in sent]
    types = ["LAUNCH_PLAN", "WORKFLOW", "WORKFLOW", "WORKFLOW", "LAUNCH_PLAN"]
    assert [launch_plan["resource_type"] for launch_plan in launched] == types
    assert len(admin.asked) == 3
    assert err.count("There is no launch plan flow: the workflow flow is used instead.") == 1
    assert status == 3
    assert "runs.yaml:5:1: There is neither a launch plan 'none' nor a workflow. No workflow 'none'" in out


def test_a_warning_about_many_is_printed_once_and_names_those_that_it_is_about(
    admin: Admin, create: Rainbowctl
) -> None:
    _status, out, err = create(documents("odd", "x", "odd"))
    assert err.count("That is odd.") == 1
    first, _, third = (line.split()[0] for line in out.splitlines()[1:])
    assert f"warning: {first} and {third}: That is odd." in err
    _status, out, err = create(documents(*["odd"] * 5, "x"))
    names = [line.split()[0] for line in out.splitlines()[1:4]]
    assert f"warning: {', '.join(names)} and 2 more: That is odd." in err


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (documents("x", "y"), ["one"], "one names one execution, and runs.yaml holds 2: write `name`"),
        (documents("x", "y"), ["--watch"], "--watch follows one execution, and runs.yaml holds 2"),
        (documents("x", "y"), ["--logs"], "--logs follows one execution"),
        (documents("x", "y", names="aa"), [], "runs.yaml:4:1: execution a is given twice: first at runs.yaml:1:1."),
        (documents("x") + "---\nlabels: {a: b}\n", [], "runs.yaml:3:1: Nothing to run"),
        (documents("x") + "---\njobb: {}\n", [], "runs.yaml:3:1: jobb: unknown key. Did you mean job"),
        (documents("x") + "---\n- 5\n", [], "runs.yaml:3:3: a document must hold keys and values"),
        (documents("x"), ["--idempotencyKey", "ä"], "must be printable ASCII"),
        (documents("x", names="a"), ["--idempotencyKey", "k"], "leave out --idempotencyKey"),
    ],
)
def test_invalid_input_sends_nothing(
    admin: Admin, create: Rainbowctl, text: str, flags: list[str], message: str
) -> None:
    status, out, err = create(text, *flags)
    assert (status, out, admin.sent) == (2, "", [])
    assert message in err


def test_place_asks_about_one(rainbowctl: Rainbowctl, tmp_path: Path) -> None:
    (tmp_path / "runs.yaml").write_text(documents("x", "y"))
    status, _out, err = rainbowctl("place", "--execFile", "runs.yaml")
    assert status == 2
    assert "place takes one execution, and runs.yaml holds 2" in err
