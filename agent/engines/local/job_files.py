"""The files in the directory of a local job, by which the engine and the job's supervisor communicate."""

from __future__ import annotations

#: What to run; written by the engine before the supervisor starts, and named as `CommandEngine` expects it.
TASK = "task.json"
#: Locked (flock) by the supervisor as long as it lives.
LOCK = "lock"
#: Written before the first process is started: from then on the job may have run.
STARTED = "started.json"
#: A request to end the job; SIGTERM makes the supervisor look for it.
CANCEL = "cancel"
#: How the job ended.
ENDED = "ended.json"
