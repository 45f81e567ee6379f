"""One chat, or several at once, through the official OpenAI client for Python.

Prints one line of JSON for each client, in the order in which they end, as a person's program
would have seen it: `{client, ok, text, finish, chunks, usage, headers, attempts, error, elapsed}`.
An attempt is `{sent, answered, status}`, the last two null when no answer came. Times are seconds
since that client started; `error` is null or `{class, status, code, type, message, headers}`.
Ends with success whatever the answers were.
"""

import argparse
import json
import sys
import threading
import time

import openai

PRINTING = threading.Lock()


def wishes():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True, help="the base URL, with /v1")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--retries", type=int, default=0)
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--messages", help="a file with the list of messages")
    parser.add_argument("--extra", default="{}", help="further members of the body, as JSON")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--key", default="none")
    parser.add_argument("--timeout", type=float, default=120, help="the client's own, in seconds")
    parser.add_argument("--clients", type=int, default=1, help="how many ask at once")
    parser.add_argument("--gap-ms", type=int, default=0, help="between two clients' starts")
    wish = parser.parse_args()
    wish.extra = json.loads(wish.extra)
    if wish.messages:
        with open(wish.messages, encoding="utf-8") as file:
            wish.messages = json.load(file)
    else:
        wish.messages = [{"role": "user", "content": "Say hello."}]
    return wish


class Chat:
    """One client's request, and what became of it."""

    def __init__(self, wish, client):
        self.wish = wish
        self.began = time.monotonic()
        self.seen = {
            "client": client,
            "ok": False,
            "text": "",
            "finish": None,
            "chunks": 0,
            "usage": None,
            "headers": {},
            "attempts": [],
            "error": None,
        }

    def run(self):
        try:
            self.ask()
            self.seen["ok"] = True
        except Exception as error:  # every class is an outcome that a test may want to see
            self.seen["error"] = seen_in(error)
        self.seen["elapsed"] = self.since()
        with PRINTING:
            print(json.dumps(self.seen), flush=True)

    def ask(self):
        wish = self.wish
        http = openai.DefaultHttpxClient(
            trust_env=False,
            event_hooks={"request": [self.note_sent], "response": [self.note_answered]},
        )
        with openai.OpenAI(
            base_url=wish.base,
            api_key=wish.key,
            max_retries=wish.retries,
            timeout=wish.timeout,
            http_client=http,
        ) as client:
            answer = client.chat.completions.with_raw_response.create(
                model=wish.model,
                messages=wish.messages,
                max_tokens=wish.max_tokens,
                stream=wish.stream,
                extra_body=wish.extra,
            )
            self.seen["headers"] = dict(answer.headers)
            if wish.stream:
                self.read_stream(answer.parse())
            else:
                self.read_whole(answer.parse())

    def read_stream(self, stream):
        for chunk in stream:
            self.seen["chunks"] += 1
            if chunk.usage:
                self.seen["usage"] = chunk.usage.model_dump()
            for choice in chunk.choices:
                self.seen["text"] += (choice.delta and choice.delta.content) or ""
                self.seen["finish"] = choice.finish_reason or self.seen["finish"]

    def read_whole(self, answer):
        self.seen["usage"] = answer.usage and answer.usage.model_dump()
        for choice in answer.choices:
            self.seen["text"] += choice.message.content or ""
            self.seen["finish"] = choice.finish_reason

    def note_sent(self, _request):
        self.seen["attempts"].append({"sent": self.since(), "answered": None, "status": None})

    def note_answered(self, response):
        self.seen["attempts"][-1].update(answered=self.since(), status=response.status_code)

    def since(self):
        return round(time.monotonic() - self.began, 4)


def seen_in(error):
    response = getattr(error, "response", None)
    return {
        "class": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "code": getattr(error, "code", None),
        "type": getattr(error, "type", None),
        "message": str(error),
        "headers": dict(response.headers) if response is not None else {},
    }


def main():
    wish = wishes()
    threads = []
    for client in range(wish.clients):
        thread = threading.Thread(target=lambda at=client: Chat(wish, at).run())
        thread.start()
        threads.append(thread)
        time.sleep(wish.gap_ms / 1000)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
