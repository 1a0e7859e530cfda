"""Provenance: which revision or event set something, by whom, when and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from admin.core.changes import ANONYMOUS, LastChange
from admin.core.identities import SHARED_TOKEN_USER, Identity, Proof
from admin.core.json_text import JsonObject
from admin.core.problems import Invalid, Problem, Refused, Setting, shorten
from admin.core.times import show_duration, show_time

#: Characters of a message that a sentence repeats.
_MOST_SHOWN = 200


#: What stands around a claimed name, after the author.
CLAIM = (" (says ", ")")


#: What stands between how an administrator was proven, who acts as the author, and that name.
_OF = " of "


def show_name(author: str, claimed_by: str | None, proof: str | None = None) -> str:
    """A caller's name: the author, and beside it the administrator who acted as the author, or the claimed name."""
    administrator = administrator_of(author, proof)
    if administrator is not None:
        return f"{author} (by {administrator})"
    return f"{author}{CLAIM[0]}{claimed_by}{CLAIM[1]}" if claimed_by else author


def administrator_of(author: str, proof: str | None) -> str | None:
    """Who acted as the author, by the proof that is kept of it: `token of ada`; None where the author did it."""
    how, _, administrator = (proof or "").partition(_OF)
    if how == Proof.SHARED_TOKEN and author not in (SHARED_TOKEN_USER, ANONYMOUS):
        return SHARED_TOKEN_USER
    return administrator or None


def proofs_of(administrator: str) -> list[str]:
    """The proofs of what somebody does as others."""
    if administrator == SHARED_TOKEN_USER:
        return [Proof.SHARED_TOKEN.value]
    return [f"{proof.value}{_OF}{administrator}" for proof in (Proof.TOKEN, Proof.OPENID)]


def acting_proof(author: str, proof: str | None) -> str | None:
    """The proof of an administrator who acted as the author; None of any other."""
    return proof if administrator_of(author, proof) is not None else None


def read_name(shown: str) -> tuple[str, str] | None:
    """The author and the claimed name of a name that `show_name` has made of both; None of any other."""
    author, claim, claimed_by = shown.removesuffix(CLAIM[1]).partition(CLAIM[0])
    return (author, claimed_by) if claim and shown.endswith(CLAIM[1]) else None


class Actor(NamedTuple):
    """Who does something: the author as the gate knows them, and the name that the caller gave."""

    author: str = ANONYMOUS
    claimed_by: str | None = None  #: unverified
    proof: str | None = None  #: how the author was proven; None where nobody asked, and of agents

    @property
    def name(self) -> str:
        """The claimed name, or the author where none was claimed: what one column has of both."""
        return self.claimed_by or self.author

    @property
    def proven_author(self) -> str | None:
        """The author, None where nobody is known."""
        return None if self.author == ANONYMOUS else self.author

    @classmethod
    def of_stored(cls, name: str, proven_author: str | None, proof: str | None = None) -> Actor:
        """Who has this `name` and this `proven_author`."""
        author = proven_author or ANONYMOUS
        return cls(author, None if name == author else name, proof)

    @classmethod
    def of_identity(cls, identity: Identity, claimed_by: str | None) -> Actor:
        """The caller; beside the name of a user, a claimed one says nothing."""
        if identity.user == ANONYMOUS or identity.proof is Proof.AGENT:
            return cls(identity.user, claimed_by)
        is_shared = identity.proof is Proof.SHARED_TOKEN
        if identity.administrator is not None:
            of_whom = "" if is_shared else f"{_OF}{identity.administrator}"
            return cls(identity.user, None, f"{identity.proof.value}{of_whom}")
        return cls(identity.user, claimed_by if is_shared else None, identity.proof.value)

    def __str__(self) -> str:
        return show_name(self.author, self.claimed_by, self.proof)


#: Who does something when nobody is known.
NOBODY = Actor()
#: A caller of whom nobody asked for a token.
ANYBODY = Identity(user=ANONYMOUS)


def not_kept(revision: str) -> str:
    """A revision that retention has deleted, in a sentence."""
    return f"{revision}, which is no longer kept"


