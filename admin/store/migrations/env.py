"""Runs migrations on the connection that `admin.store.schema` hands over."""

from __future__ import annotations

from alembic import context

from admin.store.database import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters tables by copying them
)
with context.begin_transaction():
    context.run_migrations()
