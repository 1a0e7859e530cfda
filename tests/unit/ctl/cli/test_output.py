from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from ctl.cli.diffs import one_line, show_difference, unified
from ctl.cli.output import Printer, Sentence, Time, plain_table, print_error, stacked_table
from ctl.cli.sentences import fold
from ctl.cli.session import Session
from ctl.client.answers import Attribute
from ctl.client.errors import InvalidInput
from ctl.client.formats import printable
from ctl.client.scopes import Scope
from ctl.client.yaml_files import Source
from ctl.files.attribute_documents import attribute_yaml, flat, sample_yaml
from ctl.files.attributes import parse_attribute_file
from tests.unit.ctl.kinds import declared, kind

HERE = Scope(project="p", domain="d")
CONFIG = kind("workflow-execution-config")
AWKWARD = {
    "max_parallelism": 5,
    "labels": {"values": {"no": "yes", "n": "~", "x": "010"}},
    "raw_output_data_config": {"output_location_prefix": "null"},
    "interruptible": None,
    "envs": {"values": [{"key": "A", "value": "line\nline: # two"}, {"key": "B", "value": ""}]},
}


def test_what_is_written_to_a_file_is_read_back_the_same() -> None:
    attribute = Attribute(scope=HERE, payload=AWKWARD, version=7)
    file = parse_attribute_file(Source(name="f", text=attribute_yaml(attribute)), CONFIG)
    assert (file.scope, file.payload, file.version) == (HERE, AWKWARD, 7)


def test_provenance_is_shown_beside_the_payload_and_ignored_in_files() -> None:
    provenance = {"revision": 7, "author": "anonymous", "message": "why"}
    origins = {"max_parallelism": {"level": "project-domain", "revision": 7}}
    attribute = Attribute(
        scope=HERE, payload=AWKWARD, version=7, provenance=provenance, origins=origins, revisions={"7": provenance}
    )
    shown = flat(attribute, with_provenance=True)
    assert shown == {**flat(attribute), "provenance": provenance, "origins": origins, "revisions": {"7": provenance}}
    file = parse_attribute_file(Source(name="f", text=json.dumps(shown)), CONFIG)
    assert (file.scope, file.payload, file.version) == (HERE, AWKWARD, 7)


def test_a_declared_kind_may_have_a_field_called_provenance() -> None:
    of = declared({"provenance": {"type": "string"}}, "sources")
    attribute = Attribute(scope=HERE, payload={"provenance": "lab"}, version=7, provenance={"revision": 7})
    shown = flat(attribute, with_provenance=True)
    assert shown["provenance"] == "lab"
    assert parse_attribute_file(Source(name="f", text=json.dumps(shown)), of).payload == {"provenance": "lab"}


def test_an_inherited_value_says_so_in_comments_and_carries_no_version() -> None:
    origin = {"level": "domain", "domain": "d", "version": 3}
    attribute = Attribute(scope=HERE, payload={"value": "x"}, inherited_from=origin, origins={"value": origin})
    assert attribute_yaml(attribute) == (
        "# Nothing is set at project p, domain d itself; the value is inherited from domain d.\n"
        "# Updating with this file pins the value here.\n"
        "project: p\ndomain: d\nvalue: x\n"
    )
    assert flat(attribute) == {"project": "p", "domain": "d", "value": "x", "inherited_from": origin}


@pytest.mark.parametrize(
    "noun",
    ["task-resource-attribute", "execution-cluster-label", "plugin-override", "workflow-execution-config"],
)
def test_a_sample_can_be_read_as_it_is(noun: str) -> None:
    text = sample_yaml(kind(noun), HERE, "f.yaml")
    file = parse_attribute_file(Source(name="f.yaml", text=text), kind(noun))
    assert (file.scope, file.payload) == (HERE, kind(noun).example)


def test_plain_tables_align_and_never_cut() -> None:
    long = "x" * 300
    assert plain_table(["A", "LONG"], [["1", long], ["", "2"]]) == f"A  LONG\n1  {long}\n-  2\n"


