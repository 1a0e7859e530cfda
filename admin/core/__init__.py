"""The rules. Pure Python: no Flask, no SQLAlchemy, no clock, no randomness, no imports from other rooms."""
