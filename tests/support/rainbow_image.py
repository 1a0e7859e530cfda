"""An image of Rainbow, made of the Python, the libraries and the packages that run the tests."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.oci_images import Image, add_busybox, add_file
from tests.support.programs import ROOT

#: Where the image has Python, its packages, and its user.
_PYTHON = "usr/local/bin/python"
_LIBRARY = f"usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGES = f"{_LIBRARY}/site-packages"
_USERS = b"root:x:0:0:root:/root:/bin/sh\nrainbow:x:10001:10001::/tmp:/bin/sh\n"
_EXTRAS = frozenset({"kubernetes", "postgres"})
#: Parts of the standard library that no server needs.
_LEFT_OUT = ("test", "idlelib", "tkinter", "ensurepip", "lib2to3", "site-packages", "dist-packages")


def rainbow_image(name: str, busybox: Path) -> Image:
    """What the Containerfile makes, without a registry: the programs, and what they import."""
    files = {_PYTHON: Path(sys.executable).resolve(), **_standard_library(), **_installed_packages(), **_own_packages()}
    files |= _shared_libraries(files.values())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        add_busybox(tar, busybox)
        for link in ("lib", "lib64"):
            member = tarfile.TarInfo(link)
            member.type, member.linkname = tarfile.SYMTYPE, f"usr/{link}"
            tar.addfile(member)
        add_file(tar, "etc/passwd", _USERS)
        for path, source in sorted(files.items()):
            tar.add(source, path, filter=_for_everybody)
        rainbow = distribution("rainbow")
        # A checkout in which it was installed knows of it beside its packages, in an older form.
        known = {"METADATA": rainbow.read_text("METADATA") or rainbow.read_text("PKG-INFO")}
        known["entry_points.txt"] = rainbow.read_text("entry_points.txt")
        for file, lines in known.items():
            add_file(tar, f"{_PACKAGES}/rainbow-{rainbow.version}.dist-info/{file}", (lines or "").encode())
        for script in rainbow.entry_points.select(group="console_scripts"):
            text = f"#!/{_PYTHON}\nfrom {script.module} import {script.attr}\n\n{script.attr}()\n"
            add_file(tar, f"usr/local/bin/{script.name}", text.encode(), mode=0o755)
    environment = {"PATH": "/usr/local/bin:/bin", "PYTHONPATH": f"/{_PACKAGES}"}
    return Image(name=name, layer=buffer.getvalue(), command=["rainbow-admin", "--help"], environment=environment)


def _for_everybody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file of root's that everybody may read, with its time, by which Python knows what it has compiled."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode |= 0o444 | (0o111 if member.mode & 0o100 else 0)
    return member


def _standard_library() -> dict[str, Path]:
    root = Path(sysconfig.get_path("stdlib"))
    return {
        f"{_LIBRARY}/{path.relative_to(root)}": path
        for path in _files_below(root)
        if not path.relative_to(root).parts[0].startswith((*_LEFT_OUT, "config-"))
    }


def _installed_packages() -> dict[str, Path]:
    """The files of every distribution that Rainbow requires."""
    files: dict[str, Path] = {}
    for name in _required("rainbow", _EXTRAS):
        for entry in distribution(name).files or ():
            if ".." not in entry.parts and (path := Path(str(entry.locate()))).is_file():
                files[f"{_PACKAGES}/{entry}"] = path.resolve()
    return files


def _own_packages() -> dict[str, Path]:
    return {
        f"{_PACKAGES}/{path.relative_to(ROOT)}": path
        for package in ("admin", "agent", "ctl")
        for path in _files_below(ROOT / package)
    }


def _required(name: str, extras: Iterable[str]) -> set[str]:
    """The names of the distributions that one requires with some of its extras, and that those require."""
    found: set[str] = set()
    waiting: list[tuple[str, frozenset[str]]] = [(name, frozenset(extras))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        entry = waiting.pop()
        if entry in seen:
            continue
        seen.add(entry)
        for requirement in map(Requirement, distribution(entry[0]).requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *entry[1])):
                found.add(requirement.name)
                waiting.append((requirement.name, frozenset(requirement.extras)))
    return found


def _shared_libraries(files: Iterable[Path]) -> dict[str, Path]:
    """What the loader finds for programs and libraries outside of their packages, at the places where it looks."""
    loaded = [path for path in files if ".so" in path.name or os.access(path, os.X_OK)]
    done = subprocess.run(["ldd", *map(str, loaded)], capture_output=True, text=True, check=False)
    words = {word for line in done.stdout.splitlines() if not line.endswith(":") for word in line.split()}
    places = (word for word in words if word.startswith("/") and "/.." not in word)
    return {_in_usr(place): Path(place).resolve() for place in places if Path(place).is_file()}


def _in_usr(place: str) -> str:
    return f"usr{place}" if place.startswith("/lib") else place.removeprefix("/")


def _files_below(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file())