def test_columns_for_which_a_line_has_no_room_are_written_below_their_row() -> None:
    header = ["NAME", "STATE", "SET BY", "AGE"]
    rows = [["birch", "able", "revision 41, anonymous (says ana)", "3d"], ["oak", "able", "", "4d"]]
    assert stacked_table(header, rows, 100) == plain_table(header, rows)
    assert stacked_table(header, rows, 30) == (
        "NAME   STATE  AGE\nbirch  able   3d\n  SET BY: revision 41,\n    anonymous (says ana)\noak    able   4d\n"
    )
    assert stacked_table(["NAME", "STATE"], [["x" * 50, "able"]], 30) == f"NAME\n{'x' * 50}\n  STATE: able\n"


def test_a_name_stays_in_its_row_while_it_has_room() -> None:
    header, row = ["PROJECT", "NAME", "MODE", "PLAN"], ["shop", "n" * 20, "MANUAL", "nightly"]
    assert stacked_table(header, [row], 32) == (
        f"PROJECT  NAME\nshop     {'n' * 20}\n  MODE: MANUAL\n  PLAN: nightly\n"
    )


def test_a_phase_stays_in_its_row_while_it_has_room() -> None:
    header, row = ["PROJECT", "NAME", "PHASE", "POOL"], ["shop", "index", "QUEUED (back-off 4 min)", "std"]
    assert stacked_table(header, [row], 40) == (
        "PROJECT  NAME   PHASE\nshop     index  QUEUED (back-off 4 min)\n  POOL: std\n"
    )
    assert stacked_table(header, [row], 30).splitlines()[0] == "PROJECT  NAME"


def test_a_first_column_that_is_too_wide_alone_is_folded() -> None:
    scope = "definition of project search, domain development, workflow index.build, launch plan hourly"
    table = stacked_table(["SET BY", "KIND"], [[scope, "execution-cluster-label"], ["revision 4", ""]], 60)
    assert table == (
        "SET BY\n"
        "definition of project search, domain development, workflow\n"
        "    index.build, launch plan hourly\n"
        "  KIND: execution-cluster-label\n"
        "revision 4\n"
    )
    assert stacked_table(["SET BY"], [[scope]], 60) == "".join(table.splitlines(keepends=True)[:3])


def test_a_table_without_headers_fits_its_terminal_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    Printer(has_headers=False).table(["NAME", "REASON", "AGE"], [["a", "word " * 20, "3d"], ["b", "", "4d"]])
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.split() == ["a", "3d"]
    assert rest[0].startswith("  REASON: word")
    assert rest[-1].split() == ["b", "4d"]
    assert max(map(len, [first, *rest])) <= 40


