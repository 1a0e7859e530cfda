"""The commands of one kind: what `get`, `update`, `edit` and `delete` do with it."""

from __future__ import annotations

import click

from ctl.client.kinds import Kind


def attribute_command(verb: str, kind: Kind) -> click.Command:
    """The command for one verb and one kind."""
    if verb == "get":
        from ctl.commands.attributes.get import get_attribute

        return get_attribute(kind)
    if verb == "update":
        from ctl.commands.attributes.update import update_attribute

        return update_attribute(kind)
    if verb == "edit":
        from ctl.commands.attributes.edit import edit_attribute

        return edit_attribute(kind)
    from ctl.commands.attributes.delete import delete_attribute

    return delete_attribute(kind)
