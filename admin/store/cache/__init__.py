"""What a worker caches of the database, and how it is notified of changes."""