@pytest.mark.parametrize(
    ("is_terminal", "format_", "lines"),
    [(True, "table", 5), (True, "wide", 5), (False, "table", 3), (False, "wide", 3)],
)
def test_only_a_person_at_a_terminal_gets_more_than_one_line_a_row(
    is_terminal: bool, format_: str, lines: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", "100")
    Printer(format=format_).table(["NAME", "REASON", "AGE"], [["a", "word " * 30, "3d"], ["b", "", "4d"]])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == lines
    assert not is_terminal or max(map(len, printed)) <= 100


def test_control_characters_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\nc") == "a\\x1b[31mb\\nc"


def test_tables_can_go_without_headers(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(has_headers=False).table(["A"], [["1"]])
    assert capsys.readouterr().out == "1\n"


def test_quiet_leaves_out_remarks_but_not_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer(is_quiet=True)
    printer.note("remark")
    printer.warning("careful")
    assert capsys.readouterr().err == "warning: careful\n"


def test_a_diff_is_of_the_row_alone() -> None:
    assert unified(None, {"value": "x"}, ("not set", "after")) == [
        "--- not set",
        "+++ after",
        "@@ -0,0 +1 @@",
        "+value: x",
    ]
    assert unified({"value": "x"}, {"value": "x"}, ("a", "b")) == []


def test_what_an_admin_says_controls_no_terminal_and_forges_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    text = "first\nerror: forged\x1b[2J\x9b31m"
    shown = "first\n  error: forged\\x1b[2J\\x9b31m\n"
    Printer().line(text)
    Printer().note(text)
    Printer().warning(text)
    print_error(InvalidInput(text), as_json=False)
    out, err = capsys.readouterr()
    assert (out, err) == (shown, f"{shown}warning: {shown}error: {shown}")


def test_json_controls_no_terminal_and_stays_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"name": "a\x1b[2J\x9b31m\x7f\u202eé\n"}
    Printer(format="json").document(document)
    text = capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    assert (json.loads(text), "é" in text) == (document, True)


def test_times_are_shown_by_their_distance_and_in_wide_output_as_they_are() -> None:
    moment = datetime.now(UTC)
    past, future = (moment + timedelta(seconds=seconds) for seconds in (-3700, 7300))
    assert Printer().when(past.isoformat()) == "1 h 1 min ago"
    assert Printer().when(future.isoformat(), is_ahead=True).startswith("in 2 h")
    assert Printer().when(past.isoformat(), is_ahead=True) == "1 h 1 min ago"
    assert Printer().when(future.isoformat()) == "0 s ago", "clocks differ"
    assert Printer(format="wide").when("2026-11-17T12:00:05.123+00:00") == "2026-11-17 12:00:05Z"
    assert (Printer().when(None), Printer(format="wide").when("")) == ("", "")


def test_a_column_of_times_is_shown_by_the_printer(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"at": "2026-11-17T12:00:05Z"}, {}]
    Printer(format="wide").rows(rows, {"AT": Time("at")})
    assert capsys.readouterr().out == "AT\n2026-11-17 12:00:05Z\n-\n"


def test_what_changed_in_a_list_is_told_entry_by_entry() -> None:
    before = {"members": [{"id": "east", "weight": 1}, {"id": "west", "weight": 1}], "tags": ["a"]}
    after = {"members": [{"id": "east", "weight": 3}, {"id": "north", "weight": 1}], "tags": ["a", "b"]}
    assert one_line(before, after, most=9) == (
        "members.east.weight: 1 → 3, members.west.weight: 1 → -, tags: a → a, b, members.north.weight: - → 1"
    )
    assert one_line(None, {"value": "a"}) == "value: - → a"


def test_columns_without_anything_are_left_out_before_others_are_stacked() -> None:
    header, rows = ["NAME", "POOL", "REASON", "LABEL"], [["a" * 10, "", "b" * 10, ""], ["c", "", "", ""]]
    assert stacked_table(header, rows, 24) == "NAME        REASON\naaaaaaaaaa  bbbbbbbbbb\nc           -\n"
    assert stacked_table(header, rows, 28).splitlines()[0] == "NAME        POOL  REASON"


def test_an_answer_about_one_thing_is_folded_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "east", "why": "word " * 30}
    columns = {"NAME": "name", "WHY NOT": "why"}
    Printer().folded().rows([row], columns)
    folded = capsys.readouterr().out.splitlines()
    assert max(map(len, folded)) <= 100
    assert folded[0] == "NAME  WHY NOT"
    assert [line[:10] for line in folded[1:]] == ["east  word", "      word"]
    Printer().folded().rows([{**row, "more": "x" * 70}], {"NAME": "name", "MORE": "more", "WHY NOT": "why"})
    assert "  WHY NOT: word" in capsys.readouterr().out  # the others leave too little room beside them
    Printer(format="wide").folded().rows([row], columns)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_sentences_are_folded_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "word " * 40 + "and 1 more."
    monkeypatch.setenv("COLUMNS", "300")
    Printer().sentence(text)
    Printer().note(text)
    assert [stream.count("\n") for stream in capsys.readouterr()] == [1, 1]
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    Printer(format="json").sentence(text)
    assert capsys.readouterr().out == f"{text}\n"
    for columns, widest in (("300", 100), ("50", 50)):
        monkeypatch.setenv("COLUMNS", columns)
        Printer().sentence(text)
        Printer().report(text)
        Printer().note(text)
        out, err = capsys.readouterr()
        assert widest - 5 <= max(map(len, out.splitlines())) <= widest
        assert max(map(len, err.splitlines())) <= widest
        assert " ".join(out.split()) == f"{text} {text}"
        assert " ".join(err.split()) == text


