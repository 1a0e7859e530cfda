"""Where things run and would run: explanations, placements, simulations, decisions made anew, and counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.support.ages import AGE
from tests.support.fleets import register, shell_with_fleet
from tests.support.shells import Shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with shell_with_fleet(tmp_path_factory.mktemp("placement")) as shell:
        yield shell


@pytest.fixture
def project(shell: Shell, request: pytest.FixtureRequest) -> str:
    return shell.project(request.node.name.replace("test_", "").replace("_", "-")[:30].strip("-"))


def label(shell: Shell, project: str, value: str) -> None:
    shell.put(f"project_domain_attributes/{project}/development", execution_cluster_label={"value": value})


def test_a_decision_is_explained_rung_by_rung_and_candidate_by_candidate(shell: Shell, project: str) -> None:
    here = f"-p {project} -d development"
    label(shell, project, "arctic")
    shell.ok(f"rainbowctl create execution why {here} --clusterPool first -q -- true")
    explain = f"rainbowctl explain execution why {here}"
    head, rungs, candidates, others, received, settings = shell.ok(explain).split("\n\n")
    others = re.sub(r"\s+", " ", others)
    now, _, rest = re.sub(r"\n {10}", " ", head).partition("\nexecution ")
    id, following, times, decision, *_ = rest.splitlines()
    assert id == f"{project}/development/why"
    assert re.fullmatch(
        r"QUEUED for \d+ s, .* at east: east is expected \(.*\); pool 'first' in the request "
        rf"outranks label 'arctic' at project-domain {project}/development\.",
        now.replace("\n", " "),
    )
    assert re.fullmatch(r"times     waited \d+ s, ran 0 s, \d+ s in all", times)
    taken = "The agent of east takes it once there is one."
    assert following == f"next      {taken} It is decided again when the fleet changes."
    assert decision == "decision  cluster east (pool first, strategy spill)"
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in rungs.splitlines()]
    assert cells[0] == ["RUNG", "ASKS FOR", "STATE", "SET BY"]
    assert ["request", "pool first", "wins", "the request"] in cells
    assert ["project-domain", "label arctic", "overridden"] in [row[:3] for row in cells]
    assert any(f"project {project}, domain development" in row[-1] for row in cells)
    heading, header, *rows = re.sub(r"\n {10,}", " ", candidates).splitlines()
    assert re.fullmatch(r"As of decision 1, \d+ s ago; ages are counted from then:", heading)
    assert [line for line in shell.ok(explain).splitlines() if len(line) > 100] == []
    assert header.split()[:2] == ["CLUSTER", "WEIGHT"]
    assert [row.split()[0] for row in rows] == ["east", "west"]
    assert "yes" in rows[0].split()
    assert "yes" not in rows[1].split()
    assert rows[1].split("  ")[-1].strip() == "able; listed after 'east', which has room"
    heading = "As the fleet is now, which may have changed since the decision:"
    assert others.startswith(f"{heading} NOT A CANDIDATE WHY NOT ")
    assert "is not in pool 'first' as defined, revision " in others
    assert re.search(r"resources.requests.cpu +2 +configuration \(task_resources.defaults.cpu\)", received)
    assert re.search(r"defaults.cpu +2 +configuration \(task_resources.defaults.cpu\)", settings)
    assert "here" not in settings
    answer = shell.rest("GET", f"executions/{project}/development/why/explanation")
    printed = json.loads(shell.ok(f"{explain} -o json"))
    now_and_then = re.compile(r'[0-9]+ s\b|"[a-z]+_seconds": [0-9.]+')
    assert now_and_then.sub("", json.dumps(printed)) == now_and_then.sub("", json.dumps(answer))
    assert "silent" not in rungs
    wide = shell.ok(f"{explain} -o wide")
    assert "silent" in wide
    assert "\ntask-resource-attribute\n" in wide
    assert "LARGE-ENOUGH" in wide
    assert " here" not in wide
    assert "DRAW" in wide


def test_a_cluster_that_drops_out_is_explained_and_so_are_earlier_decisions(shell: Shell, project: str) -> None:
    here = f"-p {project} -d development"
    shell.rest("PUT", "clusters/lonely", {"cluster": {"name": "lonely"}})
    shell.rest("PUT", "pools/lonely", {"pool": {"name": "lonely", "members": [{"id": "lonely"}]}})
    shell.ok(f"rainbowctl create execution moved {here} --clusterPool lonely -q -- true")
    shell.rest("POST", "clusters/lonely/cordon", {"reason": "new disks", "claimed_by": "otto"})
    shell.ok(f"rainbowctl wait execution moved {here} --for=phase=QUEUED --timeout 5s")
    message = shell.ok(f"rainbowctl create execution late {here} --clusterPool lonely -- true")
    assert "CLUSTERS_CORDONED" in message
    out = shell.ok(f"rainbowctl explain execution late {here}")
    assert "no cluster" in out
    _, header, row, *folded = (re.split(r"\s{2,}", line) for line in out.split("\n\n")[2].splitlines())
    assert row[0] == "lonely (expected)"
    assert "CORDONED" not in header
    assert row[header.index("STATE")] == "cordoned"
    by = rf"event [0-9]+, anonymous \(says otto\), {AGE}"
    assert re.fullmatch(rf"is cordoned, {by}, 'new disks'", " ".join([row[-1], *(line[-1] for line in folded)]))
    first = json.loads(shell.ok(f"rainbowctl explain execution moved {here} --decision 1 -o json"))
    assert first["cluster"] == "lonely"
    assert "decisions; give 1 to" in shell.refused(2, f"rainbowctl explain execution moved {here} --decision 99")
    shell.refused(3, f"rainbowctl explain execution nobody {here}")


def test_where_something_would_run_is_told_without_running_it(shell: Shell, project: str) -> None:
    here = f"-p {project} -d development"
    register(shell, project, "development", "train", plan="nightly")
    label(shell, project, "arctic")
    out = shell.ok(f"rainbowctl place {here} --launchplan nightly --input epochs=1")
    assert "cluster north (label arctic" in out
    assert "RUNG" in out
    answer = json.loads(shell.ok(f"rainbowctl place some-name {here} --clusterPool first -o json -- true"))
    assert (answer["cluster"], answer["id"]["name"]) == ("east", "some-name")
    shell.file("place.yaml", "workflow: train\ninputs: {epochs: 1}\n")
    assert "the workflow train is used instead" in shell.run(f"rainbowctl place {here} --execFile place.yaml").err
    assert shell.rest("GET", f"executions/{project}/development")["executions"] == []
    assert "Did you mean" in shell.refused(2, f"rainbowctl place {here} --clusterPool frst -- true")


def test_where_it_would_run_with_documents_that_are_not_applied(shell: Shell, project: str) -> None:
    here = f"-p {project} -d development"
    label(shell, project, "arctic")
    shell.file(
        "sunny.yaml",
        f"kind: execution-cluster-label\nproject: {project}\ndomain: development\nvalue: sunny\n",
    )
    place = f"rainbowctl place {here} -o json"
    assert json.loads(shell.ok(f"{place} -- true"))["cluster"] == "north"
    assert json.loads(shell.ok(f"{place} --with sunny.yaml -- true"))["cluster"] == "east"
    assert json.loads(shell.ok(f"{place} -- true"))["cluster"] == "north"


def test_two_executions_are_compared_with_where_each_was_placed(shell: Shell, project: str) -> None:
    here = f"-p {project} -d development"
    label(shell, project, "arctic")
    shell.ok(f"rainbowctl create execution one {here} -q -- true")
    shell.ok(f"rainbowctl create execution two {here} --clusterPool first -q -- true")
    compare = f"rainbowctl compare execution one {here} --otherExecution two"
    answer = json.loads(shell.ok(f"{compare} -o json"))
    path = f"executions/{project}/development/one/comparison"
    assert shell.rest("GET", f"{path}?other_name=two") == answer
    head, facts, same, summary, table = shell.ok(f"{compare} -o wide").split("\n\n")
    opening, first, second = head.splitlines()
    assert opening == answer["message"]
    assert opening.startswith("'one' is QUEUED; 'two' is QUEUED. They differ in placement (rung, source, ")
    header, *rows = (re.split(" {2,}", line) for line in facts.splitlines())
    assert header == ["PART", "FACT", "FIRST", "SECOND"]
    different = [fact for fact in answer["facts"] if not fact["equal"]]
    assert [row[1].replace(" ", "_") for row in rows] == [fact["field"] for fact in different]
    assert ["placement", "cluster", "north", "east"] in rows
    assert ["placement", "source", f"project-domain {project}/development", "the request"] in rows
    for fact in answer["facts"]:
        words = fact["field"] if "." in fact["field"] else fact["field"].replace("_", " ")
        assert not fact["equal"] or f"{words} " in same
    assert "job.task_type " in same
    assert "created by anonymous" in same
    assert summary.startswith(
        f"Settings: 1 field differs, {answer['equal']} equal: first is execution {project}/development/one"
    )
    chosen = r"decision 1, 20[0-9Z: -]+: Cluster '(north|east)' was chosen[^.]*\."
    rule = rf"Label 'arctic' at project-domain {project}/development decides\."
    set_by = rf"Set by project {project}, domain development \(revision \d+, anonymous[^.]*\)\."
    assert re.fullmatch(rf"first   cluster north \(label arctic, strategy weighted\), {chosen} {rule} {set_by}", first)
    rule = rf"Pool 'first' in the request outranks label 'arctic' at project-domain {project}/development\."
    assert re.fullmatch(rf"second  cluster east \(pool first, strategy spill\), {chosen} {rule}", second)
    header, row = (re.split(" {2,}", line) for line in table.splitlines())
    assert header == ["KIND", "FIELD", "FIRST", "FIRST SET BY", "SECOND", "SECOND SET BY"]
    assert row == ["cluster-pool-attribute", "cluster_pool_name", "(absent)", "-", "first", "the request"]
    assert "nobody" in shell.refused(3, f"{compare.removesuffix('two')}nobody")


def test_a_simulation_shows_what_would_have_gone_elsewhere(shell: Shell, project: str) -> None:
    here = f"-p {project} -d development"
    label(shell, project, "arctic")
    for name in ("a", "b"):
        shell.ok(f"rainbowctl create execution {name} {here} -q -- true")
    shell.ok(f"rainbowctl create execution fixed {here} --clusterPool first -q -- true")
    shell.file(
        "move.yaml",
        f"kind: execution-cluster-label\nproject: {project}\ndomain: development\nvalue: sunny\n",
    )
    simulate = f"rainbowctl simulate --with move.yaml --since 1h {here}"
    summary, moved, sums = shell.ok(simulate).split("\n\n")
    header, *rows = moved.splitlines()
    assert re.split(" {2,}", header) == [
        "PROJECT",
        "DOMAIN",
        "NAME",
        "BEFORE",
        "BEFORE BY",
        "AFTER",
        "AFTER BY",
        "REASON",
    ]
    assert sorted(row.split()[2] for row in rows) == ["a", "b"]
    assert ["north", "2", "0", "-2"] in [line.split() for line in sums.splitlines()]
    assert ["east", "1", "3", "+2"] in [line.split() for line in sums.splitlines()]
    assert summary.startswith("Compared 3 executions since ")
    compared, assumed, meaning = summary.splitlines()
    assert meaning.startswith("BEFORE is what would be decided today without the documents, AFTER with them; ")
    assert compared.endswith(f" of project {project}, domain development: 2 would go elsewhere.")
    assert assumed.startswith("Assumed the fleet as it is now (revision ")
    answer = json.loads(shell.ok(f"{simulate} -o json"))
    assert (answer["compared"], answer["moved"]) == (3, 2)
    assert shell.rest("GET", f"executions/{project}/development/a")["cluster"] == "north"


def test_a_simulation_says_why_something_would_be_refused(shell: Shell, project: str) -> None:
    here = f"-p {project} -d development"
    shell.ok(f"rainbowctl create execution big {here} --cpu 2 -q -- true")
    limits = f"kind: task-resource-attribute\nproject: {project}\ndomain: development\nlimits: {{cpu: '1'}}\n"
    shell.file("limits.yaml", limits)
    simulate = f"rainbowctl simulate --with limits.yaml --since 1h {here}"
    answer = json.loads(shell.ok(f"{simulate} -o json"))
    [move] = answer["executions"]
    assert move["after"]["refused"]
    _, moved, sums = shell.ok(simulate).split("\n\n")
    assert moved.splitlines()[1].endswith(f"refused: {move['after']['message']}")
    assert "limit" in moved
    code = move["after"]["reason"]
    assert answer["by_refusal"] == {code: {"before": 0, "after": 1}}
    assert ["refused:", code, "0", "1", "+1"] in [line.split() for line in sums.splitlines()]
    assert "(none)" not in sums
    # What is refused already is no move, and is counted all the same.
    shell.ok("rainbowctl apply -f limits.yaml")
    answer = json.loads(shell.ok(f"{simulate} -o json"))
    assert (answer["moved"], answer["by_cluster"]) == (0, {"": {"before": 1, "after": 1}})
    assert answer["by_refusal"] == {code: {"before": 1, "after": 1}}
    _, sums = shell.ok(simulate).split("\n\n")
    assert sums.splitlines()[1].split() == ["refused:", code, "1", "1", "-"]


def test_waiting_executions_adopt_new_settings_when_someone_asks(shell: Shell, project: str) -> None:
    here = f"-p {project} -d development"
    label(shell, project, "arctic")
    shell.ok(f"rainbowctl create execution waits {here} -q -- true")
    label(shell, project, "sunny")
    redecide = f"rainbowctl redecide {here} --selector cluster=north"
    done = shell.run(f"{redecide} --dryRun")
    assert done.status == 0
    assert done.out.splitlines()[1].split()[2:5] == ["waits", "north", "east"]
    opening = "1 waiting execution matches, 1 would move. Dry run: nothing was decided."
    assert done.err == f"{opening}\n"
    assert shell.ok(f"PYTHONUNBUFFERED=1 {redecide} --dryRun 2>&1").startswith(opening)
    assert "use --force" in shell.refused(2, redecide)
    done = shell.run(f"{redecide} --force", LOGNAME="ana")
    assert (done.status, done.err) == (0, "Decided 1 execution again; 1 moved.\n")
    events = json.loads(shell.ok(f"rainbowctl get execution-event waits {here} -o json"))
    assert events == shell.rest("GET", f"executions/{project}/development/waits/events")["events"]
    assert (events[-1]["type"], events[-1]["author"], events[-1]["claimed_by"]) == ("DECIDED", "anonymous", "ana")
    *_, last = shell.ok(f"rainbowctl get execution-event waits {here}").splitlines()
    assert last.endswith("anonymous (says ana)")
    assert shell.rest("GET", f"executions/{project}/development/waits")["cluster"] == "east"
    out = shell.ok(f"rainbowctl explain execution waits {here}")
    assert any(block.startswith("DECISION") for block in out.split("\n\n"))
    assert ", from north: asked to decide again by anonymous (says ana).\n" in out
    again = json.loads(shell.ok(f"rainbowctl explain execution waits {here} -o json"))
    assert events[-1]["reason"]["message"].endswith(f" Decided again, {again['because']}.")
    assert shell.run(f"{redecide} --force").err == "0 waiting executions match, none would move. Nothing to decide.\n"


def test_counts_are_drawn_within_the_width_of_the_terminal(shell: Shell, project: str) -> None:
    here = f"-p {project} -d development"
    for number in range(4):
        shell.ok(f"rainbowctl create execution c{number} {here} --clusterPool second -q -- true")
    shell.ok(f"rainbowctl create execution one {here} --clusterPool first -q -- true")
    get = f"rainbowctl get placement-counts --since 1h {here}"
    done = shell.run(f"{get} --by cluster", COLUMNS="60", PYTHONIOENCODING="utf-8")
    header, north, east = done.out.splitlines()
    assert header.split() == ["CLUSTER", "COUNT", "SHARE"]
    assert north.split()[:3] == ["north", "4", "80.0%"]
    assert east.split()[:3] == ["east", "1", "20.0%"]
    assert max(map(len, done.out.splitlines())) <= 60
    assert north.count("█") == 4 * east.count("█") or abs(north.count("█") - 4 * east.count("█")) <= 4
    assert "5 executions since " in done.err
    plain = shell.ok(f"{get} --by pool", COLUMNS="60", PYTHONIOENCODING="ascii")
    assert "#" in plain
    assert plain.isascii()
    done = shell.run(f"{get} --filter.fieldSelector 'count<4'")
    assert [line.split()[:3] for line in done.out.splitlines()[1:]] == [["east", "1", "20.0%"]]
    assert "5 executions since " in done.err
    counts = json.loads(shell.ok(f"{get} --filter.asc --filter.limit 1 -o json"))["counts"]
    assert counts == [{"value": "east", "count": 1}]
    assert "No counts match." in shell.run(f"{get} --filter.fieldSelector value=west").err
    answer = json.loads(shell.ok(f"{get} --by phase -o json"))
    assert (answer["by"], answer["total"], answer["counts"]) == ("phase", 5, [{"value": "QUEUED", "count": 5}])
    assert "(none)" in shell.ok(f"{get} --by label")
