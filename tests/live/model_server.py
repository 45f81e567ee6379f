"""A real llama.cpp server with one slot, as a process of its own.

Prints `ready http://127.0.0.1:PORT` on standard output once it answers, and serves until it is
ended. It is meant to be killed, stopped and started again by tests. The server's own log goes to
standard error.
"""

import argparse
import os
import signal
import sys
import time
import urllib.error
import urllib.request

import xllamacpp

PARENT_LOOK_S = 0.5
HEALTH_LOOK_S = 0.05
HEALTH_LIMIT_S = 60


def wishes():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="the GGUF file")
    parser.add_argument("--name", default="smollm2", help="the name it is served by")
    parser.add_argument("--port", type=int, default=8080, help="0 lets the system choose")
    parser.add_argument("--ctx", type=int, default=2048, help="the window, in tokens")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=1, help="requests served at the same time")
    parser.add_argument("--api-key", help="the key that requests must bring")
    parser.add_argument("--seed", type=int, default=1, help="the same answers each time")
    parser.add_argument(
        "--with-parent",
        action="store_true",
        help="end when the process that started this one ends, and not at Ctrl-C",
    )
    return parser.parse_args()


def params_for(wish):
    params = xllamacpp.CommonParams()
    params.model.path = wish.model
    # The name that clients see: without one it is the file's whole path.
    params.model_alias = {wish.name}
    params.hostnames = ["127.0.0.1"]
    params.port = wish.port
    params.n_ctx = wish.ctx
    params.n_parallel = wish.slots
    params.cpuparams.n_threads = wish.threads
    params.cpuparams_batch.n_threads = wish.threads
    params.sampling.seed = wish.seed
    params.endpoint_slots = params.endpoint_metrics = params.endpoint_props = True
    if wish.api_key:
        params.api_keys = [wish.api_key]
    return params


def wait_for_health(address):
    """/health needs no key, and answers 503 while the model loads."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(int(HEALTH_LIMIT_S / HEALTH_LOOK_S)):
        try:
            if direct.open(address + "/health", timeout=5).status == 200:
                return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(HEALTH_LOOK_S)
    sys.exit(f"the server did not become healthy within {HEALTH_LIMIT_S} s")


def main():
    wish = wishes()
    parent = os.getppid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN if wish.with_parent else signal.SIG_DFL)
    if not os.path.isfile(wish.model):
        sys.exit(f"there is no model file {wish.model}")
    server = xllamacpp.Server(params_for(wish))
    wait_for_health(server.listening_address)
    print(f"ready {server.listening_address}", flush=True)
    while not wish.with_parent or os.getppid() == parent:
        time.sleep(PARENT_LOOK_S)
    # A clean shutdown waits for the answer in progress, which nobody reads any more.
    os._exit(0)


if __name__ == "__main__":
    main()
