"""An OpenAI-compatible server on the loopback interface that judges as the rule judge does, or misbehaves as it is told.

A *manner* is what it does with one call: a function of the request's body and of how often that very body came (from 0).
"""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from turnwise.judging.rubrics import rubric
from turnwise.judging.rules import dialogue, level, repeats

KINDS = (("level", 3), ("level", 5), ("repeat", 2), ("dialogue", 4))
RUBRICS = {rubric(kind, levels).prompt: (kind, levels) for kind, levels in KINDS}


@dataclass
class Answer:
    """One HTTP response. `send`: how much of the body is sent, as a share, before the connection is cut."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    send: float = 1.0
    drip: float = 0.0
    """Seconds between the bytes of the body; 0 sends it at once."""


Manner = Callable[[dict[str, Any], int], Answer]


def completion(content: str | None, *, refusal: str | None = None, finish: str = "stop") -> Answer:
    """What a model says, as the API wraps it; 100 tokens went in and 10 came out."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "judge",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }
    return Answer(json.dumps(body).encode())


def asked(body: dict[str, Any]) -> dict[str, Any]:
    """The judged texts, as a reader of the request's JSON finds them."""
    return json.loads(body["messages"][-1]["content"])


def by_the_rules(body: dict[str, Any], _: int = 0) -> Answer:
    """What the rule judge says to the same texts."""
    kind, levels = RUBRICS[body["messages"][0]["content"]]
    texts = asked(body)
    if kind == "repeat":
        verdict: str | int = "yes" if repeats(texts["reply"], "\n".join(texts["earlier"])) else "no"
    elif kind == "dialogue":
        verdict = dialogue("\n".join(texts["replies"]), "\n".join(texts["expected"]))
    else:
        verdict = 1 + level(texts["reply"], texts["reference"], levels)
    return completion(json.dumps({"verdict": verdict}))


def says(content: str | None, **changes: Any) -> Manner:
    """Always the same words."""
    return lambda *_: completion(content, **changes)


def fails(status: int, times: int = 10_000, message: str = "boom", **headers: str) -> Manner:
    """An error, with these headers, the first `times` that a body comes; then as the rule judge."""
    error = json.dumps({"error": {"message": message, "type": "error"}}).encode()
    answer = Answer(error, status, {"Content-Type": "application/json", **headers})
    return lambda body, nth: answer if nth < times else by_the_rules(body)


def late(seconds: float, times: int = 10_000) -> Manner:
    """Wait, the first `times` that a body comes; then answer as the rule judge."""

    def manner(body: dict[str, Any], nth: int) -> Answer:
        if nth < times:
            time.sleep(seconds)
        return by_the_rules(body)

    return manner


def changed(**changes: Any) -> Manner:
    """As the rule judge, but the response is not whole, drips, or is something else."""

    def manner(body: dict[str, Any], _: int) -> Answer:
        answer = by_the_rules(body)
        return Answer(**{**vars(answer), **changes})

    return manner


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """Calls that may wait for a thread on a busy machine."""


class JudgeServer:
    """Runs in threads of the test while the context lasts. `bodies` and `keys` are what came, in order of arrival."""

    def __init__(self, manner: Manner = by_the_rules):
        self.manner = manner
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.most = 0
        """Most calls at a time."""
        self._came: Counter[bytes] = Counter()
        self._now, self._lock = 0, threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> "JudgeServer":
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, raw: bytes, key: str | None) -> Answer:
        """Book a call and answer it in the server's manner."""
        body = json.loads(raw)
        with self._lock:
            nth = self._came[raw]
            self._came[raw] += 1
            self.bodies.append(body)
            self.keys.append(key)
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            return self.manner(body, nth)
        finally:
            with self._lock:
                self._now -= 1


def _handler(server: JudgeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            if self.path != "/v1/chat/completions":
                return self.send_error(404)
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            return self._send(server.answer(raw, self.headers["Authorization"]))

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            part = answer.body[: round(len(answer.body) * answer.send)]
            for piece in [part[i : i + 1] for i in range(len(part))] if answer.drip else [part]:
                self.wfile.write(piece)
                time.sleep(answer.drip)
            if answer.send < 1:
                self.connection.shutdown(socket.SHUT_RDWR)

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # the client went away
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler
