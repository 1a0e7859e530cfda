"""The process that talks to Flux, through the Python bindings of the site's Flux.

It is started as `flux python helper.py SECONDS FOLLOW`: how long it waits for Flux, and the option `follow`.
It reads requests from standard input and writes replies and events to standard output, each a line of JSON:

    {"id": 7, "call": "submit", "jobspec": …, "urgency": 16}   →   {"id": 7, "result": …} or
                                                                  {"id": 7, "error": "…", "errno": 22}
    {"job": "fHyQn7y", "events": [ … ]}                        of jobs that are followed, as they happen

It ends when its input does, or when Flux is gone. It imports nothing of Rainbow's, because `flux python` may be another
interpreter than the agent's, and an older one.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import json
import os
import sys
import time
from typing import Any

import flux
import flux.constants
import flux.job
from flux.job import JobID

#: How long events of jobs that are not followed yet are remembered: a look-up may miss what was just written.
_RECENT_SECONDS = 10.0
_MOST_JOBS = 1000


class Helper:
    """The calls, one method each; `call_NAME` gets the request's fields."""

    def __init__(self, timeout: Any, follow: Any) -> None:
        self.flux = flux.Flux()
        self.timeout = timeout
        self.connected_at = time.monotonic()
        #: The events that were sent of each job, by its number: their times and names.
        self.followed: Any = {}
        self.recent: Any = collections.deque()
        self.streams: Any = {}
        self.userid = os.getuid()
        owner = int(self.flux.attr_get("security.owner"))
        self.is_owner = owner == self.userid
        self.has_journal = follow == "journal" or (not follow and self.is_owner)
        self.buffer = b""
        if self.has_journal:
            stream = self.flux.rpc("job-manager.events-journal", {"full": False}, 0, flux.constants.FLUX_RPC_STREAMING)
            stream.then(self.on_journal)
            self.streams[None] = stream

    def run(self) -> None:
        """Serve requests until the input ends."""
        os.set_blocking(0, False)
        watcher = self.flux.fd_watcher_create(0, self.on_input)
        watcher.start()
        # What was written while nothing was followed yet may not be readable yet.
        again = self.flux.timer_watcher_create(_RECENT_SECONDS, self.look_again)
        again.start()
        self.flux.reactor_run()

    # Requests

    def on_input(self, handle: Any, watcher: Any, fd: Any, revents: Any, args: Any) -> None:
        """Read what there is, and answer each request in it."""
        try:
            data = os.read(0, 1 << 20)
        except BlockingIOError:
            return
        if not data:
            self.flux.reactor_stop()
            return
        lines = (self.buffer + data).split(b"\n")
        self.buffer = lines.pop()
        for line in lines:
            self.answer(json.loads(line.decode()))

    def answer(self, request: Any) -> None:
        """Carry out one request."""
        number, name = request.pop("id"), request.pop("call")
        try:
            write({"id": number, "result": getattr(self, "call_" + name)(**request)})
        except OSError as error:
            text = error.strerror or str(error)
            write({"id": number, "error": text, "errno": error.errno or errno.EIO})
            if error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                sys.exit(1)
        except Exception as error:  # the agent has to know
            write({"id": number, "error": f"{type(error).__name__}: {error}", "errno": errno.EIO})

    def rpc(self, topic: Any, payload: Any = None) -> Any:
        """The answer to one request to Flux."""
        return wait(self.flux.rpc(topic, payload, 0), self.timeout).get()

    def call_hello(self) -> Any:
        """Who and where we are."""
        attributes = ("version", "size", "local-uri", "instance-level", "hostname")
        answer = {name: attribute(self.flux, name) for name in attributes}
        answer.update(is_owner=self.is_owner, has_journal=self.has_journal)
        return answer

    def call_submit(self, jobspec: Any, urgency: Any) -> Any:
        """Submit a job; its id."""
        future = flux.job.submit_async(self.flux, json.dumps(jobspec), urgency=urgency)
        wait(future, self.timeout * 3)
        return plain(future.get_id())

    def call_feasible(self, jobspec: Any) -> Any:
        """Why the scheduler could never run a job; empty if it could, or does not tell."""
        request = {"jobspec": jobspec, "userid": self.userid, "urgency": 16, "flags": 0}
        for topic in ("feasibility.check", "sched.feasibility"):
            try:
                self.rpc(topic, request)
                return ""
            except OSError as error:
                if error.errno in (errno.ENOSYS, errno.EPERM):
                    continue
                if error.errno in (errno.EINVAL, errno.ENODEV, errno.ENOENT, errno.EOVERFLOW, errno.ENOTSUP):
                    return error.strerror or str(error)
                raise
        return ""

    def call_named(self, name: Any) -> Any:
        """This user's jobs of that name, active and inactive, oldest first."""
        constraint = {"and": [{"userid": [self.userid]}, {"name": [name]}]}
        return self.list_jobs(constraint, ["name", "state", "t_submit", "nodelist"], 0)

    def call_running(self) -> Any:
        """All jobs that run, with what they have and when they must have ended."""
        constraint = {"and": [{"states": [flux.constants.FLUX_JOB_STATE_RUNNING]}]}
        return self.list_jobs(constraint, ["expiration", "ncores", "nnodes", "ranks", "t_run", "duration"], _MOST_JOBS)

    def call_pending(self) -> Any:
        """The jobs that wait for resources: with which priority, and when the scheduler expects to start them."""
        constraint = {"and": [{"states": [flux.constants.FLUX_JOB_STATE_SCHED]}]}
        return self.list_jobs(constraint, ["priority", "urgency", "queue", "duration", "annotations"], _MOST_JOBS)

    def list_jobs(self, constraint: Any, attrs: Any, most: Any) -> Any:
        payload = {"max_entries": most, "attrs": attrs, "since": 0.0, "constraint": constraint}
        stream = self.flux.rpc("job-list.list", payload, 0, flux.constants.FLUX_RPC_STREAMING)
        jobs = []
        while True:
            try:
                answer = wait(stream, self.timeout).get()
            except OSError as error:
                if error.errno == errno.ENODATA:
                    break
                raise
            jobs += answer["jobs"]
            if not answer.get("version"):
                break
            stream.reset()
        for job in jobs:
            job["id"] = plain(job["id"])
        return sorted(jobs, key=lambda job: job.get("t_submit", 0.0))

    def call_resources(self) -> Any:
        """What there is, what is down and what is allocated, each as a resource set."""
        return self.rpc("resource.sched-status")

    def call_resource_set(self) -> Any:
        """The instance's resource set, the scheduler's own description included where there is one."""
        try:
            return flux.kvs.get(self.flux, "resource.R")
        except OSError:
            return self.rpc("resource.sched-status")["all"]

    def call_queues(self) -> Any:
        """The configured queues, and their limits."""
        try:
            config = self.rpc("config.get")
        except OSError:
            return {}
        return {"queues": config.get("queues", {}), "policy": config.get("policy", {})}

    def call_cancel(self, ids: Any) -> None:
        """End jobs; those that have ended are no error."""
        for future in [flux.job.cancel_async(self.flux, JobID(id)) for id in ids]:
            self.ignore_ended(future)

    def call_urgency(self, job: Any, urgency: Any) -> Any:
        """Change how urgent a job is; 0 holds it. Whether it was waiting."""
        try:
            self.rpc("job-manager.urgency", {"id": int(JobID(job)), "urgency": urgency})
            return True
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT, errno.EPERM):
                return False
            raise

    def ignore_ended(self, future: Any) -> None:
        try:
            wait(future, self.timeout).get()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL):
                raise

    # Following jobs

    def call_follow(self, names: Any) -> Any:
        """Send the events of jobs from now on, those until now first; which of them Flux does not know.

        Flux gives ids again in another instance: a job of another name is another job.
        """
        numbers = {int(JobID(id)): name for id, name in names.items()}
        asked = {number: self.look_up(number, ["eventlog", "jobspec"]) for number in numbers}
        unknown = []
        for number, future in asked.items():
            try:
                answer = wait(future, self.timeout).get()
                jobspec = json.loads(answer["jobspec"])
                name = jobspec["attributes"]["system"].get("job", {}).get("name")
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EPERM):
                    raise
                name = None
            if name != numbers[number]:
                unknown.append(plain(number))
                self.followed.pop(number, None)
                continue
            self.followed.setdefault(number, set())
            self.send(number, parse_events(answer["eventlog"]))
            self.send(number, [event for _, of, event in self.recent if of == number])
            if not self.has_journal and number not in self.streams:
                self.follow_eventlog(number)
        return unknown

    def call_leave(self, ids: Any) -> None:
        """Send no more events of jobs."""
        for id in ids:
            number = int(JobID(id))
            self.followed.pop(number, None)
            stream = self.streams.pop(number, None)
            if stream is not None:
                stream.cancel()

    def look_up(self, number: Any, keys: Any) -> Any:
        return self.flux.rpc("job-info.lookup", {"id": number, "keys": keys, "flags": 0}, 0)

    def follow_eventlog(self, number: Any) -> None:
        """Follow one job, for whom may not read the journal of all jobs."""
        stream = flux.job.event_watch_async(self.flux, number)
        self.streams[number] = stream
        stream.then(self.on_eventlog, number)

    def on_eventlog(self, stream: Any, number: Any) -> None:
        try:
            event = stream.get_event()
        except OSError:
            event = None
        if event is None:
            self.streams.pop(number, None)
            return
        if number in self.followed:
            self.send(number, [{"timestamp": event.timestamp, "name": event.name, "context": dict(event.context)}])

    def on_journal(self, stream: Any) -> None:
        """Take events of all jobs."""
        answer = stream.get()
        stream.reset()
        now = time.monotonic()
        for event in answer.get("events", ()):
            number = int(answer["id"])
            self.recent.append((now, number, event))
            if number in self.followed:
                self.send(number, [event])
        while self.recent and self.recent[0][0] < now - _RECENT_SECONDS:
            self.recent.popleft()

    def look_again(self, handle: Any, watcher: Any, revents: Any, args: Any) -> None:
        """Look up the events of what was followed just after the connection began."""
        for number in list(self.followed):
            self.look_up(number, ["eventlog"]).then(self.on_second_look, number)

    def on_second_look(self, future: Any, number: Any) -> None:
        try:
            events = parse_events(future.get()["eventlog"])
        except OSError:
            return
        if number in self.followed:
            self.send(number, events)

    def send(self, number: Any, events: Any) -> None:
        """Send events that were not sent before."""
        sent, new = self.followed[number], []
        for event in events:
            identity = (event["timestamp"], event["name"])
            if identity not in sent:
                sent.add(identity)
                new.append(event)
        if not new:
            return
        message = {"job": plain(number), "events": new}
        if any(event["name"] == "alloc" for event in new):
            self.look_up(number, ["R"]).then(self.on_allocation, number)
        write(message)

    def on_allocation(self, future: Any, number: Any) -> None:
        """Send what a job has."""
        with contextlib.suppress(OSError):
            write({"job": plain(number), "events": [], "R": json.loads(future.get()["R"])})


def wait(future: Any, seconds: Any) -> Any:
    """Wait for an answer; TimeoutError if there is none in time."""
    future.wait_for(seconds)
    return future


def attribute(handle: Any, name: Any) -> Any:
    try:
        return handle.attr_get(name)
    except OSError:
        return None


def parse_events(text: Any) -> Any:
    return [json.loads(line) for line in text.splitlines() if line]


def plain(id: Any) -> Any:
    """A job's id in the characters of ASCII: fHyQn7y."""
    return JobID(id).f58.replace("\u0192", "f")


def write(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Helper(float(sys.argv[1]), sys.argv[2]).run()
