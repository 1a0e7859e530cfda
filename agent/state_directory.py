"""The state directory: what an agent must find again after a restart, used by one agent at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from pathlib import Path

from agent.files import read_json, write_file, write_json
from agent.intents import Intent

#: The file of a job's directory that has its last intent.
_PAST_INTENT = "intent.json"


class StateError(Exception):
    """The state directory cannot be used, with the reason and the remedy."""


class StateDirectory:
    """Intents and the time of the last renewal, on disk.

    lock        locked (flock) by the agent
    instance    a random id, which tells the admin that processes are the same agent, started again
    position    how far the agent has seen the admin's answers, and for which cluster
    intents/    one file for each lease, named after its key
    jobs/       one directory for each job, filled by the engine; with its intent when it is over
    renewed     when the leases were last renewed
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.jobs = path / "jobs"
        self._intents = path / "intents"
        self._renewed = path / "renewed"
        #: Why the last intent could not be stored; empty when everything is.
        self.problem = ""
        #: What could not be stored, by key: kept in memory, and tried again.
        self._unsaved: dict[str, Intent] = {}
        try:
            for directory in (path, self.jobs, self._intents):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateError(f"stateDirectory: {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StateError(
                f"stateDirectory: another agent uses {path}: end that one, or give this one a directory of its own"
            ) from None
        try:
            #: The random id of this directory.
            self.instance = self._load_instance()
        except OSError as error:
            os.close(self._lock)
            raise StateError(f"stateDirectory: {path} cannot be written: {error.strerror}") from error

    def _load_instance(self) -> str:
        path = self.path / "instance"
        with contextlib.suppress(FileNotFoundError):
            if re.fullmatch(r"[0-9a-f]{16}", text := path.read_text(errors="replace").strip()):
                return text
        text = secrets.token_hex(8)
        write_file(path, f"{text}\n".encode())
        return text

    def let_jobs_through(self) -> None:
        """Let jobs of another user reach their own directories, though they cannot list what else is here."""
        for directory in (self.path, self.jobs):
            directory.chmod(0o711)

    def close(self) -> None:
        """Let another agent use the directory."""
        os.close(self._lock)

    def load_intents(self) -> tuple[list[Intent], list[str]]:
        """Every intent that an earlier process left, and a sentence for each that cannot be read."""
        intents, problems = [], []
        for path in sorted(self._intents.glob("*.json")):
            try:
                document = read_json(path)
                if document is None:
                    raise ValueError("not JSON")
                intents.append(Intent.from_document(document))
            except (ValueError, KeyError, TypeError) as error:
                # Nothing is lost: the admin asks about its lease, and the engine knows the job by its key.
                aside = path.with_suffix(".unreadable")
                path.replace(aside)
                problems.append(f"the intent {path.name} cannot be read ({error}); it is renamed to {aside.name}")
        return intents, problems

    def save(self, intent: Intent, *, is_durable: bool) -> None:
        """Store an intent; unless durable, it survives a crash of the agent but not of the machine.

        That there is a lease, and that the engine may have its job, must survive both: OSError if it cannot be written.
        Everything else is learned again from the engine and the admin, so a full disk does not stop it.
        """
        try:
            write_json(self._intents / f"{intent.key}.json", intent.to_document(), is_durable=is_durable)
        except OSError as error:
            if is_durable:
                raise
            self.problem = f"the state directory cannot be written: {error.strerror}"
            self._unsaved[intent.key] = intent
        else:
            self._unsaved.pop(intent.key, None)

    def save_again(self) -> None:
        """Store what could not be stored before."""
        self.problem = ""
        for intent in list(self._unsaved.values()):
            self.save(intent, is_durable=False)

    def remove(self, intent: Intent) -> None:
        """Move an intent to the directory of its job, as long as the engine keeps that; delete it if there is none.

        If a crash of the machine restores it, the next start finds that it is over.
        """
        self._unsaved.pop(intent.key, None)
        path = self._intents / f"{intent.key}.json"
        with contextlib.suppress(OSError):
            try:
                path.replace(self.jobs / intent.key / _PAST_INTENT)
            except OSError:
                path.unlink(missing_ok=True)

    def load_past_intent(self, key: str) -> Intent | None:
        """Why the agent ended a job that was over, its id, whether it ran, and its declared outputs.

        While the engine keeps its directory.

        A job of the agent's own user may have written there, so that nothing else of it is used.
        """
        try:
            document = read_json(self.jobs / key / _PAST_INTENT) or {}
            past = Intent.from_document(document)
            outputs = [str(path) for path in past.lease["job"].get("outputs") or ()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        lease = {"job": {"outputs": outputs}}
        has_run = past.running_since is not None or bool(past.has_run)
        return Intent(
            lease=lease,
            key=key,
            native_id=str(past.native_id),
            ending=past.ending,
            ending_message=str(past.ending_message),
            has_run=has_run,
        )

    def save_renewal(self, boot: str, sent_at: float, lease_seconds: float) -> None:
        """Store when leases were renewed; not synced to disk, because it counts within one boot only."""
        with contextlib.suppress(OSError):
            write_file(self._renewed, f"{boot} {sent_at} {lease_seconds}".encode(), is_durable=False)

    def load_renewal(self, boot: str) -> tuple[float, float] | None:
        """When leases were last renewed since this boot, and for how many seconds."""
        try:
            stored_boot, sent_at, seconds = self._renewed.read_text().split()
            return (float(sent_at), float(seconds)) if stored_boot == boot else None
        except (OSError, ValueError):
            return None

    def save_position(self, cluster: str, position: int) -> None:
        """Store how far the admin's answers were seen; not synced to disk, because a little less does no harm."""
        with contextlib.suppress(OSError):
            write_file(self.path / "position", f"{position} {cluster}".encode(), is_durable=False)

    def load_position(self, cluster: str) -> int:
        """How far an earlier process has seen the admin's answers for a cluster."""
        try:
            position, stored_cluster = (self.path / "position").read_text().split()
            return int(position) if stored_cluster == cluster else 0
        except (OSError, ValueError):
            return 0
