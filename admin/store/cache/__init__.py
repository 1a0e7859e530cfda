"""What a worker keeps in memory of the database, and how it learns of changes."""