def test_the_row_of_a_plan_is_folded_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    scope = "project flyteexamples, domain development, workflow a.module.of.many.words, launch plan nightly"
    title = f"task-resource-attribute at {scope}"
    Printer().report_row("update", title, "yellow")
    assert capsys.readouterr().out == f"update     {title}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    Printer().report_row("update", title, "yellow")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert [line[:11] for line in lines] == ["update     ", " " * 11]
    assert " ".join(line[11:] for line in lines) == title


def test_the_title_of_a_difference_is_folded_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    title = "task-resource-attribute of project search, domain development, workflow index.build, launch plan hourly"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    show_difference(Session(), title, {"value": "a"}, None, asks_first=False)
    first, second, *_diff = capsys.readouterr().out.splitlines()
    assert f"{first} {second}" == title


def test_warnings_and_errors_are_folded_on_a_terminal_whatever_is_written_as_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "word " * 40 + "and 1 more."
    error = InvalidInput(text)
    error.details = [{"position": "file.yaml:1:1", "reason": text}]
    Printer().warning(text)
    print_error(error, as_json=False)
    assert capsys.readouterr().err.splitlines() == [
        f"warning: {text}",
        f"error: {text}",
        f"  file.yaml:1:1: {text}",
    ]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")
    for printer in (Printer(), Printer(format="json")):
        printer.warning(text)
        print_error(error, as_json=False)
        lines = capsys.readouterr().err.splitlines()
        assert max(map(len, lines)) <= 100
        assert [line.split()[0] for line in lines if not line.startswith("  ")] == ["warning:", "error:"]
        assert [line for line in lines if line.startswith("  ") and line[2] != " " and "file.yaml" in line]
        assert " ".join(" ".join(lines).split()) == f"warning: {text} error: {text} file.yaml:1:1: {text}"


def test_words_and_commands_are_not_broken_where_a_sentence_is_folded() -> None:
    command = "rainbowctl update task-resource-attribute -p flyteexamples -d development"
    lines = fold(f"To set the same at project flyteexamples, domain development: {command}", 80)
    assert lines == ["To set the same at project flyteexamples, domain development:", command]
    assert fold(f"a word, `{command}` sets it", 40) == ["a word,", f"`{command}`", "sets it"]
    assert fold("x" * 50, 40) == ["x" * 50]
    assert fold("FREE: cpu=4,memory=16Gi,executions=14", 24, indent="  ") == [
        "FREE: cpu=4,",
        "  memory=16Gi,",
        "  executions=14",
    ]


def test_no_word_of_a_table_is_broken_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    amounts = "cpu=64,memory=256Gi,gpu=8,ephemeral_storage=1Ti,nodes=16,executions=14"
    for columns in range(40, 140):
        monkeypatch.setenv("COLUMNS", str(columns))
        Printer().table(["POOL", "ABLE", "TOTAL", "FREE"], [["std", "2 of 3", amounts, amounts]])
        shown = capsys.readouterr().out
        assert "\x1b" not in shown, "NO_COLOR switches off bold letters too"
        assert max(map(len, shown.splitlines())) <= columns
        words = shown.replace(",", " ").split()
        assert (words.count("executions=14"), words.count("ephemeral_storage=1Ti")) == (2, 2)


