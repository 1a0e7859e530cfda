"""Executions: from a request to a run plan and its placement, and then their lifecycle.

spec                the fields of a request
launches            a job to run at a scope, nothing resolved yet
effective_settings  what every kind resolves to for a launch
plans               a launch with every setting applied
queues              the queue of a run plan, its tier, and how long it may wait
placements          which requests are refused for where they ask to go
consequences        what happens with a pool, label or queue tag that executions do not follow
own_settings        fields of settings that a launch plan or a job says itself, or that a limit caps
lifecycle           the phases, and which may follow which
attempts            how an attempt begins, ends, or goes back to the queue, and the reports that change it
retries             whether another attempt follows
run_times           how long it ran and waited, how long it may run, and what becomes of it if its cluster is lost
silences            what the silence of a cluster means for what it may still run
causes              the category of what ended an execution without success
switch_outcomes     what becomes of it if its cluster is cordoned, drained or switched otherwise
statuses            where an execution stands now, why, and what happens next
adoptions           what a restored database takes over from an agent with a newer attempt
selectors           which executions a list holds
"""
