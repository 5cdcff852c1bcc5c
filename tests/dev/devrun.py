#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The main job in the foreground: faultd with the development configuration, a small OTLP receiver of ours on loopback, and
a live view of both sides, what /metrics says and what the receiver was sent. Ctrl-C ends it."""

import argparse
import collections
import contextlib
import ctypes
import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(PROJECT, "tests", "lib"))
sys.dont_write_bytecode = True

import exposition  # noqa: E402
import otlp  # noqa: E402
import receiver  # noqa: E402
import view  # noqa: E402

# Where config/dev.yaml lets the daemon listen and ship to.
SCRAPE = "127.0.0.1:11011"
COLLECTOR = "127.0.0.1:4318"

PLAIN_EVERY = 5.0  # seconds between blocks where there is no terminal
LOG_TAIL = 3
STOP_TIMEOUT = 10
PR_SET_PDEATHSIG = 1
SERIOUS = ("warning", "error", "critical", "alert", "emergency")


class Trouble(Exception):
    """Something to tell the person at the terminal in one line."""


def split_address(text):
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise Trouble(f"{text!r} is no ADDRESS:PORT")
    return host.strip("[]"), int(port)


def need_free(address):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(split_address(address))
        except OSError as e:
            raise Trouble(f"{address}, where faultd shall listen: {e.strerror}; does a faultd run already?") from None


# ---- the daemon ----


class Daemon:
    """faultd as a child; its log goes to a file and its last lines to the view."""

    def __init__(self, binary, config, log_path):
        self.tail = collections.deque(maxlen=LOG_TAIL)
        self.serious = []
        self.lines = 0
        self.log_path = log_path
        self.log_file = open(log_path, "w", errors="backslashreplace")
        libc = ctypes.CDLL(None)
        env = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "JOURNAL_STREAM", "WATCHDOG_USEC", "LISTEN_FDS")}
        self.process = subprocess.Popen(
            [binary, "--config", config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,  # Ctrl-C is for us; we end it
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for raw in self.process.stdout:
            line = raw.decode(errors="backslashreplace").rstrip("\n")
            self.log_file.write(line + "\n")
            self.log_file.flush()
            line = line.removeprefix("faultd: ")
            self.lines += 1
            self.tail.append(line)
            if line.split(":")[0] in SERIOUS:
                self.serious.append(line)

    def ended(self):
        return self.process.poll() is not None

    def stop(self):
        """Ends it if it still runs; its exit code, None if it had to be killed."""
        if not self.ended():
            self.process.terminate()
        try:
            code = self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = None
        self.reader.join(STOP_TIMEOUT)
        self.log_file.close()
        return code

    def log(self):
        # Copies, since the reader goes on.
        return view.Log(self.lines, len(self.serious), list(self.tail), self.log_path)


def with_addresses(config, scrape, collector, folder):
    """The configuration with other addresses: a copy with a drop-in beside it."""
    copy = os.path.join(folder, "faultd.yaml")
    shutil.copyfile(config, copy)
    if os.path.isdir(config + ".d"):
        shutil.copytree(config + ".d", copy + ".d")
    os.makedirs(copy + ".d", exist_ok=True)
    with open(os.path.join(copy + ".d", "zz-addresses.yaml"), "w") as f:
        json.dump({"scrape": {"listen": [scrape]}, "ship": {"endpoint": f"http://{collector}"}}, f)
    return copy


# ---- the receiver ----


class Collector:
    """The receiver, and what its batches said, decoded by Google's protobuf."""

    def __init__(self, address):
        self.schema = otlp.Schema(otlp.compile_protos(os.path.join(PROJECT, "proto")))
        self.lock = threading.Lock()
        self.points = self.undecodable = self.last_points = 0
        self.groups = {}
        host, port = split_address(address)
        try:
            self.receiver = receiver.Receiver(port, host, answer=self._take, keep=1)
        except OSError as e:
            raise Trouble(f"{address}, where the receiver shall listen: {e.strerror}; does another collector run here?") from None

    def _take(self, batch):
        try:
            if batch.error:
                raise ValueError(batch.error)
            request = self.schema.decode(batch.body, batch.signal)
            found = list(otlp.points(request)) if batch.signal == "metrics" else []
        except Exception:  # whatever the decoder found wrong, it is the batch's fault
            with self.lock:
                self.undecodable += 1
            return receiver.Answer(400)
        if batch.signal != "metrics":  # the view shows counts
            return receiver.Answer(200)
        with self.lock:
            self.points += len(found)
            self.last_points = len(found)
            for point in found:
                self._add(point)
        return receiver.Answer(200)

    def _add(self, point):
        of = point.attributes
        if point.metric not in ("faultd.page_faults", "faultd.major_page_faults"):
            return
        group = self.groups.setdefault(of.get("cgroup.path", view.OTHER), exposition.Group())
        if point.metric == "faultd.page_faults":
            group.classes[of.get("fault.mode"), of.get("fault.access"), of.get("fault.kind")] = point.value
        else:
            group.major = point.value

    def state(self):
        last = self.receiver.last()
        with self.lock:
            return view.Received(
                f"{self.receiver.host}:{self.receiver.port}",
                self.receiver.count,
                self.points,
                self.receiver.body_bytes,
                self.receiver.wire_bytes,
                self.undecodable,
                self.last_points,
                max(0.0, time.time() - last.received) if last else None,
                {name: exposition.Group(dict(g.classes), {}, g.major) for name, g in self.groups.items()},
            )

    def close(self):
        self.receiver.close()


# ---- the screen ----


