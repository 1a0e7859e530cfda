"""Messages: what is said over any wire, one definition each.

An answer is a `msgspec.Struct`: its definition describes it in the OpenAPI document and writes its JSON. A body that is
read thousands of times a second is one too; every other query and body is a marshmallow schema, which reads both
spellings of a name and lists all problems at once. Nothing here knows Flask.
"""
