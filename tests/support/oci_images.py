"""Container images made by hand, so that no registry is needed."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_APPLETS = (
    *("sh", "echo", "true", "false", "sleep", "touch", "cat", "head", "seq", "env", "pwd", "printf", "base64", "dd"),
    *("kill", "ls", "mkdir", "yes", "date", "wc", "id", "tr", "trap", "test", "rm", "tail", "stat", "hostname"),
    *("nproc", "find"),
)


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image of one layer, which is a tar archive."""

    name: str
    layer: bytes
    command: Iterable[str]
    environment: Mapping[str, str]


def write_archive(archive: Path, images: Iterable[Image]) -> None:
    """Write an archive that `ctr images import` reads."""
    blobs: dict[str, bytes] = {}
    manifests = []
    for image in images:
        config = _document(
            {
                "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                "os": "linux",
                "config": {
                    "Cmd": list(image.command),
                    "Env": [f"{name}={value}" for name, value in image.environment.items()],
                    "WorkingDir": "/",
                },
                "rootfs": {"type": "layers", "diff_ids": [_digest(image.layer)]},
            }
        )
        manifest = _document(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": _described(config, "application/vnd.oci.image.config.v1+json"),
                "layers": [_described(image.layer, "application/vnd.oci.image.layer.v1.tar")],
            }
        )
        blobs |= {_digest(content): content for content in (image.layer, config, manifest)}
        entry = _described(manifest, "application/vnd.oci.image.manifest.v1+json")
        manifests.append({**entry, "annotations": {"io.containerd.image.name": image.name}})
    with tarfile.open(archive, "w") as tar:
        add_file(tar, "oci-layout", _document({"imageLayoutVersion": "1.0.0"}))
        add_file(tar, "index.json", _document({"schemaVersion": 2, "manifests": manifests}))
        for digest, content in blobs.items():
            add_file(tar, f"blobs/{digest.replace(':', '/')}", content)


def busybox_layer(busybox: Path) -> bytes:
    """A file system of busybox alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        add_busybox(tar, busybox)
        add_file(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    return buffer.getvalue()


def add_busybox(tar: tarfile.TarFile, busybox: Path) -> None:
    """Add a shell and the like to a layer, and the directories that every image has."""
    for folder in ("bin", "etc", "tmp", "root"):
        directory = tarfile.TarInfo(folder)
        directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
        tar.addfile(directory)
    add_file(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
    for applet in _APPLETS:
        link = tarfile.TarInfo(f"bin/{applet}")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        tar.addfile(link)


def add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    """Add a file with that content."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))


def _document(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _described(content: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}
