"""Executions: from a request to a run plan and its placement, and then their lifecycle.

spec                the fields of a request
launches            a job to run at a scope, nothing resolved yet
effective_settings  what every kind resolves to for a launch
plans               a launch with every setting applied
queues              the queue of a run plan
quality_of_service  its tier, and how long it may wait
placements          where it goes, and which requests are refused for that
lifecycle           the phases, and which may follow which
attempts            how an attempt begins, ends, or goes back to the queue
reports             what agents report, and what it changes
retries             whether another attempt follows
selectors           which executions a list holds
"""
