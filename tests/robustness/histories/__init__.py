"""Histories: what clients asked and were answered, what faults there were, and what real processes did."""
