"""What memory pressure does to clients, with OneSlot before the model server and without.

A real llama.cpp and a memory hog share a group of processes with a limit; the model is the one
whom the kernel kills first. The hog comes and goes by the same clock in both runs, and goes over
the limit once each round. Whoever minds the server starts it again 10 s after each death. Prints a
line of JSON for each run, then a table.
"""

import argparse
import collections
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from group import Group

HERE = os.path.dirname(os.path.abspath(__file__))
RESTART_AFTER_S = 10
# Part of the headroom the hog takes, and for how many seconds. Over 1 the kernel must kill.
ROUND = [(0.0, 6), (0.88, 6), (0.955, 6), (0.98, 6), (1.1, 2), (0.0, 14)]


def wishes():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--oneslotd", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--gap-s", type=float, default=2.0)
    parser.add_argument("--limit-mib", type=int, default=1024)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--pace", type=float, default=1.0, help="stretches the hog's clock")
    parser.add_argument("--only", choices=["with", "without"])
    return parser.parse_args()


class Model:
    """The model server in the group, started again after each death."""

    def __init__(self, wish, group, port):
        self.wish, self.group, self.port = wish, group, port
        self.deaths = 0
        self.over = threading.Event()
        self.ready = threading.Event()
        self.child = None
        self.minder = threading.Thread(target=self.mind)
        self.minder.start()
        if not self.ready.wait(120):
            raise SystemExit("the model server did not start")

    def mind(self):
        while not self.over.is_set():
            self.child = self.start()
            self.child.wait()
            if self.over.is_set():
                return
            self.deaths += 1
            self.over.wait(RESTART_AFTER_S)

    def start(self):
        def first():
            self.group.take(os.getpid())
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write("1000")

        child = subprocess.Popen(
            [sys.executable, f"{HERE}/model_server.py", "--model", self.wish.model]
            + ["--port", str(self.port), "--ctx", "2048"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=first,
        )
        threading.Thread(target=self.listen, args=(child,), daemon=True).start()
        return child

    def listen(self, child):
        for line in child.stdout:
            if line.startswith(b"ready "):
                self.ready.set()

    def end(self):
        self.over.set()
        if self.child:
            self.child.kill()
        self.minder.join()


class Hog:
    """Takes its part of the headroom by the clock."""

    def __init__(self, group, wish):
        self.group, self.pace = group, wish.pace
        self.held = 0
        self.start()
        self.headroom = wish.limit_mib - group.held_mib()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.over.is_set():
            for part, seconds in ROUND:
                self.go_to(int(self.headroom * part))
                if self.over.wait(seconds * self.pace):
                    return

    def start(self):
        self.child = subprocess.Popen(
            [sys.executable, f"{HERE}/hog.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=lambda: self.group.take(os.getpid()),
            text=True,
        )
        self.hold(0)

    def go_to(self, mib):
        """Little by little near the limit, and no further once the kernel has killed."""
        kills = self.group.kills()
        while self.held < mib and self.group.kills() == kills:
            near = self.held > self.headroom * 0.9
            self.hold(min(mib, self.held + (2 if near else 64)))
        if self.held > mib:
            self.hold(mib)

    def hold(self, mib):
        try:
            self.child.stdin.write(f"{mib}\n")
            self.child.stdin.flush()
            alive = self.child.stdout.readline()
        except BrokenPipeError:
            alive = ""
        self.held = mib
        if not alive:
            # It was killed as well: it begins anew.
            self.child.wait()
            self.held = 0
            self.start()

    def end(self):
        self.over.set()
        self.thread.join()
        self.child.kill()
        self.child.wait()


class Gateway:
    """OneSlot before the model server; outside of the group."""

    def __init__(self, wish, port):
        self.home = tempfile.TemporaryDirectory()
        config = f"{self.home.name}/oneslot.toml"
        with open(config, "w", encoding="ascii") as file:
            file.write(f'upstream.base_url = "http://127.0.0.1:{port}"\n')
            file.write("queue.max_waiting = 50\n")
        self.child = subprocess.Popen(
            [wish.oneslotd, "serve", "--listen", "127.0.0.1:0", "--config", config]
            + ["--state", f"{self.home.name}/state"],
            stdout=subprocess.PIPE,
            stderr=open(f"{self.home.name}/log", "wb"),
            # Only a program built for tests reads this.
            env=os.environ | {"ONESLOT_LIMITS": '{"memory": {"interval_ms": 500, "fall_quiet_ms": 5000}}'},
        )
        line = self.child.stdout.readline().decode()
        self.address = urllib.parse.urlparse(line.split()[2]).netloc

    def levels(self):
        with open(f"{self.home.name}/log", encoding="utf-8") as file:
            return [line for line in file if "memory pressure" in line or "is gone" in line]

    def end(self):
        self.child.terminate()
        self.child.wait()


def ask(address, wish, seen, lock):
    body = {
        "model": "smollm2",
        "max_tokens": wish.max_tokens,
        "messages": [{"role": "user", "content": "Tell a long story about a lighthouse."}],
    }
    began = time.monotonic()
    outcome, note = "raw", ""
    try:
        connection = http.client.HTTPConnection(address, timeout=280)
        connection.request(
            "POST",
            "/v1/chat/completions",
            json.dumps(body),
            {"content-type": "application/json"},
        )
        answer = connection.getresponse()
        text = answer.read()
        code = answer.getheader("x-oneslot-code")
        if answer.status == 200:
            outcome = "answered"
            note = answer.getheader("x-oneslot-max-tokens") or ""
        elif code or b'"error"' in text:
            outcome, note = "refused", code or str(answer.status)
    except (OSError, http.client.HTTPException) as error:
        note = type(error).__name__
    with lock:
        seen.append((outcome, note, time.monotonic() - began))


def run(wish, name):
    group = Group(f"oneslot-{name}-{os.getpid()}", wish.limit_mib)
    port = free_port()
    model = Model(wish, group, port)
    gateway = Gateway(wish, port) if name == "with" else None
    address = gateway.address if gateway else f"127.0.0.1:{port}"
    warm, lock, seen = [], threading.Lock(), []
    ask(address, wish, warm, lock)
    hog = Hog(group, wish)
    threads = []
    for _ in range(wish.requests):
        thread = threading.Thread(target=ask, args=(address, wish, seen, lock))
        thread.start()
        threads.append(thread)
        time.sleep(wish.gap_s)
    # Pressure ends when the last has asked: whoever still waits is served or refused.
    hog.end()
    for thread in threads:
        thread.join()
    kills = group.kills()
    levels = gateway.levels() if gateway else []
    if gateway:
        gateway.end()
    model.end()
    time.sleep(0.5)
    group.remove()
    counts = collections.Counter(outcome for outcome, _, _ in seen)
    served = sorted(took for outcome, _, took in seen if outcome == "answered")
    return {
        "run": name,
        "requests": wish.requests,
        "answered": counts["answered"],
        "refused": counts["refused"],
        "raw": counts["raw"],
        "deaths": model.deaths,
        "kills": kills,
        "shortened": sum(1 for outcome, note, _ in seen if outcome == "answered" and note),
        "notes": dict(collections.Counter(note for _, note, _ in seen if note)),
        "median_s": round(served[len(served) // 2], 1) if served else None,
        "longest_s": round(served[-1], 1) if served else None,
        "log": levels,
    }


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    wish = wishes()
    runs = []
    for name in ("without", "with"):
        if wish.only in (None, name):
            runs.append(run(wish, name))
            print(json.dumps(runs[-1]), flush=True)
    columns = ["run", "requests", "answered", "refused", "raw", "deaths", "median_s", "longest_s"]
    titles = ["OneSlot", "asked", "answered", "coded no", "raw errors", "deaths", "median s", "longest s"]
    print(" | ".join(f"{title:>10}" for title in titles))
    for one in runs:
        print(" | ".join(f"{one[column]!s:>10}" for column in columns))


if __name__ == "__main__":
    sys.exit(main())
