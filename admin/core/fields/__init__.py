"""The language in which payloads and configuration are described.

A *leaf* is the smallest thing that is inherited, set or unset as one: a text, a number, a list, a record. A *branch*
holds leaves: a section of named fields, a map of free keys, a list whose entries are known by a key. One description
serves validation, merging, the documented JSON Schema and the flags of the command line.
"""

from admin.core.fields.base import Field, Leaves, Path, Schema, dotted
from admin.core.fields.branches import Branch, KeyedList, MapOf, Section, read
from admin.core.fields.leaves import (
    Age,
    Boolean,
    Choice,
    Duration,
    FreeForm,
    Integer,
    Leaf,
    ListOf,
    Number,
    Quantity,
    Record,
    Text,
)

__all__ = [
    "Age",
    "Boolean",
    "Branch",
    "Choice",
    "Duration",
    "Field",
    "FreeForm",
    "Integer",
    "KeyedList",
    "Leaf",
    "Leaves",
    "ListOf",
    "MapOf",
    "Number",
    "Path",
    "Quantity",
    "Record",
    "Schema",
    "Section",
    "Text",
    "dotted",
    "read",
]
