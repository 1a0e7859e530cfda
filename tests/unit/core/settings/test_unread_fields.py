"""What is said of fields that nothing reads is what the code of agents and engines has."""

from __future__ import annotations

from pathlib import Path

from admin.core.settings.builtin_kinds import BUILTIN_KINDS, PASSED_ON, WORKFLOW_EXECUTION_CONFIG

ROOT = Path(__file__).parents[4]
AGENT = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "agent").rglob("*.py")))


def test_no_agent_or_engine_reads_what_is_said_to_be_unread() -> None:
    names = {start[-1] for kind in BUILTIN_KINDS for start in kind.unread if kind is WORKFLOW_EXECUTION_CONFIG}
    assert names == {"max_parallelism", "secrets", "tokens", "overwrite_cache", "execution_env_assignments"}
    for name in names - {"tokens"}:  # agents have tokens of their own
        assert f'"{name}"' not in AGENT, f"an engine reads {name}: it is no longer unread"
    assert '"raw_output_data_config"' in AGENT


def test_the_description_of_each_field_that_is_passed_on_says_so() -> None:
    described = str(WORKFLOW_EXECUTION_CONFIG.payload.schema())
    assert described.count(PASSED_ON) == len(WORKFLOW_EXECUTION_CONFIG.unread)