def show_numbers(numbers: Iterable[int]) -> str:
    """Numbers of revisions in words, those that follow each other as a range: `5, 7..9`."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in ranges)


def describe_rollback(undone: int | None, restored: int | None, also_undone: Iterable[int] | None = None) -> str:
    """` (rollback of 7)` after the number of a revision; empty where it is no rollback."""
    if undone is not None:
        return f" (rollback of {show_numbers([undone, *(also_undone or ())])})"
    return "" if restored is None else f" (rollback to {restored})"


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The revision or event that set something; it has the number of one of the two, or of none where it has none."""

    author: str  #: empty where who asks may not know it
    claimed_by: str | None  #: unverified
    at: datetime
    message: str | None
    revision: int | None = None
    event: int | None = None
    kept: bool | None = None  #: False for a revision that is no longer kept, of which the row tells the rest
    undone: int | None = None  #: the revision that it rolled back, if it is such a rollback; of several the newest
    also_undone: Sequence[int] | None = None  #: the others that it rolled back, oldest first
    restored: int | None = None  #: the revision that it went back to, if it is such a rollback
    proof: str | None = None  #: where an administrator acted as the author: how the administrator was proven, and who

    def as_json(self) -> JsonObject:
        """All of it as answers show it within a trail; what is unknown is left out."""
        return {key: value for key, value in vars(self).items() if value is not None and (value or key != "author")}

    @classmethod
    def from_json(cls, document: JsonObject) -> Provenance:
        """What `as_json` made."""
        return cls(**{"author": "", "claimed_by": None, "message": None, **document})

    def without_author(self) -> Provenance:
        """The same for who may not read the revision or event: when it was, not by whom and why."""
        return replace(self, author="", claimed_by=None, message=None, proof=None)

    def describe(self, now: datetime | None) -> str:
        """All of it as a part of a sentence: `revision 41, ana, 3 d 4 h ago, 'cap memory'`.

        A rollback has what it rolled back: `revision 42 (rollback of 41), …`. Without `now` it has the time itself, for
        a sentence that is stored.
        """
        number = "" if self.event is None else f"event {self.event}"
        if self.revision is not None:
            number = f"revision {self.revision}{describe_rollback(self.undone, self.restored, self.also_undone)}"
        if self.kept is False:
            number = not_kept(number)
        age = f"at {show_time(self.at)}" if now is None else f"{show_duration((now - self.at).total_seconds())} ago"
        name = show_name(self.author, self.claimed_by, self.proof) if self.author else ""
        parts = [*filter(None, (number, name)), age]
        if self.message:
            parts.append(f"'{shorten(' '.join(self.message.split()), _MOST_SHOWN)}'")
        return ", ".join(parts)


def pruned_provenance(number: int, change: LastChange) -> Provenance:
    """What a row itself has of the revision that changed it last, which is no longer kept."""
    return Provenance(
        revision=number,
        author=change.updated_by,
        claimed_by=change.claimed_by,
        at=change.updated_at,
        message=None,
        kept=False,
    )


def settings_of(refusals: Iterable[Exception]) -> set[Setting]:
    """The settings which inputs were refused for."""
    problems = (problem for refusal in refusals if isinstance(refusal, Invalid) for problem in refusal.problems)
    return {problem.setting for problem in problems if problem.setting}


#: The kind and the name of a cluster, pool or label.
Named = tuple[str, str]


def definitions_of(refusals: Iterable[Exception]) -> set[Named]:
    """The clusters, pools and labels which refuse inputs, or which are missing."""
    problems = (problem for refusal in refusals if isinstance(refusal, Invalid) for problem in refusal.problems)
    return {problem.definition for problem in problems if problem.definition}


def explain_refusal(
    refusal: Invalid,
    set_by: Mapping[Setting, Provenance],
    made_by: Mapping[Named, Provenance],
    now: datetime,
    *,
    changed_by: Mapping[Setting, Provenance] | None = None,
) -> Invalid:
    """A refusal whose problems say who is behind each, as far as that is known.

    `set_by` are the revisions of the settings that are broken, `changed_by` the last ones of their rows where it is not
    known which one set them; `made_by` tells by what clusters were disabled, and by what pools, labels and clusters
    were deleted.
    """
    verb = "disabled" if isinstance(refusal, Refused) and refusal.error == "cluster_disabled" else "deleted"
    problems = []
    for problem in refusal.problems:
        parts = {
            "That was set": set_by.get(problem.setting) if problem.setting else None,
            "Its row was changed last": (changed_by or {}).get(problem.setting) if problem.setting else None,
            f"It was {verb}": made_by.get(problem.definition or ("", "")),
        }
        problems.append(_explain(problem, {start: entry for start, entry in parts.items() if entry}, now))
    return Refused(refusal.error, *problems) if isinstance(refusal, Refused) else Invalid(*problems)


def _explain(problem: Problem, parts: Mapping[str, Provenance], now: datetime) -> Problem:
    if not parts:
        return problem
    sentences = [f"{start} by {entry.describe(now)}." for start, entry in parts.items()]
    return replace(
        problem,
        reason=" ".join([problem.reason, *sentences]),
        provenance=next(iter(parts.values())).as_json(),
    )
