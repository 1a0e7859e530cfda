"""Background work: done by one process at a time, whichever holds the lease."""
