"""Many executions from one file, against an admin that notes what it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctl.client.errors import ClientError, Conflict, Forbidden, InvalidRequest, ServerError, Unanswered, Unreachable
from ctl.client.transport import Transport
from ctl.commands.executions import batches
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


class Admin:
    """Creates what it is sent, once for each name; `flaws` befall its answers in turn, after it has done its work."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sent: list[tuple[str, list[dict[str, Any]]]] = []
        self.refused: dict[str, dict[str, Any]] = {}  #: errors by the first word of the command
        self.flaws: list[Flaw] = []
        self.is_gone_after: int | None = None  #: so many requests
        self.launch_plans: list[str] = []
        self.asked: list[str] = []

    def call(self, method: str, path: str, **call: Any) -> dict[str, Any]:
        if method == "GET":
            self.asked.append(path)
            return {"launch_plans": [{}] if path.rsplit("/", 1)[1] in self.launch_plans else []}
        key = call["headers"]["Idempotency-Key"]
        self.sent.append((key, call["body"]["executions"]))
        flaw = self.flaws.pop(0) if self.flaws else None
        if self.is_gone_after is not None and len(self.sent) > self.is_gone_after:
            raise Unreachable("Gone.")
        if isinstance(flaw, Unreachable) and not isinstance(flaw, Unanswered):
            raise flaw
        is_dry = bool((call["query"] or {}).get("dry_run"))
        results = [self._one(f"{key}/{index}", body, is_dry) for index, body in enumerate(call["body"]["executions"])]
        if flaw is not None:
            raise flaw
        return {"results": results, "dry_run": is_dry}

    def _one(self, generated: str, body: dict[str, Any], is_dry: bool) -> dict[str, Any]:
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
    monkeypatch.setattr("ctl.cli.watching.time.sleep", lambda _seconds: None)
    admin = Admin()
    monkeypatch.setattr(Transport, "call", lambda _self, *args, **call: admin.call(*args, **call))
    return admin


