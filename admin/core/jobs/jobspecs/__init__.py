"""Jobspecs: documents in which other schedulers describe a job, read into a job of ours.

A jobspec has one of three forms, recognised by its keys. A field that a job has no place for is carried as an
annotation or refused. To add a form, write a module with `matches`, whether a document has this form, and `read`, the
job that it describes, and add it to `FORMS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.core.jobs.jobspecs import flux, next_generation, simple
from admin.core.jobs.jobspecs.counts import ranges_in
from admin.core.jobs.jobspecs.documents import read_mapping
from admin.core.problems import Path, Problem, dotted, raise_problems

#: The first form that matches a document reads it.
FORMS = (flux, next_generation, simple)


def read_jobspec(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The job that a jobspec describes, still to be checked as a job; Invalid with every problem."""
    problems: list[Problem] = []
    jobspec = read_mapping(document, path, problems)
    job: dict[str, Any] = {}
    is_job = False
    if not problems:
        form = next(form for form in FORMS if form.matches(jobspec))
        job, is_job = form.read(jobspec, path, problems), form is simple
    raise_problems(problems)
    # What the simple form has is checked as a job as it stands, so that an empty list is not taken for a mapping.
    return {name: value for name, value in job.items() if value is not None and (is_job or value not in ({}, []))}


def jobspec_warnings(jobspec: Mapping[str, Any], path: Path) -> list[dict[str, str]]:
    """What was chosen in a jobspec that leaves a choice."""
    return [
        {
            "code": "count_range",
            "message": f"{dotted((*path, *where))} asks for {counts.text}: {counts.least} is taken.",
        }
        for where, counts in ranges_in(jobspec)
    ]
