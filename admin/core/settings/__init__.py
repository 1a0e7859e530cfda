"""Settings: scopes, kinds and their fields, and what a kind resolves to at a scope."""
