"""Clusters, pools, labels, users, groups and grants as files, documents and flags write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from ctl.client.answers import Document
from ctl.client.errors import InvalidInput
from ctl.client.facts import SCHEMAS
from ctl.client.kinds import Schema
from ctl.client.nouns import NAMED, find_noun
from ctl.client.schemas import scalar
from ctl.client.scopes import Scope, check_name
from ctl.client.words import did_you_mean, fold, listed, parse_pair
from ctl.client.yaml_files import Problem, read_source
from ctl.files.attributes import AttributeFile
from ctl.files.conversion import Converter, convert_source

_TEXT: Schema = {"type": "string"}
#: Members may also be written as a map from id to weight.
_MEMBERS: Schema = {**SCHEMAS["label"]["properties"]["members"], "x-rainbow-keyed-by": "id"}
_WEIGHT: Schema = _MEMBERS["items"]["properties"]["weight"]
_RESOURCES: Mapping[str, Schema] = SCHEMAS["cluster"]["properties"]["capacity"]["properties"]

#: The fields of a definition, in the order they are written.
FIELDS: Mapping[str, Mapping[str, Schema]] = {
    noun: {name: _MEMBERS if name == "members" else part for name, part in SCHEMAS[noun]["properties"].items()}
    for noun in NAMED
}

_DECIDED = "not part of the definition: remove it; `rainbowctl export {noun}` leaves it out"
_STATE_KEYS = (
    *("state", "reported_free", "assigned", "free", "waiting", "running", "pools", "by_pool", "labels"),
    *("engine", "engine_version", "plugins", "eta", "leased_executions", "next_executions", "waiting_for_it"),
    *("takes_work", "takes_none_because", "full", "bids"),
)
_AGENT_KEYS = (
    *("agent", "agent_instance", "agent_host", "agent_since", "agent_version", "problem", "waits_for"),
    *("draining", "drain_deadline", "last_sync_at", "leases", "unreachable_since", "unreachable_reason"),
)
_STORED = ("provenance", "version_pruned")
_EVERY = ("summary", "source", *_STORED)
_READ_ONLY = {
    "cluster": (*_STATE_KEYS, "cordoned", "cordon_reason", *_AGENT_KEYS, "reported_at", *_EVERY),
    "pool": ("total", "switched_off", *_EVERY),
    "label": ("total", "switched_off", *_EVERY),
    "user": ("created_at", "updated_at", *_EVERY),
    "group": _STORED,
    "grant": ("level", *_STORED),
    "cluster-group": _STORED,
    "use-grant": _STORED,
    "token-pool": ("used", "free", "waiting", "holders", "waiters", *_STORED),
}


def read_definition(path: str, noun: str) -> tuple[str | None, AttributeFile]:
    """The definition in a file, and its name if the file says one; every problem is reported at once."""
    source = read_source(path)
    return convert_source(source, lambda node: convert_definition(node, noun, source.name))


def convert_definition(node: yaml.Node, noun: str, file: str) -> tuple[tuple[str | None, AttributeFile], list[Problem]]:
    """What one document says of something with a name: that, its fields, and every problem with them."""
    converter = Converter()
    frame: Schema = {"kind": _TEXT, "name": _TEXT, "version": {"type": "integer", "minimum": 1}}
    refused = {fold(key): _DECIDED.format(noun=noun) for key in _READ_ONLY[noun]}
    values = converter.mapping(node, {"properties": {**frame, **FIELDS[noun]}}, refused=refused)
    word, name, version = (values.pop(key, None) for key in ("kind", "name", "version"))
    if word is not None and find_noun(word, NAMED) != noun:
        converter.note_at("kind", f"this is for {word}, not for {noun}")
    if name is not None:
        try:
            check_name(noun, name)
        except InvalidInput as error:
            converter.note_at("name", error.message.rstrip("."))
    for member in values.get("members", []):
        member.setdefault("weight", 1)
    definition = AttributeFile(name=file, scope=Scope(), payload=values, version=version, positions=converter.positions)
    return (name, definition), converter.problems


def in_order(noun: str, payload: Mapping[str, Any]) -> Document:
    """A definition with its fields in the order they are written."""
    return {key: payload[key] for key in FIELDS[noun] if key in payload}


def parse_members(texts: Sequence[str], flag: str) -> list[Document]:
    """`a=6`, or `a` for a weight of 1, each a member, in the order they were typed."""
    members = [_member(text, flag) for text in texts]
    ids = [str(member["id"]) for member in members]
    for twice in {id for id in ids if ids.count(id) > 1}:
        raise InvalidInput(f"{flag} {twice} is given twice: keep one of the two.")
    return members


def _member(text: str, flag: str) -> Document:
    id, equals, weight = text.partition("=")
    try:
        check_name("cluster", id)
        return {"id": id, "weight": scalar(_WEIGHT, weight) if equals else 1}
    except ValueError as error:
        raise InvalidInput(f"{flag} {id}: the weight {error}.") from None
    except InvalidInput as error:
        raise InvalidInput(f"{flag} {text!r}: {error.message}") from None


def changed_members(members: Sequence[Document], added: Sequence[Document], removed: Sequence[str]) -> list[Document]:
    """Members with some added, or given another weight where they stand, and some taken out."""
    ids = [str(member["id"]) for member in members]
    for id in removed:
        if id not in ids:
            raise InvalidInput(f"--removeMember {id}: there is no such member.{did_you_mean(id, ids)}")
    weights = {str(member["id"]): member["weight"] for member in [*members, *added]}
    if both := set(removed) & {str(member["id"]) for member in added}:
        raise InvalidInput(f"{listed(sorted(both))} is both added and removed: keep one of the two.")
    return [{"id": id, "weight": weight} for id, weight in weights.items() if id not in removed]


def parse_amounts(text: str, flag: str) -> Document:
    """`cpu=64,memory=256Gi,gpu=8` as amounts by resource; nothing for an empty text."""
    amounts: Document = {}
    by_fold = {fold(name): name for name in _RESOURCES}
    for pair in text.split(",") if text else []:
        try:
            key, amount = parse_pair(pair.strip())
        except ValueError as error:
            raise InvalidInput(f"{flag} {error}.") from None
        name = by_fold.get(fold(key))
        if name is None:
            hint = did_you_mean(key, _RESOURCES) or f" There is {listed(_RESOURCES)}."
            raise InvalidInput(f"{flag}: there is no resource {key!r}.{hint}")
        if name in amounts:
            raise InvalidInput(f"{flag}: {name} is given twice: keep one of the two.")
        try:
            amounts[name] = scalar(_RESOURCES[name], amount)
        except ValueError as error:
            raise InvalidInput(f"{flag}: {name} {error}.") from None
    return amounts


def parse_cost(text: str, flag: str) -> float:
    """A cost as it was typed: `3` stays a whole number."""
    try:
        cost: float = scalar(FIELDS["cluster"]["cost"], text)
    except ValueError as error:
        raise InvalidInput(f"{flag} {error}.") from None
    return cost


def parse_weight(text: str, flag: str) -> float:
    """What something counts in the choice of a pool, as it was typed."""
    try:
        weight: float = scalar(FIELDS["pool"]["cost_weight"], text)
    except ValueError as error:
        raise InvalidInput(f"{flag} {error}.") from None
    return weight


def show_amounts(amounts: Mapping[str, Any] | None) -> str:
    """Amounts in one table cell, as a flag takes them."""
    return ",".join(f"{name}={amount}" for name, amount in (amounts or {}).items())


def show_able(total: Mapping[str, Any]) -> str:
    """How many members of a pool or label may get work, and how many of these are full: `2 of 3, 1 full`."""
    full = total.get("full")
    return f"{total.get('able')} of {total.get('members')}{f', {len(full)} full' if full else ''}"


def show_members(members: Sequence[Document] | None) -> str:
    """Members in one table cell: `a:1, b:99`."""
    return ", ".join(f"{member.get('id')}:{_number(member.get('weight', 1))}" for member in members or [])


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
