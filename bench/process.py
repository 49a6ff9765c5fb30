"""Runs one driver in a fresh process and reads its answer. Knows nothing of what is measured."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
TIMEOUT_S = 1800


class DriverFailed(Exception):
    """A driver ended badly; the message holds the last lines that it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one run of a driver took. `more` is the rest of its answer."""

    count: int
    wall_s: float
    cpu_s: float
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Sample":
        return cls(count=answer["count"], wall_s=answer["wall_s"], cpu_s=answer["cpu_s"], more=answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The repetitions of one measurement, and their medians."""

    all: tuple[Sample, ...]

    @property
    def each_s(self) -> float:
        """Wall time of one."""
        return median(each.wall_s / each.count for each in self.all)

    @property
    def cpu_each_s(self) -> float:
        return median(each.cpu_s / each.count for each in self.all)

    def middle(self, name: str) -> float:
        """The median of something else that the driver told."""
        return median(float(each.more[name]) for each in self.all)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A program that is asked one thing and answers in JSON."""

    python: Path
    module: str
    flags: tuple[str, ...] = ()
    path: Path | None = None

    def command(self, what: str, **asked: Any) -> list[str]:
        """The command line that asks for this."""
        return [str(self.python), *self.flags, "-m", self.module, json.dumps({"do": what, **asked}, default=str)]

    def env(self) -> dict[str, str]:
        return {"PYTHONPATH": str(self.path or "")}

    def ask(self, what: str, *, env: Mapping[str, str] | None = None, **asked: Any) -> dict[str, Any]:
        """The answer as it came."""
        return answer_of(self.command(what, **asked), env={**self.env(), **(env or {})})

    def sample(self, what: str, *, env: Mapping[str, str] | None = None, **asked: Any) -> Sample:
        """The answer as a measurement."""
        return Sample.of(self.ask(what, env=env, **asked))


OURS = Driver(python=Path(sys.executable), module="bench.our_driver", path=SOURCE)
RUNS = Driver(python=Path(sys.executable), module="bench.run_driver", path=SOURCE)
STRANGER = Driver(python=Path(sys.executable), module="bench.stdlib_driver", flags=("-E", "-S"))


def answer_of(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What a driver printed on its last line."""
    done = run(command, env=env)
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        answer = None
    if done.returncode or not isinstance(answer, dict):
        raise DriverFailed(f"{' '.join(command[:4])} …: {_last(done.stderr) or _last(done.stdout) or done.returncode}")
    return answer


def start(command: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[str]":
    """Start a program from the root of the repository and do not wait for it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env}, stdout=pipe, stderr=pipe, text=True)


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a program from the root of the repository."""
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def in_turn(times: int, works: Mapping[str, Callable[[], Sample]]) -> dict[str, Samples]:
    """Every measurement once, then all of them again: what disturbs the machine meets both sides alike."""
    taken: dict[str, list[Sample]] = {name: [] for name in works}
    for _ in range(times):
        for name, work in works.items():
            taken[name].append(work())
    return {name: Samples(all=tuple(samples)) for name, samples in taken.items()}


def _last(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-2:])
