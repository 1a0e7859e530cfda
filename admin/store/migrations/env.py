"""Runs migrations on the connection that `admin.store.schema` hands over."""

from __future__ import annotations

from alembic import context

from admin.store import attributes, projects, revisions
from admin.store.database import metadata

#: Importing the nouns is what puts their tables into the metadata.
TABLES = (attributes.attributes, projects.projects, revisions.revisions)

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters tables by copying them
)
with context.begin_transaction():
    context.run_migrations()
