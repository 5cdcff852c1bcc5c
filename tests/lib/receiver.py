# SPDX-License-Identifier: Apache-2.0
"""A small OTLP/HTTP collector on loopback that keeps what it was sent. Standard library only.

    with Receiver() as receiver:
        ... receiver.url ...
        batch = receiver.wait(1)[0]

How it answers is the caller's choice: `answer` is called with each Batch and returns an Answer. Metrics and logs are kept apart, so
that a program that crashes on this host meanwhile disturbs no test of the metrics.
"""

import collections
import dataclasses
import gzip
import http.server
import threading
import time
import zlib

MAX_BODY = 64 << 20


@dataclasses.dataclass
class Batch:
    """One POST. `body` is unpacked, `wire_bytes` what came over the wire; `error` says why it could not be unpacked."""

    path: str
    headers: dict
    wire_bytes: int
    body: bytes
    received: float  # Unix time
    error: str = ""

    @property
    def signal(self):
        return "logs" if self.path.endswith("/v1/logs") else "metrics"


@dataclasses.dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict = dataclasses.field(default_factory=dict)
    delay: float = 0  # seconds before it is given; ended early by Receiver.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            length = -1
        if not 0 <= length <= MAX_BODY:
            self.close_connection = True
            return self._send(Answer(411 if length < 0 else 413))
        data = self.rfile.read(length)
        if len(data) != length:
            self.close_connection = True
            return None
        return self._send(self.server.receiver.take(self._batch(data)))

    def _batch(self, data):
        body, error = data, ""
        if self.headers.get("Content-Encoding") == "gzip":
            try:
                body = gzip.decompress(data)
            except (OSError, EOFError, zlib.error) as e:
                body, error = b"", f"not gzip: {e}"
        return Batch(self.path, dict(self.headers), len(data), body, time.time(), error)

    def _send(self, answer):
        if answer.delay:
            self.server.receiver.closing.wait(answer.delay)
        try:
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/x-protobuf")
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
        except OSError:
            self.close_connection = True  # the sender lost patience

    def log_message(self, *args):
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is no news


class Receiver:
    """port 0 takes a free one. Keeps the last `keep` batches of each signal; .counts and the sums know of all. Raises OSError if the
    port is taken."""

    def __init__(self, port=0, host="127.0.0.1", answer=None, keep=1000):
        self.answer = answer or (lambda batch: Answer())
        self.keep = keep
        self.batches = collections.defaultdict(list)
        self.counts = collections.Counter()
        self.wire_bytes = self.body_bytes = 0
        self.closing = threading.Event()
        self.changed = threading.Condition()
        self.server = _Server((host, port), _Handler)
        self.server.receiver = self
        self.host, self.port = self.server.server_address[:2]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    @property
    def count(self):
        """Batches of metrics so far."""
        return self.counts["metrics"]

    def take(self, batch):
        with self.changed:
            self.counts[batch.signal] += 1
            self.wire_bytes += batch.wire_bytes
            self.body_bytes += len(batch.body)
            self.batches[batch.signal] = (self.batches[batch.signal] + [batch])[-self.keep :]
            self.changed.notify_all()
        return self.answer(batch)

    def last(self, signal="metrics"):
        with self.changed:
            return self.batches[signal][-1] if self.batches[signal] else None

    def wait(self, count, timeout=20, signal="metrics"):
        """Waits until `count` batches of a signal in all have come; returns those that are kept."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.counts[signal] >= count, timeout):
                raise AssertionError(f"{self.counts[signal]} instead of {count} batches of {signal} came within {timeout} s")
            return list(self.batches[signal])

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
