"""Executions that are there: listed, filtered, watched, archived, ended, waited for."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
import yaml

from ctl.cli.output import Printer
from tests.support.fleets import register, shell_with_fleet
from tests.support.shells import Shell
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with shell_with_fleet(tmp_path_factory.mktemp("lists")) as shell:
        yield shell


@pytest.fixture
def here(shell: Shell, request: pytest.FixtureRequest) -> str:
    """The flags of a project of this test's own."""
    name = request.node.name.split("[")[0].replace("test_", "").replace("_", "-")[:30].strip("-")
    shell.project(name)
    return f"-p {name} -d development"


def reads_of_an_execution(shell: Shell) -> float:
    """How often the admin was asked for one execution."""
    route = 'method="GET",route="/api/v1/executions/<project>/<domain>/<name>"'
    lines = shell.admin.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if f"rainbow_http_requests_total{{{route}" in line)


def make(shell: Shell, here: str, *names: str, flags: str = "") -> None:
    for name in names:
        shell.ok(f"rainbowctl create execution {name} {here} {flags} -q -- true")


def named(shell: Shell, command: str) -> list[str]:
    """The names that a list holds, in its order."""
    return [line.rpartition("/")[2] for line in shell.ok(f"rainbowctl get execution {command} -o name").splitlines()]


def test_a_list_is_newest_first_and_shows_where_each_is(shell: Shell, here: str) -> None:
    assert shell.run(f"rainbowctl get execution {here}").err == "No executions yet.\n"
    make(shell, here, "a", flags="--clusterPool first")
    make(shell, here, "b", flags="--executionClusterLabel arctic")
    rows = [line.split() for line in shell.ok(f"rainbowctl get execution {here} --no-headers").splitlines()]
    assert [row[:8] for row in rows] == [
        ["b", "-", "-", "QUEUED", "CLUSTER_EXPECTED", "north", "-", "arctic"],
        ["a", "-", "-", "QUEUED", "CLUSTER_EXPECTED", "east", "first", "-"],
    ]
    project = here.split()[1]
    done = shell.run(f"rainbowctl get execution {here}")
    assert done.err == f"2 executions of project {project}, domain development: 2 QUEUED.\n"
    header, *rest = shell.ok(f"rainbowctl get executions -p {project} -o wide").splitlines()
    assert header.split()[:3] == ["PROJECT", "DOMAIN", "NAME"]
    assert {"STATE", "MODE", "ATTEMPT", "REVISION", "MESSAGE"} < set(header.split())
    assert re.search("CREATED BY +PRINCIPAL", header)
    assert "anonymous" in rest[0]
    assert [row.split()[:3] for row in rest] == [[project, "development", "b"], [project, "development", "a"]]


def test_the_terms_of_each_run_are_shown_and_selected_by(shell: Shell, here: str) -> None:
    make(shell, here, "plain")
    make(shell, here, "short", flags="--duration 90m --onLost retry")
    header, row, _ = shell.ok(f"rainbowctl get execution {here} -o wide").splitlines()
    cells = dict(zip(re.split(" {2,}", header), re.split(" {2,}", row), strict=True))
    assert [cells[name] for name in ("TIME LIMIT", "ON LOST", "GPU")] == ["1 h 30 min", "retry", "-"]
    for selector in ("on_lost=RETRY", "time_limit>1h", "time_limit!=none"):
        assert named(shell, f"{here} --selector '{selector}'") == ["short"]
    assert named(shell, f"{here} --selector 'time_limit=none,gpu=0'") == ["plain"]
    assert "'big' is not a quantity such as 500m or 4Gi, as memory must be" in shell.refused(
        2, f"rainbowctl get execution {here} --selector 'memory>big'"
    )
    assert "is no whole number" in shell.refused(2, f"rainbowctl get execution {here} --selector 'gpu>some'")
    assert set(named(shell, f"{here} --sortBy next-attempt --asc")) == {"plain", "short"}
    answer = json.loads(shell.ok(f"rainbowctl get execution {here} --by day -o json"))
    assert [group["count"] for group in answer["counts"]] == [2]
    assert re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", answer["counts"][0]["value"])


