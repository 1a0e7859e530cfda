"""The version of this client."""

from __future__ import annotations


def client_version() -> str:
    """The version of the installed package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("rainbow")
    except PackageNotFoundError:
        return "unknown"
