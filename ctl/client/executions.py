"""Executions: their ids, their phases, and what the admin answers about them, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.facts import CAUSES, EXECUTION_STATES, FINISHED_PHASES, GROUPS, ORIGINS, PHASES
from ctl.client.scopes import check_name
from ctl.client.times import format_duration, parse_timestamp, to_second
from ctl.client.words import did_you_mean, fold, listed

NOUN = "execution"
#: What executions can be counted by, as it is typed.
GROUP_WORDS = [*(group.replace("_", "-") for group in GROUPS), "labels.KEY"]
#: States by their names in lower case and by Flyte's numbers.
_STATES = {word: name for number, name in enumerate(EXECUTION_STATES) for word in (name.lower(), str(number))}
_STATE_PREFIX = "execution"


@dataclass(frozen=True, kw_only=True)
class ExecutionId:
    """Which execution."""

    project: str
    domain: str
    name: str

    def __post_init__(self) -> None:
        for key, name in (("project", self.project), ("domain", self.domain), ("execution", self.name)):
            check_name(key, name)

    def __str__(self) -> str:
        return f"{self.project}/{self.domain}/{self.name}"

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> ExecutionId:
        return cls(**{key: str(document.get(key, "")) for key in ("project", "domain", "name")})

    @property
    def path(self) -> str:
        """Its path below the base of the API."""
        return "/".join(["executions", *(quote(part, safe="") for part in (self.project, self.domain, self.name))])

    @property
    def resource(self) -> str:
        """The name `-o name` prints, which commands take as well: `execution/flytesnacks/staging/a1`."""
        return f"{NOUN}/{self}"

    @property
    def flags(self) -> str:
        """How it is written on a command line."""
        return f"{self.name} -p {self.project} -d {self.domain}"

    def document(self) -> dict[str, str]:
        return {"project": self.project, "domain": self.domain, "name": self.name}


def parse_id(text: str, project: str | None, domain: str | None) -> ExecutionId:
    """
    The execution meant by a name, by `PROJECT/DOMAIN/NAME`, or by what `-o name` prints.

    Project and domain are those of the command line, which a longer form may repeat but not contradict.
    """
    parts = text.removeprefix(f"{NOUN}/").split("/")
    if len(parts) == 3:
        for key, part, typed in (("project", parts[0], project), ("domain", parts[1], domain)):
            if typed is not None and typed != part:
                raise InvalidInput(f"{text} is in {key} {part}, the command line says {typed}: keep one of the two.")
        return ExecutionId(project=parts[0], domain=parts[1], name=parts[2])
    if len(parts) != 1:
        raise InvalidInput(f"{text!r} names no execution: write NAME, or PROJECT/DOMAIN/NAME.")
    if not project or not domain:
        raise InvalidInput(
            f"Execution {text} needs a project and a domain: give -p PROJECT -d DOMAIN, or write PROJECT/DOMAIN/NAME."
        )
    return ExecutionId(project=project, domain=domain, name=text)


def parse_phase(text: str, place: str) -> str:
    """A phase in any spelling: `timed-out` is TIMED_OUT."""
    return _parse_word(text, PHASES, "phase", place)


def parse_cause(text: str, place: str) -> str:
    """A cause in any spelling: `cluster-lost` is CLUSTER_LOST."""
    return _parse_word(text, CAUSES, "cause", place)


def parse_origin(text: str, place: str) -> str:
    """A rung in any spelling: `launchPlan` is launch-plan."""
    return _parse_word(text, ORIGINS, "rung", place)


def parse_groups(text: str, place: str) -> str:
    """What executions can be counted by, in any spelling: one word, or several with commas between."""
    return ",".join(_parse_group(word.strip(), place) for word in text.split(","))


def _parse_group(text: str, place: str) -> str:
    """One word that executions can be counted by; or a label, `labels.KEY`."""
    if re.fullmatch(r"labels\.[A-Za-z0-9](.*[A-Za-z0-9])?", text):
        return text
    return _parse_word(text, GROUPS, "group", place, GROUP_WORDS)


def _parse_word(text: str, words: tuple[str, ...], noun: str, place: str, shown: Sequence[str] | None = None) -> str:
    """One of some words in any spelling; `shown` are the words as they are typed."""
    for word in words:
        if fold(word) == fold(text):
            return word
    typed = words if shown is None else shown
    raise InvalidInput(
        f"{place}: there is no {noun} {text!r}: choose {listed(typed, 'or')}.{did_you_mean(text, typed)}"
    )


def parse_state(text: str, place: str, *, may_be_all: bool = False) -> str:
    """ACTIVE or ARCHIVED, also by Flyte's names and numbers; where it filters, ALL too."""
    word = fold(text).removeprefix(_STATE_PREFIX)
    if may_be_all and word == "all":
        return "ALL"
    if word not in _STATES:
        states = (*EXECUTION_STATES, *(("ALL",) if may_be_all else ()))
        raise InvalidInput(
            f"{place}: there is no state {text!r}: choose {listed(states, 'or')}.{did_you_mean(text, states)}"
        )
    return _STATES[word]


