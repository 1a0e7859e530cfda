"""flytectl's flags and words: each is taken, or answered by a sentence."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest

from ctl.cli.flytectl import FLAGS, WORDS, explain_flag
from ctl.cli.groups import plain_flags
from ctl.cli.session import Session
from ctl.main import root, run
from scripts.ctl_reference import commands
from tests.support.lists import COMMANDS, LISTS, NO_LISTS, OTHER_LISTS

FILTER = "--filter.fieldSelector --filter.sortBy --filter.limit --filter.asc --filter.page"
PROJECT = "--id --name --description --labels --file --dryRun --activate --archive --activateProject --archiveProject"
#: Every flag of flytectl 1.16 by its command.
TAKEN = {
    "get project": FILTER,
    "get execution": f"{FILTER} --details --nodeID -i",
    "get workflow": f"{FILTER} --version --latest",
    "get task": f"{FILTER} --version --latest --execFile",
    "get launchplan": f"{FILTER} --version --latest --execFile --workflow",
    "get task-resource-attribute": "--attrFile",
    "get workflow-execution-config": "--attrFile --gen",
    "create project": f"{PROJECT} --force",
    "create execution": "--execFile --targetProject --targetDomain --targetExecutionCluster --kubeServiceAcct "
    "--iamRoleARN --relaunch --recover --version --clusterPool --overwriteCache --dryRun --task --workflow --tags",
    "update project": f"{PROJECT} --force",
    "update execution": "--activate --archive --dryRun --force",
    "update launchplan": "--activate --deactivate --archive --version --dryRun --force",
    "update task-resource-attribute": "--attrFile --dryRun --force",
    "delete execution": "--dryRun",
    "delete task-resource-attribute": "--attrFile --dryRun",
    "register files": "--version --force --continueOnError --archive --assumableIamRole --k8sServiceAccount "
    "--k8ServiceAccount --outputLocationPrefix --sourceUploadPath --destinationDirectory --dryRun --enableSchedule",
    "config init": "--host --console --insecure --force",
    "version": "--project --domain --output --config --interactive --admin.endpoint --admin.insecure "
    "--admin.insecureSkipVerify --admin.caCertFilePath --admin.authType --admin.clientId "
    "--admin.clientSecretLocation --admin.clientSecretEnvVar --admin.scopes --admin.audience "
    "--admin.useAudienceFromAdmin --admin.tokenUrl --admin.tokenRefreshWindow --admin.authorizationHeader "
    "--admin.command --admin.proxyCommand --admin.httpProxyURL --admin.pkceConfig.timeout "
    "--admin.pkceConfig.refreshTime --admin.deviceFlowConfig.timeout --admin.deviceFlowConfig.refreshTime "
    "--admin.deviceFlowConfig.pollInterval --admin.maxRetries --admin.perRetryTimeout --admin.maxBackoffDelay "
    "--admin.maxMessageSizeBytes --admin.defaultServiceConfig --console.endpoint --files.archive --storage.type "
    "--logger.level --logger.formatter.type --logger.mute --logger.show-source --otel.type",
}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAINBOW_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def known_flags(path: str) -> set[str]:
    command: click.Command | None = root()
    flags = {name for param in root().params for name in param.opts}
    for word in path.split():
        assert isinstance(command, click.Group)
        _name, command, _args = command.resolve_command(click.Context(command, obj=Session()), [word])
    assert command is not None
    return flags | {name for param in command.params for name in param.opts}


@pytest.mark.parametrize("path", TAKEN)
def test_every_flag_of_flytectl_is_taken_or_answered(path: str) -> None:
    flags = known_flags(path)
    assert [flag for flag in TAKEN[path].split() if flag not in flags and explain_flag(flag) is None] == []


@pytest.mark.parametrize("path", LISTS)
def test_every_list_takes_flytectls_filters(path: str) -> None:
    short = {flag.replace("filter.", "") for flag in FILTER.split()}
    assert {*FILTER.split(), *short, "--selector", "--field-selector", "--sort-by"} <= known_flags(path)


@pytest.mark.parametrize(("path", "command"), list(commands()), ids=COMMANDS)
def test_what_a_flag_means_is_called_the_same_everywhere(path: str, command: click.Command) -> None:
    for param in command.params:
        spellings = {
            "selector": ("--filter.fieldSelector", "--selector"),
            "workflow": ("-w", "--workflow"),
            "all_scopes": ("-A", "--allProjects", "--all"),
            "all_projects": ("-A", "--allProjects", "--all"),
        }.get(str(param.name), ())
        if isinstance(param, click.Option):
            assert set(spellings) <= set(param.opts), (path, param.name)
    names = [name for param in command.params if isinstance(param, click.Option) for name in param.opts]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--selecter", "--selector"),
        ("--filter.sortby", "--filter.sortBy"),
        ("--fieldselektor", "--fieldSelector"),
        ("--allprojects", "--allProjects"),
        ("--phse", "--phase"),
    ],
)
def test_a_mistyped_flag_is_answered_with_the_nearest(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["get", "execution", typed, "x"]) == 2
    assert f"No such option '{typed}'. Did you mean '{meant}'?" in capsys.readouterr().err


def test_what_is_no_list_and_the_lists_of_other_verbs_are_commands() -> None:
    assert {*NO_LISTS, *OTHER_LISTS} <= set(COMMANDS)


@pytest.mark.parametrize("flag", [*FLAGS, "--logger.level=5", "--otel.type", "--files.archive", "--admin.new"])
def test_a_flag_without_meaning_is_answered_by_a_sentence(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["get", "domain", flag], [flag, "get", "domain"]):
        assert run(args) == 2
        message = capsys.readouterr().err
        assert f"{flag.partition('=')[0]} of flytectl has no meaning here: " in message
        assert "No such option" not in message


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("get execution", ": --filter.page shows a list page by page, and --watch shows it again whenever it changes."),
        ("get project", ": --filter.page shows a list page by page."),
        ("version", "."),
    ],
)
@pytest.mark.parametrize("flag", ["-i", "--interactive"])
def test_in_place_of_the_pager_only_flags_are_named_that_the_command_has(
    flag: str, command: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), flag]) == 2
    assert f"{flag} of flytectl has no meaning here: there is no pager{instead}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("get workflow --attrFile x", "--attrFile of flytectl has no meaning here: only settings have attribute files"),
        ("config init --storage", "--storage of flytectl has no meaning here: nothing is uploaded"),
        ("create execution x -p p -d d --envs A=b", "No such option '--envs'. Did you mean '--env'?"),
    ],
)
def test_a_flag_of_other_commands_is_not_guessed_at(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()) == 2
    assert message in capsys.readouterr().err


def test_a_flag_of_nobodys_is_still_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", "domain", "--colour"]) == 2
    assert "No such option" in capsys.readouterr().err


@pytest.mark.parametrize(("group", "word"), [(group, word) for group, words in WORDS.items() for word in words])
def test_a_word_of_habit_leads_to_the_right_command(group: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb = [] if group == "rainbowctl" else [group]
    assert run([*verb, word, "x"]) == 2
    message = capsys.readouterr().err
    assert f"'{word}': {WORDS[group][word]}." in message


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("cancel", "delete execution"),
        ("relaunch", "create execution --relaunch"),
        ("recover", "create execution --recover"),
        ("show", "get execution"),
        ("describe execution", "get execution"),
        ("run", "create execution --"),
        ("rm", "delete execution"),
        ("add", "create"),
        ("ps", "get execution"),
        ("top", "get cluster`"),
        ("archive", "update project"),
        ("activate", "update launchplan"),
        ("register flytesnacks", "register files`"),
    ],
)
def test_verbs_that_people_type(word: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*word.split(), "nightly", "-p", "p", "-d", "d"]) == 2
    assert f"`rainbowctl {command}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("--dry-run=true --dryRun=True", "--dry-run --dryRun"),
        ("--force=false x", "x"),
        ("--force x --force=false", "x"),
        ("--force --force=false --force=true", "--force"),
        ("--projects=false --no-projects=false", "--no-projects --projects"),
        ("-o=json -p= -m=a=b", "-o json -p  -m a=b"),
        ("-m --force=true -m=x -- --force=true -o=json", "-m --force=true -m x -- --force=true -o=json"),
        ("--message=a --force=maybe --other=true key=true", "--message=a --force=maybe --other=true key=true"),
    ],
)
def test_gos_spellings_of_flags_are_read(typed: str, plain: str) -> None:
    options: list[click.Parameter] = [
        click.Option(["--dryRun", "--dry-run"], is_flag=True),
        click.Option(["--force"], is_flag=True),
        click.Option(["--projects/--no-projects"]),
        click.Option(["-m", "--message"]),
        click.Option(["-o"]),
        click.Option(["-p"]),
    ]
    assert plain_flags(click.Context(click.Command("x", params=options)), typed.split(" ")) == plain.split(" ")


def test_gos_spellings_work_before_the_verb_and_after_the_noun(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q=true", "-o=json", "config", "view", "-p=flytesnacks"]) == 0
    assert json.loads(capsys.readouterr().out)["project"]["value"] == "flytesnacks"
    assert run(["config", "get-contexts", "--filter.asc=true", "--no-headers=false", "-o=yaml"]) == 0
    assert run(["config", "view", "--show-origin=perhaps"]) == 2
    assert "does not take a value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("create execution --name x", "create execution x"),
        (
            "create execution -p p --name=x -- python train.py --name y",
            "create execution -p p x -- python train.py --name y",
        ),
        ("get execution -A --name 'a b'", "get execution -A 'a b'"),
        ("delete execution --name x --force", "delete execution x --force"),
        ("explain execution -p p --name x", "explain execution -p p x"),
        ("get cluster --name", "get cluster NAME"),
        ("get cluster --cluster a", "get cluster a"),
        ("get pools --id a", "get pools a"),
        ("cordon --cluster a", "cordon a"),
        ("get token --cluster a", "get token a"),
        ("get project --id a", "get project a"),
        ("get workflow --name fit --latest", "get workflow fit --latest"),
        ("logs --name x -f", "logs x -f"),
    ],
)
def test_a_flag_that_is_an_argument_is_answered_with_what_to_type(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(typed)) == 2
    message = capsys.readouterr().err
    assert f" is an argument. Write `rainbowctl {meant}`." in message
    assert "No such option" not in message


@pytest.mark.parametrize(
    "typed", ["get domain --colour", "get execution-cluster-label -d a --name x", "get kind --name x"]
)
def test_a_flag_that_is_no_argument_is_unknown(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(typed)) == 2
    assert "No such option" in capsys.readouterr().err