def test_times_within_sentences_are_distances_and_in_wide_output_times() -> None:
    now = datetime.now(UTC)
    past, future = (
        (now + timedelta(seconds=seconds)).isoformat(timespec="seconds").replace("+00:00", "Z")
        for seconds in (-3700, 3 * 86400 + 7300)
    )
    text = f"Silent since {past}, heard at {past}; ended at {future}, from {future} on; draining until {future}."
    assert Printer().in_words(text) == (
        "Silent, last heard 1 h 1 min ago, heard 1 h 1 min ago; ended in 3 d 2 h, in 3 d 2 h; draining for another "
        "3 d 2 h."
    )
    assert Printer().in_words(f"Its agent is silent since {past}.") == "Its agent has been silent for 1 h 1 min."
    event = f"Cluster 'a' has been silent since {past}, and drains until {future}."
    kept = future.replace("T", " ")
    assert Printer().in_words(event, is_past=True) == (
        f"Cluster 'a' was silent, last heard 1 h 1 min ago, and drains until {kept}."
    )
    assert Printer().in_words(f"Executions that ended before {past} are pruned.") == (
        "Executions that ended more than 1 h 1 min ago are pruned."
    )
    assert Printer().in_words(f"until {past}") == "until 1 h 1 min ago"
    assert Printer().in_words(f"since {future}") == f"since {future}"
    assert Printer(format="json").in_words(text) == text
    command = "`rainbowctl history --since 2026-11-17T12:00:05Z`"
    assert Printer().in_words(command) == command
    assert Printer(format="wide").in_words("until 2026-11-17T12:00:05Z") == "until 2026-11-17 12:00:05Z"


def test_a_column_of_sentences_has_distances(capsys: pytest.CaptureFixture[str]) -> None:
    past = (datetime.now(UTC) - timedelta(seconds=3700)).isoformat(timespec="seconds").replace("+00:00", "Z")
    Printer().rows([{"why": f"last heard at {past}"}], {"WHY": Sentence("why")})
    assert capsys.readouterr().out == "WHY\nlast heard 1 h 1 min ago\n"


def test_errors_show_how_long_ago_something_was(capsys: pytest.CaptureFixture[str]) -> None:
    time = (datetime.now(UTC) - timedelta(days=3, minutes=5)).isoformat().replace("+00:00", "Z")
    error = InvalidInput(f"Executions that ended before {time} were pruned.")
    print_error(error, as_json=False)
    assert capsys.readouterr().err == "error: Executions that ended more than 3 d ago were pruned.\n"
    print_error(error, as_json=False, is_wide=True)
    assert (
        capsys.readouterr().err == f"error: Executions that ended before {time[:19].replace('T', ' ')}Z were pruned.\n"
    )
    print_error(error, as_json=True)
    assert time in capsys.readouterr().err


def test_errors_and_warnings_are_folded_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    error = InvalidInput("word " * 40 + "end.", hint="See `rainbowctl get execution --help`.")
    for is_terminal in (True, False):
        monkeypatch.setattr("sys.stderr.isatty", lambda is_terminal=is_terminal: is_terminal)
        print_error(error, as_json=False)
        Printer().warning("word " * 40 + "end.")
        lines = capsys.readouterr().err.splitlines()
        assert (max(map(len, lines)) <= 100) == is_terminal
        assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["error:", "warning:"]


@pytest.mark.parametrize(
    ("empty", "told"),
    [
        ("No warnings.", "No warnings that you may see."),
        (
            "There are no projects yet: `rainbowctl create project --id ID` creates one.",
            "There are no projects yet that you may see: `rainbowctl create project --id ID` creates one.",
        ),
        ("No projects match; -A looks further.", "No projects match that you may see; -A looks further."),
    ],
)
def test_an_empty_list_says_that_there_may_be_more_than_the_caller_may_see(
    capsys: pytest.CaptureFixture[str], empty: str, told: str
) -> None:
    Printer().show([], [], [], {}, empty=empty)
    assert capsys.readouterr().err == f"{empty}\n"
    Printer(is_partial=lambda: True).show([], [], [], {}, empty=empty)
    assert capsys.readouterr().err == f"{told}\n"
