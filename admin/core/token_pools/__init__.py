"""Token pools: counted resources, the limits on them, and who gets the next tokens."""
