"""Executions: their lifecycle, what a request becomes once settings apply, attempts and reports."""
