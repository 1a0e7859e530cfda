"""
flytectl's configuration, which is read where there is none of ours: where the admin listens, and what goes with it.

The file is `$FLYTECTL_CONFIG`, which must be readable, else `~/.flyte/config.yaml`, which is passed over with a remark
where it is not. What has no meaning here is remarked on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctl.client.errors import InvalidInput
from ctl.client.words import fold, listed

_DEFAULT = "~/.flyte/config.yaml"
#: The forms of answers that flytectl has too.
_OUTPUTS = ("table", "json", "yaml")
#: What is taken of each section, or remarked on.
_TAKEN = {
    "admin": ("endpoint", "insecure", "cacertfilepath", "authtype", "insecureskipverify"),
    "root": ("project", "domain", "output"),
    "task": ("project", "domain"),
}


@dataclass(frozen=True, kw_only=True)
class FlyteConfig:
    """What a file of flytectl's says."""

    path: str
    values: Mapping[str, str]  #: by the keys of a context
    remarks: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What was taken from it, and what was not."""
        taken = listed(f"{key.replace('_', ' ')} {value}" for key, value in self.values.items())
        sentences = [f"Taken from {self.path}: {taken or 'nothing'}.", *(f"{remark}." for remark in self.remarks)]
        return " ".join([*sentences, "`rainbowctl config init` writes a configuration of its own."])


def read_flyte_config(environ: Mapping[str, str] = os.environ) -> FlyteConfig | None:
    """What flytectl's file says; None where there is no such file, or nothing in it that is of use here."""
    named = environ.get("FLYTECTL_CONFIG")
    path = named or _DEFAULT
    try:
        document = _load(path)
    except (OSError, UnicodeDecodeError, InvalidInput) as error:
        if named:
            raise InvalidInput(
                f"FLYTECTL_CONFIG names {path}, which cannot be read: {_reason(error)}. "
                "Correct the variable, or unset it."
            ) from None
        if isinstance(error, FileNotFoundError):
            return None
        return FlyteConfig(path=path, values={}, remarks=(f"It cannot be read: {_reason(error)}",))
    config = FlyteConfig(path=path, values=_values(document), remarks=_remarks(document))
    return config if config.values or config.remarks else None


def _load(path: str) -> Mapping[str, Any]:
    text = Path(path).expanduser().read_text(encoding="utf-8")
    from ctl.client.yaml_files import Source, load_mapping

    return load_mapping(Source(name=path, text=text), as_text=True)


def _reason(error: Exception) -> str:
    if isinstance(error, InvalidInput):
        return error.in_one_line()
    return getattr(error, "strerror", None) or "it is not UTF-8 text"


def _find(document: Mapping[str, Any], name: str) -> Any:
    """What a section holds, by its name without regard to case."""
    return next((part for key, part in document.items() if fold(str(key)) == name), None)


def _section(document: Mapping[str, Any], name: str) -> dict[str, str]:
    """The texts of a section, by their keys without regard to case."""
    section = _find(document, name)
    entries = section if isinstance(section, Mapping) else {}
    return {fold(str(key)): value for key, value in entries.items() if isinstance(value, str) and value}


def _misread(document: Mapping[str, Any]) -> list[str]:
    """Remarks on what would be taken if it were of another form."""
    remarks = []
    for name, keys in _TAKEN.items():
        section = _find(document, name)
        if section and not isinstance(section, Mapping):
            remarks.append(f"Its {name} is not a mapping, and not taken")
        for key, value in section.items() if isinstance(section, Mapping) else ():
            if value and fold(str(key)) in keys and not isinstance(value, str):
                remarks.append(f"Its {name}.{key} is not a single text, and not taken")
    admin = _section(document, "admin")
    for key, meaning in (("insecure", "https is assumed"), ("insecureskipverify", "certificates are verified")):
        if admin.get(key, "true").lower() not in ("true", "false"):
            remarks.append(f"Its admin.{key} '{admin[key]}' is neither true nor false: {meaning}")
    return remarks


def _values(document: Mapping[str, Any]) -> dict[str, str]:
    admin, root, task = (_section(document, name) for name in ("admin", "root", "task"))
    values = {
        "endpoint": _endpoint(admin.get("endpoint", ""), is_insecure=_is_true(admin, "insecure")),
        "ca_file": admin.get("cacertfilepath", ""),
        "project": root.get("project") or task.get("project", ""),
        "domain": root.get("domain") or task.get("domain", ""),
        "output": _output(root),
    }
    return {key: value for key, value in values.items() if value}


def _endpoint(text: str, *, is_insecure: bool) -> str:
    """`dns:///host:port` with the protocol that `insecure` asks for."""
    if not text or text.startswith(("http://", "https://")):
        return text
    return f"{'http' if is_insecure else 'https'}://{text.removeprefix('dns:///')}"


def _output(root: Mapping[str, str]) -> str:
    """The form of answers, if it is one that answers have here."""
    output = root.get("output", "").lower()
    return output if output in _OUTPUTS else ""


def _remarks(document: Mapping[str, Any]) -> tuple[str, ...]:
    admin, root = _section(document, "admin"), _section(document, "root")
    remarks = _misread(document)
    if "authtype" in admin:
        remarks.append(
            f"Its authType {admin['authtype']} has no meaning here: the admin takes a bearer token, from --token-file"
        )
    if _is_true(admin, "insecureskipverify"):
        remarks.append("Its insecureSkipVerify is not followed: --ca-file names who signed the certificate")
    taken = {"project", "domain", *(["output"] if _output(root) else [])}
    if others := sorted(root.keys() - taken):
        remarks.append(f"Not taken of its section root: {listed(others)}")
    return tuple(remarks)


def _is_true(section: Mapping[str, str], key: str) -> bool:
    return section.get(key, "").lower() == "true"
