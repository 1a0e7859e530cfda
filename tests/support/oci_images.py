"""Container images made by hand, so that no registry is needed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_APPLETS = (
    *("sh", "echo", "true", "false", "sleep", "touch", "cat", "head", "seq", "env", "pwd", "printf", "base64", "dd"),
    *(
        "kill",
        "ls",
        "mkdir",
        "yes",
        "date",
        "wc",
        "id",
        "tr",
        "trap",
        "test",
        "rm",
        "tail",
        "stat",
        "hostname",
        "nproc",
    ),
)


def write_busybox_image(busybox: Path, names: Mapping[str, list[str]], archive: Path) -> None:
    """Write an archive that `ctr images import` reads: busybox under each name, with the command of each."""
    layer = _layer(busybox)
    blobs = {_digest(layer): layer}
    manifests = []
    for name, command in names.items():
        config = _document(
            {
                "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                "os": "linux",
                "config": {"Cmd": command, "Env": ["PATH=/bin"], "WorkingDir": "/"},
                "rootfs": {"type": "layers", "diff_ids": [_digest(gzip.decompress(layer))]},
            }
        )
        manifest = _document(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": _described(config, "application/vnd.oci.image.config.v1+json"),
                "layers": [_described(layer, "application/vnd.oci.image.layer.v1.tar+gzip")],
            }
        )
        blobs |= {_digest(config): config, _digest(manifest): manifest}
        entry = _described(manifest, "application/vnd.oci.image.manifest.v1+json")
        manifests.append({**entry, "annotations": {"io.containerd.image.name": name}})
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", _document({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _document({"schemaVersion": 2, "manifests": manifests}))
        for digest, content in blobs.items():
            _add(tar, f"blobs/{digest.replace(':', '/')}", content)


def _layer(busybox: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "etc", "tmp", "root"):
            directory = tarfile.TarInfo(folder)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(directory)
        _add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        for applet in _APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return gzip.compress(buffer.getvalue(), mtime=0)


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))


def _document(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _described(content: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}