def test_executions_are_selected_by_labels_and_principal_of_a_file(shell: Shell, here: str) -> None:
    shell.file("run.yaml", "name: own\nprincipal: ann\nlabels: {team: ml}\njob: {command: ['true']}\n")
    shell.ok(f"rainbowctl create execution {here} --execFile run.yaml -q")
    make(shell, here, "other")
    for selector in ("labels.team=ml", "principal=ann", "createdBy=anonymous,labels.team!=search,principal=ann"):
        assert named(shell, f"{here} --filter.fieldSelector {selector}") == ["own"]
    answer = yaml.safe_load(shell.ok(f"rainbowctl get execution own {here} -o yaml"))
    assert (answer["created_by"], answer["principal"], answer["labels"]) == ("anonymous", "ann", {"team": "ml"})
    assert "ann" in shell.ok(f"rainbowctl get execution own {here} -o wide").splitlines()[-1].split()


def test_one_execution_is_shown_in_every_form(shell: Shell, here: str) -> None:
    make(shell, here, "one")
    answer = shell.rest("GET", f"executions/{here.split()[1]}/development/one")
    shown = json.loads(shell.ok(f"rainbowctl get execution one {here} -o json"))
    status = shown.pop("status")
    assert shown == answer
    assert yaml.safe_load(shell.ok(f"rainbowctl get execution one {here} -o yaml")).keys() == {*answer, "status"}
    sentence, row = shell.ok(f"rainbowctl get execution one {here}").split("\n\n")
    words = re.sub(r"for \d+ s\b", "for …", re.sub(r"\n {10}", " ", sentence)).replace("\n", " ")
    assert words.startswith(re.sub(r"for \d+ s\b", "for …", status["message"]))
    assert f" next {status['next']}" in re.sub(" +", " ", words)
    assert row.splitlines()[0].startswith("NAME ")
    assert max(map(len, [*sentence.splitlines(), *row.splitlines()])) <= 100
    message = shell.refused(3, f"rainbowctl get execution on {here}")
    assert "one" in message


def test_filters_leave_what_they_say(shell: Shell, here: str) -> None:
    make(shell, here, "a", flags="--clusterPool first")
    make(shell, here, "b", flags="--clusterPool second")
    make(shell, here, "c", flags="--executionClusterLabel sunny")
    shell.ok(f"rainbowctl delete execution a {here} -q")
    for flags, expected in {
        "--pool first": ["a"],
        "--cluster north": ["b"],
        "--label sunny": ["c"],
        "--phase queued": ["c", "b"],
        "--phase QUEUED,aborted": ["c", "b", "a"],
        "--reason TERMINATED": ["a"],
        "--since 1h": ["c", "b", "a"],
        "--filter.fieldSelector 'phase=QUEUED,cluster in (east;north)'": ["c", "b"],
        "--filter.fieldSelector 'cluster not in (north)'": ["c", "a"],
        "--filter.fieldSelector 'name!=c,created_at>1h'": ["b", "a"],
        "--filter.fieldSelector 'name contains b'": ["b"],
        "--filter.field-selector 'execution.phase=ABORTED'": ["a"],
        "--filter.sortBy name --filter.asc": ["a", "b", "c"],
        "--filter.sortBy name": ["c", "b", "a"],
        "--filter.asc": ["a", "b", "c"],
        "--filter.limit 2": ["c", "b"],
        "--filter.limit 2 --filter.page 2": ["a"],
    }.items():
        assert named(shell, f"{here} {flags}") == expected, flags
    done = shell.run(f"rainbowctl get execution {here} --filter.limit 2")
    opening = f"The first 2 executions of project {here.split()[1]}, domain development: 2 QUEUED.\n"
    assert done.err == f"{opening}There are more: --filter.page 2 shows the next 2.\n"
    assert shell.run(f"rainbowctl get execution {here} --pool none").err == (
        "No executions match.\nNo pool is called 'none'.\n"
    )


