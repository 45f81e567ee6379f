"""An Ollama as far as unloading goes: its runner is a process that holds 192 MiB until told.

Prints `ready PORT`. The memory, the process below the server and its end are real; the words are
Ollama's. Ends when its standard input does.
"""

import http.server
import json
import os
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = None


class Ollama(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        loaded = [{"name": "m:latest", "model": "m:latest", "context_length": 4096}]
        answers = {
            "/": b"Ollama is running",
            "/api/version": b'{"version":"0.12.0"}',
            "/api/ps": json.dumps({"models": loaded if RUNNER.poll() is None else []}).encode(),
            "/v1/models": b'{"object":"list","data":[{"id":"m:latest","object":"model"}]}',
            "/api/tags": b'{"models":[{"name":"m:latest","model":"m:latest"}]}',
        }
        self.say(answers.get(self.path.split("?")[0], b"{}"))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/api/generate" and body.get("keep_alive") == 0:
            RUNNER.kill()
            RUNNER.wait()
        self.say(b'{"done":true}')


def main():
    global RUNNER
    RUNNER = subprocess.Popen(
        [sys.executable, f"{HERE}/hog.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    RUNNER.stdin.write(b"192\n")
    RUNNER.stdin.flush()
    RUNNER.stdout.readline()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ollama)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"ready {server.server_address[1]}", flush=True)
    sys.stdin.read()
    RUNNER.kill()


if __name__ == "__main__":
    main()