@pytest.fixture
def create(admin: Admin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def create(text: str, *flags: str) -> tuple[int, str, str]:
        (tmp_path / "runs.yaml").write_text(text)
        status = run(["create", "execution", "--execFile", "runs.yaml", *flags])
        return (status, *capsys.readouterr())

    return create


Create = Callable[..., tuple[int, str, str]]


def documents(*commands: str, names: str = "") -> str:
    named = [*names, *[""] * len(commands)]
    return "---\n".join(
        (f"name: {name}\n" if name else "") + f"job: {{command: [{command}]}}\n"
        for command, name in zip(commands, named, strict=False)
    )


def test_every_document_is_an_execution_and_flags_are_said_of_all(admin: Admin, create: Create) -> None:
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


def test_a_list_in_json_counts_as_that_many_documents(admin: Admin, create: Create) -> None:
    runs = [{"job": {"command": ["x"]}, "targetDomain": domain} for domain in ("d", "e")]
    status, out, _err = create(json.dumps(runs))
    assert status == 0
    assert [line.split()[:2] for line in out.splitlines()] == [["PROJECT", "DOMAIN"], ["p", "d"], ["p", "e"]]


def test_one_document_is_sent_as_ever(admin: Admin, create: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[dict[str, Any]] = []

    def call(_self: Transport, *_args: Any, body: dict[str, Any], **_call: Any) -> dict[str, Any]:
        bodies.append(body)
        return {"id": {"project": "p", "domain": "d", "name": "a"}, "created": True, "execution": {}}

    monkeypatch.setattr(Transport, "call", call)
    assert create(documents("x", names="a"))[0] == 0
    assert bodies == [{"project": "p", "domain": "d", "name": "a", "spec": {"job": {"command": ["x"]}}}]


def test_a_failure_names_its_place_and_keeps_nothing_from_the_others(admin: Admin, create: Create) -> None:
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


def test_what_failed_is_corrected_and_sent_again_under_the_same_key(admin: Admin, create: Create) -> None:
    admin.refused = {"bad": BAD}
    status, _out, err = create(documents("x", "bad", "x"))
    key = err.split("Correct them where they stand. Run the same again with --idempotencyKey ")[1].split(":")[0]
    status, _out, err = create(documents("x", "good", "x"), "--idempotencyKey", key)
    assert (status, len(admin.names)) == (0, 3)
    assert "3 executions: 1 created, 2 existed already." in err


@pytest.mark.parametrize(("error", "status"), [(BAD, 2), (TAKEN, 5), ({**BAD, "status": 404}, 3)])
def test_the_status_is_that_of_the_failures_where_they_agree(
    admin: Admin, create: Create, error: dict[str, Any], status: int
) -> None:
    admin.refused = {"bad": error}
    assert create(documents("x", "bad", "bad"))[0] == status


def test_the_same_again_is_8_if_nothing_is_new_else_0(admin: Admin, create: Create) -> None:
    assert create(documents("x", "y", names="ab"))[0] == 0
    status, out, err = create(documents("x", "y", names="ab"))
    assert status == 8
    assert out.count("exists") == 2
    assert "All 2 executions exist already by the same requests. Nothing was started." in err
    status, _out, err = create(documents("x", "y", "z", names="abc"))
    assert status == 0
    assert "3 executions: 1 created, 2 existed already." in err


def test_programs_get_all_of_it(admin: Admin, create: Create) -> None:
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


def test_a_dry_run_creates_nothing_and_tells_what_would_be(admin: Admin, create: Create) -> None:
    admin.names = ["a"]
    status, out, err = create(documents("x", "y", names="ab"), "--dryRun")
    assert (status, admin.names) == (0, ["a"])
    results = [line.split("QUEUED  ")[1].removesuffix("ASSIGNED").strip() for line in out.splitlines()[1:]]
    assert results == ["exists", "would be created"]
    assert "Dry run: nothing was created. 2 executions: 1 would be created, 1 existed already." in err


def test_many_are_sent_in_batches_each_with_a_key_of_its_own(
    admin: Admin, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, err = create(documents(*["x"] * 250))
    assert (status, len(out.splitlines()), len(set(admin.names))) == (0, 251, 250)
    assert [len(sent) for _key, sent in admin.sent] == [100, 100, 50]
    assert len({key for key, _sent in admin.sent}) == 3
    assert err == "Creating 250 executions…\n250 executions: 250 created.\n"
    monkeypatch.setattr(batches, "MOST_BYTES", 200)
    admin.sent.clear()
    create(documents("x", "y" * 300, "z", "z"))
    assert [len(sent) for _key, sent in admin.sent] == [1, 1, 2]


def test_a_lost_answer_is_asked_for_again_and_nothing_is_created_twice(admin: Admin, create: Create) -> None:
    admin.flaws = [Unanswered("No answer."), None, Unanswered("No answer."), Unreachable("Gone."), None]
    status, out, err = create(documents(*["x"] * 150))
    assert status == 0
    assert out.count("created") == 150
    assert len(admin.names) == 150
    assert "Sending it again for a while: nothing is created twice." in err
    assert "The admin answers again." in err


def test_what_a_lost_answer_may_have_created_is_not_said_to_have_been_there(admin: Admin, create: Create) -> None:
    admin.flaws = [Unanswered("No answer.")]
    status, out, err = create(documents("x", "y", names="ab"))
    assert (status, out.count("exists")) == (0, 2)
    assert "some that existed may be of this very command" in err


@pytest.mark.parametrize("error", [Unreachable("Gone."), Forbidden("No."), InvalidRequest("No."), Conflict("No.")])
def test_a_refusal_of_all_is_told_as_ever(
    admin: Admin, create: Create, error: ClientError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: Any, **_call: Any) -> Any:
        raise error

    monkeypatch.setattr(Transport, "call", refuse)
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
def test_an_end_in_between_tells_what_is_known_and_the_key_to_go_on_with(
    admin: Admin, create: Create, monkeypatch: pytest.MonkeyPatch, flaw: Flaw, status: int, unsettled: str
) -> None:
    monkeypatch.setattr("ctl.commands.executions.create_many._BACKOFF_SECONDS", 0.0)
    admin.flaws = [None, flaw, flaw]
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


def test_what_may_have_arrived_before_the_admin_was_gone_is_not_said_to_be_missing(
    admin: Admin, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctl.commands.executions.create_many._BACKOFF_SECONDS", 0.05)
    admin.flaws = [None, Unanswered("No answer. It may have been carried out: look first.")]
    admin.is_gone_after = 2
    status, out, err = create(documents(*["x"] * 250))
    assert status == 6
    assert (out.count("  unknown"), out.count("  not created")) == (100, 50)
    assert "look first" not in err
    assert "Of 250 executions 100 may have been created and 50 were not." in err


def test_a_workflow_that_is_no_launch_plan_is_looked_up_once(admin: Admin, create: Create) -> None:
    admin.launch_plans = ["plan"]
    admin.refused = {"none": {"status": 404, "error": "workflow_not_found", "message": "No workflow 'none'."}}
    status, out, err = create("---\n".join(f"workflow: {name}\n" for name in ("plan", "flow", "none", "flow", "plan")))
    launched = [body["spec"]["launch_plan"] for _key, sent in admin.sent for body in sent]
    types = ["LAUNCH_PLAN", "WORKFLOW", "WORKFLOW", "WORKFLOW", "LAUNCH_PLAN"]
    assert [each["resource_type"] for each in launched] == types
    assert len(admin.asked) == 3
    assert err.count("There is no launch plan flow: the workflow flow itself is meant.") == 1
    assert status == 3
    assert "runs.yaml:5:1: There is neither a launch plan 'none' nor a workflow. No workflow 'none'" in out


def test_a_warning_about_many_is_said_once(admin: Admin, create: Create) -> None:
    _status, _out, err = create(documents("odd", "odd", "x"))
    assert err.count("That is odd.") == 1
    assert "warning: That is odd. (said of 2 executions)" in err


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        (documents("x", "y"), ["one"], "one names one execution, and runs.yaml holds 2: write `name`"),
        (documents("x", "y"), ["--watch"], "--watch follows one execution, and runs.yaml holds 2"),
        (documents("x", "y"), ["--logs"], "--logs follows one execution"),
        (documents("x", "y", names="aa"), [], "runs.yaml:4:1: execution a is given twice: first at runs.yaml:1:1."),
        (documents("x") + "---\nlabels: {a: b}\n", [], "runs.yaml:3:1: Nothing says what to run"),
        (documents("x") + "---\njobb: {}\n", [], "runs.yaml:3:1: jobb: unknown key. Did you mean job"),
        (documents("x") + "---\n- 5\n", [], "runs.yaml:3:3: a document must hold keys and values"),
        (documents("x"), ["--idempotencyKey", "ä"], "must be printable ASCII"),
        (documents("x", names="a"), ["--idempotencyKey", "k"], "leave out --idempotencyKey"),
    ],
)
def test_what_cannot_be_right_sends_nothing(
    admin: Admin, create: Create, text: str, flags: list[str], message: str
) -> None:
    status, out, err = create(text, *flags)
    assert (status, out, admin.sent) == (2, "", [])
    assert message in err


def test_place_asks_about_one(admin: Admin, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs.yaml").write_text(documents("x", "y"))
    assert run(["place", "--execFile", "runs.yaml"]) == 2
    assert "place asks about one, and runs.yaml holds 2" in capsys.readouterr().err