def test_executions_of_a_workflow_are_found_by_its_name(shell: Shell, here: str) -> None:
    project = here.split()[1]
    register(shell, project, "development", "train", plan="nightly")
    run = f"rainbowctl create execution {here} --input epochs=1 -q"
    shell.ok(f"{run} --workflow train w")
    shell.ok(f"{run} --launchplan nightly l")
    assert named(shell, f"{here} --launchplan nightly") == ["l"]
    assert named(shell, f"{here} --workflow train") == ["l", "w"]
    assert named(shell, f"{here} --version v2") == []
    rows = shell.ok(f"rainbowctl get execution {here} --no-headers").splitlines()
    assert [row.split()[1:3] for row in rows] == [["nightly", "v1"], ["train", "(workflow)"]]


def test_all_projects_are_listed_when_asked_for(shell: Shell, here: str) -> None:
    make(shell, here, "everywhere")
    shell.ok("rainbowctl create execution everywhere -p flytesnacks -d staging -q -- true")
    every = named(shell, "--allProjects --filter.fieldSelector name=everywhere")
    assert every == ["everywhere", "everywhere"]
    context = {"RAINBOW_PROJECT": "flytesnacks", "RAINBOW_DOMAIN": "staging"}
    get = "rainbowctl get execution --filter.fieldSelector name=everywhere -o name"
    assert shell.ok(get, **context) == "execution/flytesnacks/staging/everywhere\n"
    assert len(shell.ok(f"{get} -A", **context).splitlines()) == 2
    assert shell.ok(f"{get} -A -d staging", **context) == "execution/flytesnacks/staging/everywhere\n"


def test_everything_of_one_execution_is_shown_in_detail(shell: Shell, here: str) -> None:
    make(shell, here, "deep", flags="--clusterPool first")
    out = shell.ok(f"rainbowctl get execution deep {here} --details")
    for part in ("phase: QUEUED", "command:", "RUNG", "CLUSTER", "CREATED"):
        assert part in out
    detailed = json.loads(shell.ok(f"rainbowctl get execution deep {here} --details -o json"))
    assert list(detailed) == ["execution", "events", "explanation"]
    assert detailed["events"][0]["number"] == 1


def test_events_are_listed_oldest_first(shell: Shell, here: str) -> None:
    make(shell, here, "short")
    shell.ok(f"rainbowctl delete execution short {here} --cause 'a test' -q")
    get = f"rainbowctl get execution-event short {here}"
    events = json.loads(shell.ok(f"{get} -o json"))
    assert [event["phase"] for event in events] == ["QUEUED", "ABORTED"]
    header, first, last = shell.ok(get).splitlines()
    assert header.split() == ["NUMBER", "WHEN", "EVENT", "PHASE", "CLUSTER", "REASON", "MESSAGE", "BY"]
    assert first.split()[0] == "1"
    assert re.search(r"a test +anonymous \(says \S+\)$", last)
    last = shell.ok(f"{get} -o wide").splitlines()[-1]
    done = shell.run(f"{get} --filter.fieldSelector 'phase=ABORTED,at>1h' --no-headers -o wide")
    assert done.out.split() == last.split()
    assert done.err == f"1 event of execution {here.split()[1]}/development/short.\n"
    assert json.loads(shell.ok(f"{get} --filter.sortBy number --filter.limit 1 -o json")) == events[1:]
    assert shell.run(f"{get} --filter.fieldSelector phase=RUNNING").err == "No events match.\n"