class Terminal:
    """Redraws in place, on the terminal's other screen, so that what was there before comes back."""

    every = 1.0

    def __enter__(self):
        sys.stdout.write("\x1b[?1049h\x1b[?25l\x1b[2J")
        return self

    def show(self, state):
        columns, lines = shutil.get_terminal_size()
        text = view.render(state, max(80, columns), lines)[:lines]
        sys.stdout.write("\x1b[H" + "".join(f"{line[:columns]}\x1b[K\r\n" for line in text)[:-2] + "\x1b[J")
        sys.stdout.flush()

    def __exit__(self, *exc):
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()


class Plain:
    """A block now and then, without a single escape code."""

    every = PLAIN_EVERY

    def __enter__(self):
        return self

    def show(self, state):
        print("\n".join(view.render(state, 80, 32)) + "\n", flush=True)

    def __exit__(self, *exc):
        pass


def screen():
    return Terminal() if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" else Plain()


# ---- all ----


class Stop:
    """Set by a signal; a pipe, since a handler must take no lock that the main thread may hold."""

    def __init__(self, signals):
        self.pipe = os.pipe()
        for number in signals:
            signal.signal(number, lambda *_: os.write(self.pipe[1], b"."))

    def wait(self, seconds):
        return bool(select.select([self.pipe[0]], [], [], seconds)[0])


def scrape(address):
    host, port = split_address(address)
    connection = http.client.HTTPConnection(host, port, timeout=3)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics", headers={"Accept": "text/plain;version=0.0.4"})
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    if response.status != 200:
        raise ValueError(f"HTTP status {response.status}")
    return exposition.parse(text, time.monotonic())


class Run:
    def __init__(self, options, daemon, collector):
        self.options, self.daemon, self.collector = options, daemon, collector
        self.began = time.monotonic()
        self.now = self.before = None
        self.problem = ""

    def look(self):
        try:
            new = scrape(self.options.scrape)
        except (OSError, ValueError, http.client.HTTPException) as e:
            self.problem = str(e) or type(e).__name__  # the old figures are shown on, with this beside them
        else:
            self.before, self.now, self.problem = self.now, new, ""

    def state(self):
        return view.State(
            time.monotonic() - self.began,
            self.now,
            self.before,
            self.problem,
            self.collector.state(),
            self.daemon.log(),
            self.options.cgroup,
        )

    def loop(self, stop):
        """Until Ctrl-C, the end of --once, or the end of the daemon."""
        end = self.began + self.options.once if self.options.once else None
        with screen() as where:
            shown = time.monotonic()
            while not self.daemon.ended():
                left = 1.0 if end is None else min(1.0, end - time.monotonic())
                if left <= 0 or stop.wait(left):
                    break
                self.look()
                if time.monotonic() - shown >= where.every - 0.5:
                    shown = time.monotonic()
                    where.show(self.state())
        if self.now:
            Plain().show(self.state())


def tell_end(daemon, code, asked):
    """What the daemon's end was; the exit code of this program."""
    if not asked or code != 0:
        with open(daemon.log_path, errors="replace") as f:
            sys.stderr.writelines(view.printable(line) + "\n" for line in f.read().splitlines())
    elif daemon.serious:
        print("Warnings:", *map(view.printable, daemon.serious), sep="\n  ")
    if code is None:
        print(f"devrun: faultd did not end within {STOP_TIMEOUT} s and was killed", file=sys.stderr)
        return 1
    if not asked:
        print(f"devrun: faultd ended by itself with exit code {code}; faultd --help explains it", file=sys.stderr)
        return code if 0 < code < 128 else 1
    print(f"faultd ended with exit code {code}; its log is {os.path.relpath(daemon.log_path)}")
    return 0 if code == 0 else 1


def run(options, stop):
    binary = os.path.join(options.build, "faultd")
    if not os.access(binary, os.X_OK):
        raise Trouble(f"{binary} is not built; make build does that")
    if not os.path.exists(options.config):
        raise Trouble(f"no configuration {options.config}")
    need_free(options.scrape)
    with tempfile.TemporaryDirectory(prefix="faultd-dev-") as folder:
        config = options.config
        if (options.scrape, options.collector) != (SCRAPE, COLLECTOR):
            config = with_addresses(config, options.scrape, options.collector, folder)
        with contextlib.closing(Collector(options.collector)) as collector:
            daemon = Daemon(binary, config, options.log or os.path.join(options.build, "devrun.log"))
            work = Run(options, daemon, collector)
            try:
                work.loop(stop)
            finally:
                asked = not daemon.ended()
                code = daemon.stop()
    code = tell_end(daemon, code, asked)
    if code == 0 and options.once and not work.now:
        raise Trouble(f"/metrics never answered: {work.problem}")
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(PROJECT, "build"), help="build folder")
    parser.add_argument("--config", default=os.path.join(PROJECT, "config", "dev.yaml"))
    parser.add_argument("--cgroup", default="*", metavar="GLOB", help="show only these cgroups")
    parser.add_argument("--once", type=float, metavar="SECONDS", help="end after that time")
    parser.add_argument("--scrape", default=SCRAPE, metavar="ADDRESS:PORT", help=f"where faultd listens ({SCRAPE})")
    parser.add_argument("--collector", default=COLLECTOR, metavar="ADDRESS:PORT", help=f"where our receiver listens ({COLLECTOR})")
    parser.add_argument("--log", metavar="FILE", help="the daemon's log (default: devrun.log in the build folder)")
    options = parser.parse_args()

    try:
        return run(options, Stop((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
    except Trouble as e:
        print(f"devrun: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
