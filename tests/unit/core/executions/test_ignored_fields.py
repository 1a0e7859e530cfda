"""What is said of the fields that an engine ignores is what the code of agents and engines has."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from admin.core.executions.ignored_fields import ignored_fields
from admin.core.settings.builtin_kinds import BUILTIN_KINDS, ENGINES, WORKFLOW_EXECUTION_CONFIG
from admin.core.settings.declared_kinds import registry
from admin.messages.agents import LeaseAnswer
from agent.engines.base import Task

AGENT = Path(__file__).parents[4] / "agent"
#: What of a task has a field of settings, beside the config.
TASK_FIELDS = {
    "queue": "EXECUTION_QUEUE.tags",
    "labels": "WORKFLOW_EXECUTION_CONFIG.labels",
}
#: What of a lease has settings that agents may use.
LEASE_FIELDS = {"plugins": "PLUGIN_OVERRIDE.overrides"}
#: What of a lease is not of settings, or has taken effect before agents get it.
OTHER_LEASE_FIELDS = {"quality_of_service", "inputs"}


def words_of(paths: list[Path]) -> tuple[set[str], set[str]]:
    """The attributes that some modules read, and their texts."""
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return attributes, texts


def source_of(engine: str) -> tuple[set[str], set[str]]:
    """The same of an engine, and of what engines share."""
    shared = [path for path in (AGENT / "engines").glob("*.py") if path.name != "base.py"]
    return words_of([*(AGENT / "engines" / engine).glob("*.py"), *shared, AGENT / "quantities.py"])


def told(engine: str) -> set[str]:
    ignored = ignored_fields(engine, BUILTIN_KINDS)
    assert ignored is not None
    return {f"{kind}.{effect.field}" for kind, effects in ignored.items() for effect in effects}


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_an_engine_ignores_what_its_code_does_not_read_and_nothing_else(engine: str) -> None:
    attributes, texts = source_of(engine)
    for name, field in TASK_FIELDS.items():
        assert (field in told(engine)) == (name not in attributes), f"{engine} and {name} of a task"
    for resource in ("cpu", "memory", "gpu", "ephemeral_storage"):
        is_told = f"TASK_RESOURCE.defaults.{resource}" in told(engine)
        assert is_told == (resource not in texts), f"{engine} and {resource}"
    # Of the config only the prefix of outputs is read by the agent itself, and by Kubernetes what its jobs have.
    assert ("config" in attributes) == (engine == "kubernetes")
    of_jobs = {"security_context.run_as", "annotations", "interruptible"} if engine == "kubernetes" else set()
    read = {"raw_output_data_config", "envs", "security_context", *(["labels"] if "labels" in attributes else [])}
    parts = {f"security_context.{part}" for part in ("run_as", "secrets", "tokens")}
    config = {name.partition(".")[2] for name in told(engine) if name.startswith(WORKFLOW_EXECUTION_CONFIG.name)}
    assert config == (set(WORKFLOW_EXECUTION_CONFIG.payload.fields) | parts) - read - of_jobs


def test_the_agent_hands_nothing_else_of_a_lease_to_its_engine() -> None:
    _, texts = words_of([AGENT / "tasks.py"])
    unread = set(LeaseAnswer.__struct_fields__) - texts
    for name, field in LEASE_FIELDS.items():
        for engine in ENGINES:
            assert (field in told(engine)) == (name in unread), f"{engine} and {name} of a lease"
    own = {"uid", "on_lost", "created_at", "lease_seconds"}  # which the agent's own work reads
    limits = {"log_limit_bytes", "log_tail_bytes", "output_limit_bytes"}
    assert unread - own - limits == LEASE_FIELDS.keys() | OTHER_LEASE_FIELDS


def test_a_new_part_of_a_task_is_looked_at_here() -> None:
    assert {field.name for field in fields(Task)} - TASK_FIELDS.keys() == {
        *(
            "key",
            "job",
            "directory",
            "environment",
            "time_limit_seconds",
            "lease_seconds",
            "config",
            "priority",
            "answer_seconds",
        ),
    }


def test_every_engine_of_rainbow_has_its_answer_and_no_other_one() -> None:
    assert all(ignored_fields(engine, BUILTIN_KINDS) for engine in ENGINES)
    assert ignored_fields("ours", BUILTIN_KINDS) is None
    assert ignored_fields(None, BUILTIN_KINDS) is None


def test_each_field_says_what_becomes_of_it() -> None:
    ignored = ignored_fields("local", BUILTIN_KINDS)
    assert ignored is not None
    [tags] = ignored["EXECUTION_QUEUE"]
    assert tags.message == "The local engine does nothing with tags: it chooses a queue; the engine has none."
    assert [effect.field for effect in ignored["TASK_RESOURCE"]] == [
        *("defaults.ephemeral_storage", "defaults.storage", "limits.storage"),
    ]
    effects = {effect.field: effect.effect for effect in ignored["WORKFLOW_EXECUTION_CONFIG"]}
    assert effects["overwrite_cache"] == "passed to agents; no engine of Rainbow reads it"
    assert effects["interruptible"] == "is for jobs of Kubernetes"


def test_a_declared_kind_is_ignored_unless_it_is_the_priority_that_the_admin_reads() -> None:
    field = {"type": "int", "min": 0, "max": 100}
    declared = registry(
        {
            "WORKFLOW_PRIORITY": {"number": 10, "fields": {"priority": field}},
            "BADGE": {"number": 11, "fields": {"colour": {"type": "string"}, "size": field}},
        }
    )
    ignored = ignored_fields("slurm", declared)
    assert ignored is not None
    assert [effect.field for effect in ignored["BADGE"]] == ["colour", "size"]
    assert "WORKFLOW_PRIORITY" not in ignored
