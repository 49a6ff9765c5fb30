"""Who holds a claim: a process, named so that another one can tell whether it is dead, and the claim free. Knows no store."""

import json
import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self

from hansard.domain.value import value
from hansard.errors import Fenced
from hansard.store.base import Freed

LONGEST_US = 86_400 * 1_000_000
"""No lease is as long: one that has more time left was given by a clock that was ahead, and set right since."""
LONGEST_UNSEEN_US = 120 * 1_000_000
"""The same for a holder whom nobody sees from here: leases are of seconds, and whoever lives renews his soon."""


@value
class Holder:
    """A process on a machine in one boot: the pid alone would be reused, and a container counts its own."""

    host: str
    boot: str
    pids: str
    pid: int
    started: str

    @classmethod
    def here(cls) -> Self:
        pid = os.getpid()
        return cls(host=socket.gethostname(), boot=_boot(), pids=_pids(), pid=pid, started=_started(pid) or "")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read back what text() wrote; None for anything else, which nobody can call dead."""
        try:
            found = json.loads(text)
            host, boot, pids, started = (str(found[name]) for name in ("host", "boot", "pids", "started"))
            return cls(host=host, boot=boot, pids=pids, pid=int(found["pid"]), started=started)
        except (ValueError, KeyError, TypeError, OverflowError):
            return None

    def text(self) -> str:
        names = {"boot": self.boot, "host": self.host, "pid": self.pid, "pids": self.pids, "started": self.started}
        return json.dumps(names)

    def would_be_seen(self) -> bool:
        """Whether this process can tell if the other one lives.

        Another boot under the same host name may be another machine, and another count of pids another container.
        """
        known = self.boot and self.pids and self.started
        return bool(known) and (self.host, self.boot, self.pids) == (socket.gethostname(), _boot(), _pids())

    def is_dead(self) -> bool:
        """True only when this process can tell: it would see the other one, and that is gone."""
        if not self.would_be_seen():
            return False
        return not _is_there(self.pid) or _started(self.pid) not in (self.started, None)


def why_free(claim: str, epoch: int, holder: str, left_us: int) -> Freed:
    """Why a claim may be taken, or Fenced, by the name that is given here, when it may not."""
    if not epoch:
        return "new"
    if not holder:
        return "resumed"
    who = Holder.parse(holder)
    if not 0 < left_us <= (LONGEST_US if who and who.would_be_seen() else LONGEST_UNSEEN_US):
        return "expired"
    if who and who.is_dead():
        return "dead"
    by = f"process {who.pid} on {who.host}" if who else "somebody"
    if who and who.would_be_seen():
        raise Fenced(f"{claim} is held by {by}, which is alive and keeps it; wait until it is done with it, or end it")
    left = f"{left_us / 1_000_000:.0f} s more"
    raise Fenced(
        f"{claim} is held by {by} for {left}, and on from there while that lives; wait until it is done, or end it"
    )


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _pids() -> str:
    """The namespace in which this process counts pids."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _is_there(pid: int) -> bool:
    """Whether a process has this number. It takes no file, and sees those of other users wherever /proc hides them."""
    try:
        with suppress(PermissionError):
            os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _started(pid: int) -> str | None:
    """The process's start time in clock ticks since boot; empty when only what is left of it is there, None when nobody can
    tell: no file can be opened any more, say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name may hold spaces and brackets; the fields begin behind its last bracket.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
