"""The language in which payloads, jobs, inputs and configuration are described.

A *leaf* is the smallest thing that is inherited, set or unset as one: a text, a number, a list, a record. A *branch*
holds leaves: a section of named fields, a map of free keys, a list whose entries are known by a key. One description
of a field serves validation, merging, the flags of the command line, and for kinds, jobs and the fleet the documented
JSON Schema.
"""
