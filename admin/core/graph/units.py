"""Units: amounts of every type of resource as whole numbers, and how people read them."""

from __future__ import annotations

import re

from admin.core.quantities import parse_quantity
from admin.core.resources import LARGEST, format_amount

CLUSTER, CORE, NODE, MEMORY, STORAGE = "cluster", "core", "node", "memory", "storage"
#: What a type may be called.
TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
#: Types that are measured in bytes, so that a number of them says nothing without its unit.
MEASURED = (MEMORY, STORAGE)
#: Types of things that are counted one by one, so that a unit of them means nothing.
COUNTED = frozenset((CLUSTER, "rack", "chassis", "blade", NODE, "socket", "numanode", "numa", CORE, "pu", "gpu"))
#: Types of which engines are told, so that sums over a cluster say enough of them; how others lie only a graph tells.
SUMMED_TYPES = frozenset((NODE, CORE, "gpu", *MEASURED))
#: What people also call them; no job asks for these.
_OTHER_NAMES = {
    "cpu": CORE,
    "ram": MEMORY,
    "mem": MEMORY,
    "host": NODE,
    "machine": NODE,
    "server": NODE,
    "ephemeral_storage": STORAGE,
}
#: Units of measured resources, and the suffixes of quantities that they stand for.
BYTE_UNITS = {"B": ""} | {
    f"{prefix}{ending}": f"{'k' if prefix == 'K' and not binary else prefix}{binary}"
    for prefix in "KMGTPE"
    for ending, binary in (("B", ""), ("iB", "i"))
}
#: The same as quantities and the rules of units have them.
_SAME_UNITS = {suffix: suffix for suffix in BYTE_UNITS.values() if suffix} | {"kB": "k"}
#: Cores are counted in thousandths, since jobs may ask for less than one.
_THOUSANDTHS = {CORE: 1000}
#: The unit of a number of thousandths of cores, as quantities have it.
THOUSANDTH = "m"
#: The job's names of resources, by the types of a graph.
_JOB_NAMES = {CORE: "cpu", MEMORY: "memory", STORAGE: "ephemeral_storage"}


def meant_type(type_: str) -> str | None:
    """The type that a word of a description stands for that is none itself: `core` for `Cores` and `cpu`."""
    if type_ in COUNTED or type_ in MEASURED:
        return None
    word = type_.lower()
    for name in (word, word.removesuffix("s")):
        if name in COUNTED or name in MEASURED:
            return name
        if name in _OTHER_NAMES:
            return _OTHER_NAMES[name]
    return None


def unit_amount(type_: str) -> int:
    """The amount of one piece of a type."""
    return _THOUSANDTHS.get(type_, 1)


def byte_suffix(unit: str) -> str | None:
    """The suffix of quantities that a unit of bytes stands for; None where it is no such unit."""
    return BYTE_UNITS.get(unit, _SAME_UNITS.get(unit))


def amount_of(type_: str, number: int, unit: str) -> int:
    """The amount that a number of units of a type is; any other unit only names what is counted."""
    if type_ == CORE and unit == THOUSANDTH:
        return min(number, LARGEST)
    suffix = byte_suffix(unit)
    factor = unit_amount(type_) if suffix is None else parse_quantity(f"1{suffix}")
    return min(int(number * factor), LARGEST)


def show_amount(type_: str, amount: int) -> str:
    """An amount as people read it: `12`, `500m`, `16Gi`."""
    return str(format_amount(_JOB_NAMES.get(type_, type_), amount))


def plural(type_: str) -> str:
    """The name of a type in front of a number: `cores`; what is measured stays as it is, and so does `chassis`."""
    if type_ in MEASURED or type_.endswith("s"):
        return type_
    if type_.endswith(("x", "ch", "sh")):
        return f"{type_}es"
    return f"{type_[:-1]}ies" if re.search("[^aeiou]y$", type_) else f"{type_}s"


def counted(number: int | str, type_: str) -> str:
    """So many of a type: `1 core`, `12 cores`."""
    return f"{number} {type_ if str(number) == '1' else plural(type_)}"
