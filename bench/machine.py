"""What the figures were measured on: processor, memory, file system, load, and how long the disk takes for a sync."""

import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.process import ROOT, run

IN_MEMORY = ("tmpfs", "ramfs")
QUIET_US = 200
_PROBES = 200


def real_folder(wanted: str | None) -> Path:
    """A folder on a disk: the one asked for, the repository's build folder, or TMPDIR; the first that is not memory."""
    places = [Path(wanted)] if wanted else [ROOT / "build", Path(os.environ.get("TMPDIR", "/var/tmp"))]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        if file_system(place) not in IN_MEMORY:
            return place
    raise SystemExit(f"{places[-1]} lies in memory, where a sync costs nothing; name a folder on a disk: --dir FOLDER")


def file_system(place: Path) -> str:
    """The type of the file system that a folder lies on; empty where the system does not tell."""
    best, kind = "", ""
    try:
        mounts = Path("/proc/mounts").read_text("utf-8")
    except OSError:
        return ""
    for line in mounts.splitlines():
        _, point, found = line.split(" ")[:3]
        if place.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, found
    return kind


def describe(place: Path) -> Iterator[str]:
    """The machine in a few lines."""
    took_us = sync_us(place)
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = "/".join(f"{each:.1f}" for each in os.getloadavg())
    yield f"{os.cpu_count()} x {_processor()}, {memory_gib:.0f} GiB, {platform.system()} {platform.release()}, load {load}"
    kind = file_system(place) or "unknown file system"
    yield f"{kind}, append of 1.4 KiB + fdatasync {took_us:.0f} us (median of {_PROBES})"
    if took_us > QUIET_US:
        yield "NOT a quiet disk: the ratios of appending rise with the time of a sync, and say little about a quiet one"


def sync_us(place: Path) -> float:
    """How long a small durable append takes here."""
    path = place / "sync-probe"
    spans = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_PROBES):
            start = time.perf_counter()
            file.write(b"x" * 1400)
            os.fdatasync(file.fileno())
            spans.append(time.perf_counter() - start)
    path.unlink()
    return median(spans) * 1e6


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    try:
        told = run(["lscpu"]).stdout
    except OSError:
        told = ""
    names = [line.split(":", 1)[1].strip() for line in told.splitlines() if line.startswith("Model name")]
    return names[0] if names else platform.machine()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except OSError:
        return []