def _with_silence(message: str, silence: str) -> str:
    """A message followed by what is known of a silent cluster, unless it says so already."""
    if not silence or silence in message:
        return message
    end = "" if not message or message.endswith((".", "!", "?")) else "."
    return f"{message}{end} {silence}".strip()


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One execution, as lists show it."""

    id: ExecutionId
    phase: str
    reason: str  #: code
    message: str  #: of the reason, and what is known while its cluster is silent
    cause: str  #: the category of what ended it, or of its last failure while it goes on after that; "" for any other
    cluster: str
    pool: str
    label: str
    workflow: str
    launch_plan: str
    version: str
    state: str
    created_at: str
    events: int
    attempt: int  #: of its lease, as logs and agents count
    attempt_number: int  #: as people count: those that never began do not
    document: Document  #: the answer, unchanged

    @classmethod
    def from_document(cls, document: Document) -> Execution:
        closure = document.get("closure") or {}
        reason = closure.get("reason") or {}
        workflow, launch_plan = document.get("workflow") or {}, document.get("launch_plan") or {}
        return cls(
            id=ExecutionId.from_document(document.get("id") or {}),
            phase=str(closure.get("phase", "")),
            reason=str(reason.get("code", "")),
            message=_with_silence(str(reason.get("message", "")), str(document.get("silence") or "")),
            cause=str(closure.get("cause", "")),
            cluster=str(document.get("cluster") or ""),
            pool=str(document.get("pool") or ""),
            label=str(document.get("label") or ""),
            workflow=str(workflow.get("name", "")),
            launch_plan=str(launch_plan.get("name", "")),
            version=str(launch_plan.get("version") or workflow.get("version") or ""),
            state=str(document.get("state", "")),
            created_at=str(closure.get("created_at", "")),
            events=int(document.get("events") or 0),
            attempt=int(document.get("attempt") or 1),
            attempt_number=int(document.get("attempt_number") or document.get("attempt") or 1),
            document=document,
        )

    @property
    def is_finished(self) -> bool:
        return self.phase in FINISHED_PHASES

    @property
    def launched(self) -> str:
        """What was launched: the launch plan, or the workflow where there was none."""
        return self.launch_plan or (f"{self.workflow} (workflow)" if self.workflow else "")

    @property
    def created(self) -> str:
        return to_second(self.created_at)

    def elapsed(self, now: datetime) -> str:
        """How long it ran, or has been running; while it waits, for how long it has waited this time."""
        closure = self.document.get("closure") or {}
        if closure.get("duration") is not None:
            return format_duration(float(closure["duration"]))
        waits_since = None if self.is_finished else self.document.get("phase_since")
        start = parse_timestamp(closure.get("started_at") or waits_since or self.created_at)
        end = parse_timestamp(closure.get("finished_at")) if self.is_finished else now
        return format_duration((end - start).total_seconds()) if start and end else ""

    def reason_text(self) -> str:
        """The reason in words: `ASSIGNED: waits at its cluster`."""
        return ": ".join(part for part in (self.reason, self.message) if part)

    def summary(self) -> str:
        """Its phase, where and why: `QUEUED on east (ASSIGNED: waits at its cluster)`."""
        reason = f" ({self.reason_text()})" if self.reason or self.message else ""
        cluster = f" on {self.cluster}" if self.cluster else ""
        return re.sub(r"\.\)$", ")", f"{self.phase}{cluster}{reason}")