def test_an_execution_is_archived_and_brought_back(shell: Shell, here: str) -> None:
    make(shell, here, "old")
    update = f"rainbowctl update execution old {here}"
    assert shell.run(f"{update} --archive --dryRun").err.endswith("would be ARCHIVED. Dry run: nothing was written.\n")
    assert named(shell, here) == ["old"]
    shell.ok(f"{update} --archive", LOGNAME="olga")
    archived = json.loads(shell.ok(f"rainbowctl get execution-event old {here} -o json"))[-1]
    assert (archived["type"], archived["author"], archived["claimed_by"]) == ("ARCHIVED", "anonymous", "olga")
    assert "anonymous (says olga)" in shell.ok(f"rainbowctl get execution-event old {here}").splitlines()[-1]
    assert named(shell, here) == []
    assert named(shell, f"{here} --state archived") == ["old"]
    assert named(shell, f"{here} --filter.fieldSelector state=1") == ["old"]
    assert "No changes" in shell.run(f"{update} --archive").err
    assert json.loads(shell.ok(f"{update} --activate -o json"))["state"] == "ACTIVE"
    assert named(shell, here) == ["old"]
    assert "give one of the two" in shell.refused(2, update)


def test_executions_are_ended_by_name_and_finished_ones_are_said_to_be(shell: Shell, here: str) -> None:
    project = here.split()[1]
    make(shell, here, "a", "b")
    assert "no time" not in shell.run(f"rainbowctl get execution {here} --sortBy duration").err
    dry = shell.run(f"rainbowctl delete execution a b {here} --dryRun")
    assert dry.err.count("would be ended") == 2
    done = shell.run(f"rainbowctl delete execution a {here} --cause 'wrong inputs'")
    assert (done.status, done.err) == (0, f"Ended execution {project}/development/a: it is ABORTED.\n")
    execution = shell.rest("GET", f"executions/{project}/development/a")
    assert execution["closure"]["abort_metadata"]["cause"] == "wrong inputs"
    for choice in ("--cause cancelled", "--filter.fieldSelector abort_principal!=nobody,phase=ABORTED"):
        header, row = shell.ok(f"rainbowctl get execution {here} {choice}").splitlines()
        assert re.search(r"  ABORTED BY +ABORT REQUESTED +ABORT CAUSE$", header.rstrip())
        assert re.search(r"  anonymous \(says [^)]+\) +[\w ]+ ago +wrong inputs$", row.rstrip())
    header, row = shell.ok(f"rainbowctl get execution {here} --cause cancelled -o wide").splitlines()
    requested_at = execution["closure"]["abort_metadata"]["requested_at"]
    shown = row[header.index("ABORT REQUESTED") :].split("  ")[0]
    assert shown == Printer(format="wide").when(requested_at)
    done = shell.run(f"rainbowctl delete execution a b {here}")
    assert done.status == 0
    assert f"Execution {project}/development/a is ABORTED already: nothing was done." in done.err
    assert f"Ended execution {project}/development/b: it is ABORTED." in done.err
    done = shell.run(f"rainbowctl delete execution nobody a {here} -o json")
    assert done.status == 3
    assert [result["changed"] for result in json.loads(done.out)] == [False]
    done = shell.run(f"rainbowctl delete execution nobody a {here}")
    assert "error: 1 of 2 executions could not be ended: No execution is called 'nobody'" in done.err
    assert shell.run(f"rainbowctl delete execution nobody none {here}").err.count("No execution is called") == 2


