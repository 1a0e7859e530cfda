"""Attributes as documents: flattened, as `-o json|yaml` prints them and `update --attrFile` reads them."""

from __future__ import annotations

from typing import Any

from ctl.client.answers import Attribute
from ctl.client.formats import printable, to_yaml
from ctl.client.kinds import Kind
from ctl.client.scopes import Scope, describe_origin

#: What a document may say of the revisions that set it; files need none of it.
PROVENANCE = ("provenance", "origins", "revisions", "deleted_by", "consequence")


def flat(attribute: Attribute, noun: str | None = None, *, with_provenance: bool = False) -> dict[str, Any]:
    """Scope keys, payload fields, and the version of a row or the origin of an inherited value.

    With provenance also the revisions that set it, unless a declared kind has a field of that name.
    """
    document: dict[str, Any] = {"kind": noun} if noun else {}
    document |= {**attribute.scope.document(), **attribute.payload}
    if attribute.version is not None:
        document["version"] = attribute.version
    if attribute.inherited_from is not None:
        document["inherited_from"] = attribute.inherited_from
    if not with_provenance:
        return document
    provenance = {key: getattr(attribute, key) for key in PROVENANCE if key not in document}
    return document | {key: value for key, value in provenance.items() if value}


def attribute_yaml(attribute: Attribute) -> str:
    """
    The document as YAML that `update --attrFile` accepts as it is.

    An inherited value says in comments where it is from; it has no version, for there is no row.
    """
    document = flat(attribute)
    document.pop("inherited_from", None)
    return "".join(f"# {printable(line)}\n" for line in _inheritance(attribute)) + to_yaml(document)


def _inheritance(attribute: Attribute) -> list[str]:
    if attribute.inherited_from is None:
        return []
    here = attribute.scope
    origins = {path: describe_origin(origin, here) for path, origin in attribute.origins.items()}
    start = f"Nothing is set at {here.describe()} itself; the value is "
    end = "Updating with this file pins the value here."
    if len(set(origins.values())) > 1:
        return [f"{start}inherited:", *(f"  {path}: {origin}" for path, origin in origins.items()), end]
    source = describe_origin(attribute.inherited_from, here)
    clause = source if source.startswith("inherited") else f"inherited from the {source}"
    return [f"{start}{clause}.", end]


def sample_yaml(kind: Kind, scope: Scope, file: str) -> str:
    """A file to start from where nothing is set: the kind's example, each field with its description."""
    lines = [
        f"# A sample: no {kind.noun} is set at {printable(scope.describe())}, and none is inherited.",
        "# Change the values below, remove what you do not need, then run",
        f"#   rainbowctl update {kind.noun} --attrFile {printable(file)}",
    ]
    text = "".join(f"{line}\n" for line in lines) + to_yaml(scope.document())
    for name, value in kind.example.items():
        description = kind.schema.get("properties", {}).get(name, {}).get("description", "")
        text += (f"# {printable(description)}\n" if description else "") + to_yaml({name: value})
    return text
