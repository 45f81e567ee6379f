"""What reading memory costs: CPU, wake-ups and open handles of the gateway, idle and busy.

Idle is measured as people have it, five minutes after the last request, and once more without
the probes of the model server's health: what is left then is what readings cost when idle.

Busy is one stream that is open all the time and says a word every five seconds, so that the
gateway has next to nothing to do but its readings. What it costs with the shortest interval is
set beside what it costs with the longest: the difference, per reading, is the readings' own.
"""

import argparse
import http.client
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse


class Upstream(http.server.BaseHTTPRequestHandler):
    """A server that answers very slowly."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
        found = self.path == "/v1/models"
        self.send_response(200 if found else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        word = json.dumps({"choices": [{"index": 0, "delta": {"content": "w"}}]})
        event = f"data: {word}\n\n".encode()
        try:
            while True:
                self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
                time.sleep(5)
        except OSError:
            self.close_connection = True


class Gateway:
    def __init__(self, oneslotd, port, interval_ms, idle_interval_s=10):
        self.home = tempfile.TemporaryDirectory()
        # A folder of its own: the configuration's is watched, and so is the one around it.
        os.mkdir(f"{self.home.name}/config")
        config = f"{self.home.name}/config/oneslot.toml"
        with open(config, "w", encoding="ascii") as file:
            file.write(f'upstream.base_url = "http://127.0.0.1:{port}"\n')
            file.write(f"health.idle_interval_s = {idle_interval_s}\n")
        self.child = subprocess.Popen(
            [oneslotd, "serve", "--listen", "127.0.0.1:0", "--config", config]
            + ["--state", f"{self.home.name}/state"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Only a program built with the feature fault-injection reads this.
            env=os.environ | {"ONESLOT_LIMITS": json.dumps({"memory": {"interval_ms": interval_ms}})},
        )
        line = self.child.stdout.readline().decode()
        self.address = urllib.parse.urlparse(line.split()[2]).netloc

    def used(self):
        """CPU in nanoseconds, and how often it was woken, over the threads that live."""
        # The whole process's clock: threads that ended are in it.
        cpu = time.clock_gettime_ns((~self.child.pid << 3) | 2)
        woken = 0
        tasks = f"/proc/{self.child.pid}/task"
        for task in os.listdir(tasks):
            try:
                with open(f"{tasks}/{task}/status", encoding="ascii") as file:
                    for line in file:
                        if line.startswith("voluntary_ctxt_switches"):
                            woken += int(line.split()[1])
            except FileNotFoundError:
                pass
        return cpu, woken

    def handles(self):
        """Open handles of readings alone: the kernel's word of stalls, a driver, a device."""
        open_files = f"/proc/{self.child.pid}/fd"
        targets = []
        for file in os.listdir(open_files):
            try:
                targets.append(os.readlink(f"{open_files}/{file}"))
            except FileNotFoundError:
                pass
        kinds = ("/proc/pressure", "/dev/nvidia", "/dev/dri", "/dev/kfd", "/sys/")
        return sum(target.startswith(kinds) for target in targets)

    def measure(self, seconds):
        before, began = self.used(), time.monotonic()
        time.sleep(seconds)
        after, took = self.used(), time.monotonic() - began
        return {
            "cpu_percent": round((after[0] - before[0]) / 1e7 / took, 4),
            "wakeups_per_s": round((after[1] - before[1]) / took, 3),
            "handles": self.handles(),
        }

    def end(self):
        self.child.terminate()
        self.child.wait()


def busy(oneslotd, port, interval_ms, seconds):
    gateway = Gateway(oneslotd, port, interval_ms)
    connection = http.client.HTTPConnection(gateway.address)
    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]})
    connection.request(
        "POST", "/v1/chat/completions", body, {"content-type": "application/json"}
    )
    answer = connection.getresponse()
    answer.read1(10)
    time.sleep(3)
    seen = gateway.measure(seconds)
    connection.close()
    gateway.end()
    return seen


def idle(oneslotd, port, seconds, idle_interval_s, after_s):
    gateway = Gateway(oneslotd, port, 2000, idle_interval_s)
    connection = http.client.HTTPConnection(gateway.address)
    connection.request("GET", "/oneslot/status")
    connection.getresponse().read()
    connection.close()
    time.sleep(after_s)
    seen = gateway.measure(seconds)
    gateway.end()
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--oneslotd", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--idle-after-s", type=int, default=310)
    wish = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = {
        "idle": idle(wish.oneslotd, port, wish.seconds, 10, wish.idle_after_s),
        "idle, no probes": idle(wish.oneslotd, port, wish.seconds, 3600, 20),
        "busy, every 2 s": busy(wish.oneslotd, port, 2000, wish.seconds),
        "busy, every 60 s": busy(wish.oneslotd, port, 60_000, wish.seconds),
        "busy, every 250 ms": busy(wish.oneslotd, port, 250, wish.seconds),
    }
    fast, slow = rows["busy, every 250 ms"], rows["busy, every 60 s"]
    reading_us = (fast["cpu_percent"] - slow["cpu_percent"]) / 100 / 4 * 1e6
    rows["a reading"] = {"microseconds": round(reading_us), "percent_at_2_s": round(reading_us / 2e4, 4)}
    for name, row in rows.items():
        print(f"{name:20} {json.dumps(row)}")
    print(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(main())