def test_names_are_completed(shell: Shell, here: str) -> None:
    make(shell, here, "known", "knot", "other")
    words = f"rainbowctl get execution {here} kn"
    variables = {"_RAINBOWCTL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "7"}
    offered = shell.run("rainbowctl", **variables).out.splitlines()
    assert sorted(line.partition(",")[2] for line in offered) == ["knot", "known"]


def test_names_go_through_a_pipe(shell: Shell, here: str) -> None:
    make(shell, here, "a", "b")
    pipe = f"rainbowctl get execution {here} -o name | xargs rainbowctl delete execution -q"
    shell.ok(f"set -o pipefail; {pipe}")
    assert named(shell, f"{here} --phase ABORTED") == ["b", "a"]


def test_many_are_ended_by_a_selector_after_a_question(shell: Shell, here: str) -> None:
    make(shell, here, "a", "b", flags="--clusterPool first")
    make(shell, here, "c", flags="--clusterPool second")
    delete = f"rainbowctl delete execution {here} --selector 'phase=QUEUED,pool=first'"
    done = shell.run(f"{delete} --dryRun")
    assert done.status == 0
    assert sorted(line.split()[2] for line in done.out.splitlines()[1:]) == ["a", "b"]
    assert done.err == "2 unfinished executions match. Dry run: nothing was ended.\n"
    message = shell.refused(2, delete)
    assert "There is no terminal to ask at: use --force. Nothing was ended." in message
    with shell.at_terminal(delete) as terminal:
        terminal.wait_for("2 unfinished executions match. End them? [y/N] ")
        terminal.type("n\n")
        assert terminal.finish().status == 1
    assert named(shell, f"{here} --phase QUEUED") == ["c", "b", "a"]
    with shell.at_terminal(delete) as terminal:
        terminal.wait_for("End them? [y/N] ")
        terminal.type("y\n")
        assert terminal.finish().status == 0
    assert named(shell, f"{here} --phase QUEUED") == ["c"]
    done = shell.run(f"{delete} --force")
    assert (done.status, done.out) == (0, "")
    answer = json.loads(shell.ok(f"rainbowctl delete execution {here} --selector name=c --force -o json"))
    assert (answer["matched"], answer["terminated"]) == (1, 1)


def test_waiting_ends_as_soon_as_it_is_so(shell: Shell, here: str) -> None:
    make(shell, here, "w", flags="--clusterPool first")
    wait = f"rainbowctl wait execution w {here}"
    shell.ok(f"{wait} --for=placed --timeout 5s")
    shell.ok(f"{wait} --for=cluster=east --timeout 5s")
    shell.ok(f"{wait} --for=phase=QUEUED")
    started = time.monotonic()
    done = shell.run(f"{wait} --for=phase=RUNNING --timeout 1.5s")
    assert done.status == 9
    assert time.monotonic() - started >= 1.5
    assert "was not RUNNING within 1.5 s: it is QUEUED on east" in done.err
    reads_before = reads_of_an_execution(shell)
    waiting = subprocess.Popen(
        ["bash", "-c", f"exec {wait} --for=phase=ABORTED,SUCCEEDED --timeout 1h"],
        cwd=shell.cwd,
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: reads_of_an_execution(shell) > reads_before)
    shell.ok(f"rainbowctl delete execution w {here} -q")
    _out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    done = shell.run(f"{wait} --for=phase=SUCCEEDED --timeout 5m")
    assert done.status == 9
    assert "can no longer be SUCCEEDED: it is ABORTED" in done.err
    assert shell.run(f"{wait} --for=phase=QUEUED").status == 0
    assert shell.run(f"{wait} --for=cluster=north").status == 9
    shell.ok(wait)
    shell.refused(3, f"rainbowctl wait execution nobody {here}")


def test_an_execution_is_watched_until_it_is_finished(shell: Shell, here: str) -> None:
    create = f"rainbowctl create execution seen {here} --watch"
    watching = subprocess.Popen(
        ["bash", "-c", f"exec {create} -- true"],
        cwd=shell.cwd,
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert watching.stdout is not None
    assert watching.stdout.readline().split() == [b"WHEN", b"PHASE", b"REASON", b"CLUSTER", b"MESSAGE"]
    assert b"QUEUED" in watching.stdout.readline()
    shell.ok(f"rainbowctl delete execution seen {here} -q")
    out, err = watching.communicate(timeout=30)
    assert b"ABORTED" in out
    assert watching.returncode == 9
    assert b"ended ABORTED" in err
    assert shell.run(f"rainbowctl get execution seen {here} --watch").status == 0


def test_a_list_is_watched_until_ctrl_c(shell: Shell, here: str) -> None:
    make(shell, here, "first")
    watching = subprocess.Popen(
        ["bash", "-c", f"exec rainbowctl get execution {here} --watch"],
        cwd=shell.cwd,
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert watching.stdout is not None
    assert b"NAME" in watching.stdout.readline()
    assert watching.stdout.readline().split()[0] == b"first"
    make(shell, here, "second")
    assert watching.stdout.readline().split()[0] == b"second"
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=30)
    assert watching.returncode == 130
