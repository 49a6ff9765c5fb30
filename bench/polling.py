"""Asks for the daemon's health again and again, in a process of its own, so that only the daemon's pauses are measured.

python -m bench.polling PORT      until standard input is closed; prints how long each answer took, as JSON
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

PAUSE_S = 0.005


def _until_closed(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def poll(port: int) -> list[float]:
    """How long each answer took, until standard input ends."""
    over = threading.Event()
    threading.Thread(target=_until_closed, args=(over,), daemon=True).start()
    found: list[float] = []
    wire = HTTPConnection("127.0.0.1", port)
    while not over.is_set() or len(found) < 100:
        began = time.perf_counter()
        wire.request("GET", "/health")
        said = wire.getresponse()
        said.read()
        if said.status != 200:
            raise SystemExit(f"the daemon answers {said.status}")
        found.append(time.perf_counter() - began)
        time.sleep(PAUSE_S)
    wire.close()
    return found


@contextmanager
def polled(port: int) -> Iterator[list[float]]:
    """The latencies while the block runs, sorted, once it is over."""
    found: list[float] = []
    words = [sys.executable, "-m", "bench.polling", str(port)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield found
        out, _ = process.communicate()
        found += sorted(json.loads(out))


if __name__ == "__main__":
    print(json.dumps(poll(int(sys.argv[1]))))
