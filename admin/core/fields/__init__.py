"""The language in which payloads, jobs, inputs and configuration are described.

A *leaf* is the smallest thing that is inherited, set or unset as one: a text, a number, a list, a record. A *branch*
holds leaves: a section of named fields, a map of free keys, a list whose entries are known by a key. One description
of a field serves validation, merging, the documented JSON Schema and the flags of the command line.
"""

from admin.core.fields.branches import Branch, KeyedList, MapOf, Section, read
from admin.core.fields.composites import DictOf, FreeForm, ListOf, Record
from admin.core.fields.leaves import (
    DNS_LABEL,
    ENTITY_NAME,
    Age,
    Boolean,
    Choice,
    Datetime,
    Duration,
    Field,
    Integer,
    Leaf,
    Leaves,
    Number,
    Quantity,
    Schema,
    Text,
    numbered_choice,
)

__all__ = [
    "DNS_LABEL",
    "ENTITY_NAME",
    "Age",
    "Boolean",
    "Branch",
    "Choice",
    "Datetime",
    "DictOf",
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
    "Quantity",
    "Record",
    "Schema",
    "Section",
    "Text",
    "numbered_choice",
    "read",
]
