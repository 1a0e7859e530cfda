"""Every kind's noun at every level: what is set where, what is inherited from where, what a delete leaves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.admins import RunningAdmin, running_admin
from tests.support.shells import Shell

#: For each noun: flags that set something, and what is stored then.
SET: dict[str, tuple[str, dict[str, Any]]] = {
    "task-resource-attribute": ("--limits.memory 2Gi", {"limits": {"memory": "2Gi"}}),
    "cluster-resource-attribute": ("--attributes quota=5", {"attributes": {"quota": "5"}}),
    "execution-queue-attribute": ("--tags a --tags b", {"tags": ["a", "b"]}),
    "execution-cluster-label": ("--value mycluster", {"value": "mycluster"}),
    "quality-of-service": ("--tier high", {"tier": "HIGH"}),
    "plugin-override": (
        "--overrides '{task_type: t, plugin_id: [p]}'",
        {"overrides": [{"task_type": "t", "plugin_id": ["p"]}]},
    ),
    "workflow-execution-config": ("--maxParallelism 3", {"max_parallelism": 3}),
    "cluster-pool-attribute": ("--cluster-pool-name gpu", {"cluster_pool_name": "gpu"}),
    "token-pool-quota": ("--set pools.hive=5", {"pools": {"hive": 5}}),
    "execution-quota": ("--set running=20", {"running": 20}),
    "workflow-priority": ("--priority 70", {"priority": 70}),
}
#: For each level: how its scope is typed, in which other way, and its keys.
LEVELS: dict[str, tuple[str, str, dict[str, str]]] = {
    "domain": ("-d staging", "--domain=staging", {"domain": "staging"}),
    "project": ("-p walk", "--project walk", {"project": "walk"}),
    "project-domain": ("-p walk -d staging", "-d staging -p walk", {"project": "walk", "domain": "staging"}),
    "workflow": (
        "-p walk -d staging my.wf",
        "-p walk -d staging -w my.wf",
        {"project": "walk", "domain": "staging", "workflow": "my.wf"},
    ),
    "launch-plan": (
        "-p walk -d staging my.wf --launchplan nightly",
        "-p walk -d staging --workflow my.wf --launch-plan nightly",
        {"project": "walk", "domain": "staging", "workflow": "my.wf", "launch_plan": "nightly"},
    ),
}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("scopes")
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


@pytest.fixture
def new_shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def test_every_kind_the_admin_has_is_tried_here(shell: Shell) -> None:
    assert [kind["noun"] for kind in shell.rest("GET", "kinds")["kinds"]] == list(SET)


@pytest.mark.parametrize("noun", SET)
def test_a_kind_is_a_noun_in_singular_and_plural_of_every_verb(shell: Shell, noun: str) -> None:
    flags, payload = SET[noun]
    plural = f"{noun[:-1]}ies" if noun == "workflow-priority" else f"{noun}s"
    name = shell.project(noun)
    shell.ok(f"rainbowctl update {noun} -p {name} {flags}")
    assert shell.values(noun, f"project={name}") == [payload]
    assert "No changes" in shell.run(f"rainbowctl update {plural} -p {name} {flags}").err
    shown = json.loads(shell.ok(f"rainbowctl get {plural} -p {name} -o json"))
    assert payload.items() <= shown.items()
    shell.ok(f"rainbowctl delete {plural} -p {name}")
    assert shell.values(noun, f"project={name}") == []


def test_a_value_is_set_and_deleted_at_each_level_however_its_scope_is_typed(new_shell: Shell) -> None:
    new_shell.project("walk")
    for level, (typed, otherwise, keys) in LEVELS.items():
        done = new_shell.run(f"rainbowctl update execution-cluster-label {typed} --value {level}")
        words = ", ".join(f"{key.replace('_', ' ')} {name}" for key, name in keys.items())
        assert done.out.startswith(f"execution-cluster-label at {words} (level {level})\n--- not set\n")
        shown = json.loads(new_shell.ok(f"rainbowctl get execution-cluster-label {otherwise} --exact -o json"))
        assert shown.pop("consequence")["outcome"] == "refuses"  # there is no such label
        origin = {"level": level, **keys, "version": shown["version"], "revision": shown["version"]}
        assert shown == {
            **keys,
            "value": level,
            "version": shown["version"],
            "provenance": shown["revisions"][str(shown["version"])],
            "origins": {"value": origin},
            "revisions": shown["revisions"],
        }
    stored = new_shell.rows("3")
    assert {row["level"]: row["attributes"]["value"] for row in stored} == {level: level for level in LEVELS}

    table = new_shell.ok("rainbowctl get execution-cluster-label -A")
    rows = [re.split("  SET BY|  revision [0-9]+, anonymous", line)[0].rstrip() for line in table.splitlines()]
    assert "".join(f"{row}\n" for row in rows) == (
        "LEVEL           PROJECT  DOMAIN   WORKFLOW  LAUNCH PLAN  VALUE                 VERSION\n"
        "domain          -        staging  -         -            value=domain          2\n"
        "project         walk     -        -         -            value=project         3\n"
        "project-domain  walk     staging  -         -            value=project-domain  4\n"
        "workflow        walk     staging  my.wf     -            value=workflow        5\n"
        "launch-plan     walk     staging  my.wf     nightly      value=launch-plan     6\n"
    )

    below = new_shell.ok("rainbowctl get scope --search WAL")
    assert re.sub("  +", "  ", below) == (
        "SCOPE  LEVEL  SET HERE  ROWS BELOW\nproject walk  project  execution-cluster-label  3\n"
    )
    below = new_shell.ok("rainbowctl get scopes -p walk -d staging -w my.wf -o name")
    assert below == "scope/walk/staging/my.wf/nightly\n"
    nothing = new_shell.run("rainbowctl get scope -p walk -d staging --search other")
    assert nothing.err == "There is no such scope below project walk, domain staging.\n"
    assert new_shell.ok("rainbowctl get execution-cluster-label -A -o name") == (
        "execution-cluster-label/-/staging\n"
        "execution-cluster-label/walk\n"
        "execution-cluster-label/walk/staging\n"
        "execution-cluster-label/walk/staging/my.wf\n"
        "execution-cluster-label/walk/staging/my.wf/nightly\n"
    )

    # Each delete takes one row; what applies then is the next broader one's.
    left = list(LEVELS)
    for level in ("project", "launch-plan", "project-domain", "workflow", "domain"):
        typed, _, keys = LEVELS[level]
        shown = new_shell.run(f"rainbowctl delete execution-cluster-label {typed}").out
        left.remove(level)
        assert [row["level"] for row in new_shell.rows("3")] == left
        broader = {key for key in left if LEVELS[key][2].items() <= keys.items()}
        if not broader:
            assert shown.endswith("Nothing applies there now: no level above sets it.\n")
        else:
            nearest = max(broader, key=list(LEVELS).index)
            assert "What applies there now, as of revision " in shown
            assert re.search(rf"^value +{nearest} +inherited from .* \(revision [0-9]+, ", shown, re.MULTILINE)


@pytest.mark.parametrize("verb", ["get", "update", "delete"])
def test_a_level_the_kind_does_not_have_is_refused_before_anything_is_sent(shell: Shell, verb: str) -> None:
    flags = "--attributes a=b" if verb == "update" else ""
    nowhere = "http://127.0.0.1:9"  # nothing listens there, so whoever asked would exit with 6
    for more in ("-p p -d d -w my.wf", "-p p -d d my.wf --launchplan lp"):
        message = shell.refused(
            2, f"rainbowctl {verb} cluster-resource-attribute {more} {flags}", RAINBOW_ENDPOINT=nowhere
        )
        level = "launch plan" if "lp" in more else "workflow"
        assert message == (
            f"error: cluster-resource-attribute cannot be set at {level} level: "
            "its levels are domain, project and project-domain.\n"
        )


@pytest.mark.parametrize(
    ("scope", "message"),
    [
        ("", "execution-cluster-label needs a scope: -d DOMAIN, -p PROJECT, "),
        ("-p p my.wf", "workflow my.wf needs a project and a domain beside it."),
        ("-p p -d d --launchplan lp", "launch plan lp needs its workflow beside it."),
        ("-p ''", "The project is empty: name one, or leave it out."),
    ],
)
def test_a_scope_that_is_none_is_refused_before_anything_is_sent(shell: Shell, scope: str, message: str) -> None:
    nowhere = "http://127.0.0.1:9"
    command = f"rainbowctl update execution-cluster-label {scope} --value x"
    assert shell.refused(2, command, RAINBOW_ENDPOINT=nowhere).startswith(f"error: {message}")


def test_an_inherited_value_says_where_it_comes_from_in_every_form(shell: Shell) -> None:
    name = shell.project("heir")
    version = shell.put(f"project_domain_attributes/{name}/staging", execution_cluster_label={"value": "mycluster"})
    get = f"rainbowctl get execution-cluster-label -p {name} -d staging my.wf"
    done = shell.run(get)
    origin = f"inherited from project heir, domain staging (revision {version}, anonymous, … ago)"
    assert re.sub("[0-9]+ s ago", "… ago", done.out) == f"FIELD  VALUE      ORIGIN\nvalue  mycluster  {origin}\n"
    assert done.err == (
        "Nothing is set at project heir, domain staging, workflow my.wf itself: all of it is inherited.\n"
        "By label 'mycluster' executions wait at 'local': no agent of it has ever been seen.\n"
    )
    place = {"project": name, "domain": "staging", "level": "project-domain", "version": version}
    shown = json.loads(shell.ok(f"{get} -o json"))
    assert list(shown.pop("revisions")) == [str(version)]
    assert shown.pop("consequence")["outcome"] == "waits"
    assert shown == {
        "project": name,
        "domain": "staging",
        "workflow": "my.wf",
        "value": "mycluster",
        "inherited_from": place,
        "origins": {"value": {**place, "revision": version}},
    }
    assert shell.ok(f"{get} -o yaml") == (
        "# Nothing is set at project heir, domain staging, workflow my.wf itself; "
        "the value is inherited from project heir, domain staging.\n"
        "# Updating with this file pins the value here.\n"
        "project: heir\ndomain: staging\nworkflow: my.wf\nvalue: mycluster\n"
    )
    assert "leave out --exact to see inherited values" in shell.refused(3, f"{get} --exact")


def test_leaves_of_one_value_may_come_from_several_places(shell: Shell) -> None:
    name = shell.project("patchwork")
    shell.put(f"project_attributes/{name}", task_resource_attributes={"limits": {"memory": "8Gi", "gpu": None}})
    version = shell.put(f"project_domain_attributes/{name}/staging", task_resource_attributes={"limits": {"cpu": "9"}})
    get = f"rainbowctl get task-resource-attribute -p {name} -d staging"
    above = f"inherited from project patchwork (revision {version - 1}, anonymous, … ago)"
    assert re.sub("[0-9]+ s ago", "… ago", shell.ok(get)) == (
        "FIELD            VALUE    ORIGIN\n"
        "defaults.cpu     2        configuration (task_resources.defaults.cpu)\n"
        "defaults.memory  200Mi    configuration (task_resources.defaults.memory)\n"
        f"limits.cpu       9        here (revision {version}, anonymous, … ago)\n"
        f"limits.memory    8Gi      {above}\n"
        f"limits.gpu       (unset)  {above}\n"
    )
    inherited = shell.ok(f"{get} my.wf -o yaml")
    assert "\n#   limits.cpu: inherited from project patchwork, domain staging\n" in inherited
    assert "\n#   defaults.cpu: configuration (task_resources.defaults.cpu)\n" in inherited


def test_pinning_the_value_of_the_parent_is_stored(shell: Shell) -> None:
    name = shell.project("pinned")
    shell.put(f"project_attributes/{name}", execution_cluster_label={"value": "mycluster"})
    done = shell.run(f"rainbowctl update execution-cluster-label -p {name} -d staging --value mycluster")
    assert done.out == (
        "execution-cluster-label at project pinned, domain staging (level project-domain)\n"
        "--- not set\n+++ after this update\n@@ -0,0 +1 @@\n+value: mycluster\n"
    )
    assert [row["level"] for row in shell.rows("3", f"project={name}")] == ["project", "project-domain"]
    # Also with the file that `get` made of the inherited value.
    shell.ok(f"rainbowctl get execution-cluster-label -p {name} -d production --attrFile pin.yaml")
    shell.ok("rainbowctl update execution-cluster-label --attrFile pin.yaml")
    shell.ok(f"rainbowctl delete execution-cluster-label -p {name}")
    kept = [(row["domain"], row["attributes"]["value"]) for row in shell.rows("3", f"project={name}")]
    assert sorted(kept) == [("production", "mycluster"), ("staging", "mycluster")]


def test_a_delete_shows_what_goes_and_what_is_absent_is_fine(shell: Shell) -> None:
    name = shell.project("gone")
    version = shell.put(f"project_domain_attributes/{name}/staging", execution_cluster_label={"value": "a"})
    delete = f"rainbowctl delete execution-cluster-label -p {name} -d staging"
    place = "execution-cluster-label at project gone, domain staging"
    diff = f"{place} (level project-domain)\n--- version {version}\n+++ deleted\n@@ -1 +0,0 @@\n-value: a\n"
    for _ in range(2):
        done = shell.run(f"{delete} --dryRun")
        shown = (
            f"{diff}New executions at project-domain gone/staging would go to any enabled cluster ('local'), for no "
            "pool\nor label is left that decides.\n"
            "With this, new executions wait at 1 scope:\n"
            "project gone, domain staging: By the fleet executions wait at 'local': no agent of it has ever been\n"
            "seen.\n"
            "Executions: no execution would move or be ended.\n"
        )
        assert (done.status, done.out, done.err) == (0, shown, "Dry run: nothing was deleted.\n")
    document = json.loads(shell.ok(f"{delete} --dryRun -o json"))
    assert (document["deleted"], document["dry_run"], document["before"]) == (False, True, {"value": "a"})
    assert shell.values("3", f"project={name}") == [{"value": "a"}]

    done = shell.run(delete)
    assert (done.status, done.out) == (0, f"{diff}Nothing applies there now: no level above sets it.\n")
    assert done.err == f"Deleted {place}.\n"
    revision = shell.rest("GET", f"effective_attributes?project={name}")["revision"]
    for more in ("", " --dryRun", " --force"):
        done = shell.run(delete + more)
        assert (done.status, done.out) == (0, "")
        assert done.err == f"Nothing was set for {place}: there is nothing to delete.\n"
    assert shell.rest("GET", f"effective_attributes?project={name}")["revision"] == revision


def test_a_delete_asks_at_a_terminal_and_carries_the_version_it_showed(shell: Shell) -> None:
    path = f"project_attributes/{shell.project('asked')}"
    shell.put(path, execution_cluster_label={"value": "a"})
    delete = "rainbowctl delete execution-cluster-label -p asked"
    for keys in ("n\n", "yesterday\n"):
        with shell.at_terminal(delete) as terminal:
            terminal.wait_for("Delete this? [y/N] ")
            terminal.type(keys)
            done = terminal.finish()
        assert done.status == 1
        assert done.err.endswith("error: Not confirmed: nothing was deleted.\n")
    with shell.at_terminal(delete) as terminal:
        terminal.wait_for("Delete this? [y/N] ")
        shell.put(path, execution_cluster_label={"value": "b"})
        terminal.type("y\n")
        assert terminal.finish().status == 5
    assert shell.values("3", "project=asked") == [{"value": "b"}]
    with shell.at_terminal(delete) as terminal:
        terminal.wait_for("Delete this? [y/N] ")
        terminal.type("YES\n")
        assert terminal.finish().status == 0
    assert shell.values("3", "project=asked") == []
