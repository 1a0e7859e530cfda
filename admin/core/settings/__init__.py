"""Settings: scopes, kinds, and the effective values of kinds at scopes."""
