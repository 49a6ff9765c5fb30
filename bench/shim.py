"""The library that makes every fsync slower on both sides, compiled when it is needed."""

import shutil
from pathlib import Path

from bench.process import ROOT, run


def build_shim(folder: Path) -> tuple[Path | None, str]:
    """The compiled shim; or None, and why there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None, "no C compiler (cc) is on the PATH, so fsync can be neither slowed nor counted"
    library = folder / "slowsync.so"
    source = ROOT / "bench" / "slowsync.c"
    done = run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"])
    if done.returncode:
        return None, f"{compiler} cannot compile slowsync.c: {done.stderr.strip().splitlines()[-1:]}"
    return library, ""


def slowed(shim: Path, delay_us: int) -> dict[str, str]:
    """The environment of a process whose every fsync takes this much longer."""
    return {"LD_PRELOAD": str(shim), "SLOWSYNC_US": str(delay_us)}
