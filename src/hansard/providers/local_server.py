"""Serves a model's weights on loopback with llama.cpp. A program of its own, so that its memory is not ours:

    python -P local_server.py LIBRARY_FOLDER WEIGHTS CONTEXT SLOTS THREADS CACHE_MIB

It says the port that it chose as one line on its standard output, and serves until it is ended. The key that it asks for
comes on its standard input.
"""

import sys
import threading
from importlib import import_module
from pathlib import PurePath
from urllib.parse import urlsplit


def main(arguments: list[str]) -> None:
    library, weights, *numbers = arguments
    context, slots, threads, cache_mib = map(int, numbers)
    sys.path.append(library)
    llama = import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = weights
    # What it says of itself instead of the path.
    params.model_alias = {PurePath(weights).name.removesuffix(".gguf")}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [sys.stdin.read().strip()]
    # The context is shared between the slots.
    params.n_ctx = context * slots
    params.n_parallel = slots
    params.cpuparams.n_threads = threads
    # Left to itself it takes 8 GiB for prompts that it has seen.
    params.cache_ram_mib = cache_mib
    server = llama.Server(params)
    print(urlsplit(server.listening_address).port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
