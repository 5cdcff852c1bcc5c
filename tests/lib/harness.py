# SPDX-License-Identifier: Apache-2.0
"""What the live and e2e tests share: the daemon as a child, private cgroups, the workload, and other people's counters.

    with Daemon({"cgroups": {"max": 8}}) as daemon, Cgroup() as cgroup:
        with Workload(cgroup, "write", 16) as work:
            before = daemon.faults(cgroup, mode="user", access="write")
            work.run()
            assert daemon.faults(cgroup, mode="user", access="write") - before == 16

A missing feature of the machine is a skip with its reason: need_root(), need_btf(), need_bpf(), need_perf().
"""

import contextlib
import copy
import ctypes
import errno
import functools
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import prometheus_client.openmetrics.parser
import prometheus_client.parser
import pytest
import yaml

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("FAULTD_BUILD", os.path.join(PROJECT, "build")))
FAULTD = os.path.join(BUILD, "faultd")
OTHER = "other"
UNKNOWN = "unknown"

# Exit codes of the daemon, from sysexits.h.
EXIT_OK = 0
EXIT_USAGE = 64
EXIT_UNSUPPORTED = 69
EXIT_OSERR = 71
EXIT_NOPERM = 77
EXIT_CONFIG = 78

TEST_DEFAULTS = {
    "interval": "100ms",
    "windows": ["1s", "10s", "1m"],
    # Tests make their cgroups there. auto might take v1's where nobody else uses v2.
    "cgroups": {"hierarchy": "v2"},
    "scrape": {"listen": ["127.0.0.1:0"]},
    "ship": {"endpoint": ""},
    "log": {"level": "info"},
}

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


# ---- what this machine offers ----


def need_root():
    if os.geteuid() != 0:
        pytest.skip("needs root")


def need_btf():
    if not os.access("/sys/kernel/btf/vmlinux", os.R_OK):
        pytest.skip("this kernel offers no BTF (/sys/kernel/btf/vmlinux)")


def need_v2():
    if not v2_mount():
        pytest.skip("no cgroup v2 hierarchy is mounted")


def need_v1_memory():
    if not v1_memory_mount():
        pytest.skip("v1's memory controller is not mounted")


@functools.lru_cache(None)
def _bpf_refused():
    """The reason why this process may not load BPF programs, or None. Asks for a map, the cheapest thing to be refused."""
    if not built("faultd"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    attr = (ctypes.c_uint32 * 32)(2, 4, 8, 1)  # BPF_MAP_TYPE_ARRAY, key_size, value_size, max_entries
    number = {"x86_64": 321}.get(os.uname().machine, 280)
    fd = libc.syscall(number, 0, ctypes.byref(attr), ctypes.sizeof(attr))
    if fd < 0:
        return "bpf(2): " + os.strerror(ctypes.get_errno())
    os.close(fd)
    return None


def need_bpf():
    """Everything that counting by BPF needs, down to the page-fault tracepoints."""
    need_root()
    need_btf()
    need_v2()
    if _bpf_refused():
        pytest.skip("this kernel refuses BPF: " + _bpf_refused())
    if not _btf_has(b"btf_trace_page_fault_user"):
        pytest.skip("this kernel has no tracepoint exceptions:page_fault_user")


@functools.lru_cache(None)
def _btf_has(name):
    with open("/sys/kernel/btf/vmlinux", "rb") as f:
        return b"\0" + name + b"\0" in f.read()


def need_perf():
    """perf with the page-fault tracepoints; mounts tracefs where nobody did."""
    need_root()
    if not shutil.which("perf"):
        pytest.skip("perf is not installed (package linux-perf)")
    if not os.path.isdir("/sys/kernel/tracing/events"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"], stderr=subprocess.DEVNULL)
    if not os.path.isdir("/sys/kernel/tracing/events/exceptions/page_fault_user"):
        pytest.skip("tracefs offers no exceptions:page_fault_user")


def need_program(name, package):
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed (package {package})")


def built(name):
    """Path of a program of the build, or None."""
    for folder in ("", "tests/live", "tests/bench"):
        path = os.path.join(BUILD, folder, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def need_built(name):
    path = built(name)
    if not path:
        pytest.fail(f"{name} is not in {BUILD}: build first, or set FAULTD_BUILD")
    return path


def wait_until(condition, timeout=10, what="the condition"):
    """Polls until the condition gives something true, and returns that."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come true within {timeout} s")
        time.sleep(0.01)


# ---- cgroups ----


@functools.lru_cache(None)
def _mounts():
    mounts = {}
    with open("/proc/self/mountinfo", "rb") as f:
        for line in f:
            left, _, right = line.partition(b" - ")
            kind, _, rest = right.partition(b" ")
            where = os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), left.split()[4]))
            if kind == b"cgroup2":
                mounts.setdefault("v2", where)
            elif kind == b"cgroup" and b"memory" in rest.split()[-1].split(b","):
                mounts.setdefault("memory", where)
    return mounts


def v2_mount():
    return _mounts().get("v2")


def v1_memory_mount():
    return _mounts().get("memory")


def without_v2():
    """A prefix: the program behind it finds no v2 hierarchy mounted, as on a host that boots with v1 alone."""
    need_program("unshare", "util-linux")
    return ["unshare", "--mount", "sh", "-c", f'umount "{v2_mount()}" && exec "$@"', "sh"]


class Cgroup:
    """A private cgroup, removed with all that is in it. `name` may be bytes: cgroup names are.

    .raw   its path in the hierarchy as bytes, "/a/b"
    .path  the same as the daemon labels it: invalid UTF-8 replaced by U+FFFD
    .dir   its folder; may be too long for one system call, .fd is the open folder
    """

    _serial = itertools.count()

    def __init__(self, name=None, parent=None, mount=None):
        if name is None:
            name = f"faultd-test-{os.getpid()}-{next(self._serial)}"
        self.name = os.fsencode(name)
        self.parent = parent
        self.children = []
        self.removed = False
        if parent:
            self.mount, self.raw = parent.mount, parent.raw + b"/" + self.name
            parent_fd = os.dup(parent.fd)
        else:
            self.mount = os.fsencode(mount or v2_mount())
            self.raw = b"/" + self.name
            parent_fd = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.mkdir(self.name, dir_fd=parent_fd)
        except OSError:
            os.close(parent_fd)
            raise
        self._parent_fd = parent_fd
        self.fd = os.open(self.name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent_fd)
        if parent:
            parent.children.append(self)

    @property
    def path(self):
        return self.raw.decode("utf-8", "replace")

    @property
    def dir(self):
        return os.fsdecode(self.mount + self.raw)

    def child(self, name=None):
        return Cgroup(name, parent=self)

    def file(self, name, flags=os.O_RDONLY):
        return os.open(name, flags | os.O_CLOEXEC, dir_fd=self.fd)

    def read(self, name):
        with open(self.file(name)) as f:
            return f.read()

    def write(self, name, text):
        fd = self.file(name, os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def add(self, pid):
        """Moves a whole process here."""
        self.write("cgroup.procs", str(pid))

    def procs(self):
        try:
            return [int(line) for line in self.read("cgroup.procs").split()]
        except OSError as e:
            if e.errno == errno.EOPNOTSUPP:  # a threaded cgroup: its processes are in its domain's file
                return []
            raise

    def popen(self, argv, **options):
        """Starts a program that is in this cgroup from its first instruction on."""
        fd = self.file("cgroup.procs", os.O_WRONLY)
        try:
            return subprocess.Popen(argv, preexec_fn=lambda: os.write(fd, b"0"), **options)
        finally:
            os.close(fd)

    def remove(self):
        """Ends what runs here and removes the cgroup and its children."""
        if self.removed:
            return
        for child in list(self.children):
            child.remove()

        def gone():
            for pid in self.procs():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                os.rmdir(self.name, dir_fd=self._parent_fd)
            except OSError as e:
                if e.errno == errno.ENOENT:
                    return True
                if e.errno == errno.EBUSY:
                    return False
                raise
            return True

        wait_until(gone, what=f"removal of {self.path}")
        self.removed = True
        os.close(self.fd)
        os.close(self._parent_fd)
        if self.parent:
            self.parent.children.remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


# ---- the daemon ----


class Metrics:
    """One exposition, read by prometheus_client's own parser."""

    def __init__(self, text, openmetrics=False):
        self.text = text
        parser = prometheus_client.openmetrics.parser if openmetrics else prometheus_client.parser
        self.families = {f.name: f for f in parser.text_string_to_metric_families(text)}

    def samples(self, name, **labels):
        """Samples of that name (counters end in _total) whose labels include the given ones."""
        return [
            s
            for family in self.families.values()
            for s in family.samples
            if s.name == name and all(s.labels.get(k) == v for k, v in labels.items())
        ]

    def sum(self, name, **labels):
        total = sum(s.value for s in self.samples(name, **labels))
        return int(total) if float(total).is_integer() else total

    def value(self, name, **labels):
        """The one sample that fits."""
        found = self.samples(name, **labels)
        assert len(found) == 1, f"{name}{labels}: {len(found)} samples"
        return found[0].value

    def label_values(self, name, label):
        return {s.labels.get(label) for s in self.samples(name)}

    def faults(self, cgroup=None, **labels):
        """Page faults of a cgroup (a Cgroup or a label; None: of all), of the classes that fit the labels."""
        if cgroup is not None:
            labels["cgroup"] = getattr(cgroup, "path", cgroup)
        return self.sum("faultd_page_faults_total", **labels)

    def fault_classes(self, cgroup):
        """{(mode, access, kind): count} of one cgroup."""
        return {
            (s.labels["mode"], s.labels["access"], s.labels["kind"]): int(s.value)
            for s in self.samples("faultd_page_faults_total", cgroup=getattr(cgroup, "path", cgroup))
        }

    def cgroups(self):
        """Labels of all cgroups with page-fault series."""
        return self.label_values("faultd_page_faults_total", "cgroup")


def merge(base, over):
    """A new mapping: `over` laid over `base`, key by key."""
    result = copy.deepcopy(base)
    for key, value in (over or {}).items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merge(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


class _NotifySocket:
    """The receiving end of sd_notify(3)."""

    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.socket.bind(path)
        self.messages = []  # one dict per message
        self.changed = threading.Condition()
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self):
        while True:
            try:
                # Descriptors that are sent along (FDSTORE) are closed by the kernel, since no room is offered for them.
                data = self.socket.recv(65536)
            except OSError:
                return
            if data == b"end":
                return
            fields = dict(line.split("=", 1) for line in data.decode().splitlines() if "=" in line)
            with self.changed:
                self.messages.append(fields)
                self.changed.notify_all()

    def count(self, key, value="1"):
        with self.changed:
            return sum(1 for m in self.messages if m.get(key) == value)

    def wait_count(self, key, count, timeout, alive):
        """Waits until `key`=1 has come `count` times. False if it did not, or if alive() turned false."""
        end = time.monotonic() + timeout
        with self.changed:
            while sum(1 for m in self.messages if m.get(key) == "1") < count:
                if time.monotonic() > end or not alive():
                    return False
                self.changed.wait(0.05)
        return True

    def status(self):
        with self.changed:
            return next((m["STATUS"] for m in reversed(self.messages) if "STATUS" in m), None)

    def close(self):
        with contextlib.suppress(OSError):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
                s.sendto(b"end", self.path)
        self.socket.close()


class Daemon:
    """faultd as a child process with a configuration of its own.

    config  mapping laid over TEST_DEFAULTS, or the text of a YAML file, used as it is
    args    further arguments
    wait    wait for READY=1 (else the caller looks at .process)
    prefix  argv that the daemon's argv is put behind: ["setpriv", ...], ["valgrind", ...]
    env     further environment variables; None as value removes one
    """

    def __init__(self, config=None, args=(), wait=True, binary=None, prefix=(), env=None, timeout=20):
        self.config = config
        self.args = list(args)
        self.wait = wait
        self.binary = binary or FAULTD
        self.prefix = list(prefix)
        self.env = env or {}
        self.timeout = timeout
        self.process = None
        self.folder = None

    # -- life --

    def start(self):
        if not os.access(self.binary, os.X_OK):
            pytest.fail(f"{self.binary} is not built")
        self.folder = tempfile.mkdtemp(prefix="faultd-test-")
        os.chmod(self.folder, 0o755)
        self.config_path = os.path.join(self.folder, "faultd.yaml")
        self.log_path = os.path.join(self.folder, "log")
        self.write_config(self.config)
        self.notify = _NotifySocket(os.path.join(self.folder, "notify"))
        os.chmod(self.notify.path, 0o777)
        env = {k: v for k, v in os.environ.items() if k not in ("JOURNAL_STREAM", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID")}
        env["NOTIFY_SOCKET"] = self.notify.path
        env.update(self.env)
        env = {k: v for k, v in env.items() if v is not None}
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                self.prefix + [self.binary, "--config", self.config_path] + self.args,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
            )
        if self.wait and not self.notify.wait_count("READY", 1, self.timeout, self.running):
            log, code = self.log, self.process.poll()
            self.kill()
            raise AssertionError(f"faultd was not ready (exit code {code}):\n{log}")
        return self

    def running(self):
        return self.process.poll() is None

    @property
    def pid(self):
        return self.process.pid

    def stop(self, expect=EXIT_OK, timeout=10):
        """SIGTERM, and a clean end: returns the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            log = self.log
            self.kill()
            raise AssertionError(f"faultd did not end within {timeout} s of SIGTERM:\n{log}") from None
        took = time.monotonic() - began
        log = self.log
        self._clean()
        assert code == expect, f"faultd ended with {code} instead of {expect}:\n{log}"
        return took

    def wait_exit(self, timeout=10):
        """The exit code of a daemon that ends by itself."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"faultd still runs after {timeout} s:\n{self.log}") from None

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._clean()

    def _clean(self):
        if self.folder:
            self._last_log = self.log
            self.notify.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *rest):
        if not self.folder:
            return
        if kind:
            # The test already failed: show what the daemon said, do not hide the reason.
            print(f"---- log of faultd ----\n{self.log}")
            self.kill()
        elif self.process.poll() is not None:
            code, log = self.process.poll(), self.log
            self._clean()
            if self.wait:
                raise AssertionError(f"faultd ended by itself with {code}:\n{log}")
        else:
            self.stop()

    # -- configuration --

    def write_config(self, config):
        """Writes the file that the next reload reads: a mapping laid over TEST_DEFAULTS, or text."""
        defaults = merge(TEST_DEFAULTS, {"control": {"socket": self.control_socket}})
        text = config if isinstance(config, (str, bytes)) else yaml.safe_dump(merge(defaults, config))
        with open(self.config_path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())

    @property
    def control_socket(self):
        """What faultctl --socket takes."""
        return os.path.join(self.folder, "control.sock")

    def reload(self, config=None, timeout=10):
        """SIGHUP, after writing `config` if given; returns when RELOADING=1 and the READY=1 after it have come."""
        if config is not None:
            self.write_config(config)
        reloading, ready = self.notify.count("RELOADING"), self.notify.count("READY")
        self.process.send_signal(signal.SIGHUP)
        assert self.notify.wait_count("RELOADING", reloading + 1, timeout, self.running), f"no RELOADING=1:\n{self.log}"
        assert self.notify.wait_count("READY", ready + 1, timeout, self.running), f"no READY=1 after reload:\n{self.log}"

    # -- what it says --

    @property
    def log(self):
        if not self.folder:
            return getattr(self, "_last_log", "")
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def wait_log(self, pattern, timeout=10):
        """Waits for a line that the regular expression finds; returns the match."""
        return wait_until(lambda: re.search(pattern, self.log, re.M), timeout, f"{pattern!r} in the log")

    @property
    def status(self):
        return self.notify.status()

    @property
    def addresses(self):
        """Addresses that the daemon says it listens on, in order."""
        return re.findall(r"scrape: listening on (\S+)", self.log)

    @property
    def address(self):
        return wait_until(lambda: self.addresses, what="a listening address")[0]

    @property
    def url(self):
        return f"http://{self.address}"

    def get(self, path="/metrics", headers=None, method="GET", timeout=10):
        """(status, headers, body) of one request on a connection of its own."""
        address = self.address
        if address.startswith("unix:"):
            connection = http.client.HTTPConnection("localhost", timeout=timeout)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(timeout)
            connection.sock.connect(address[5:])
        else:
            connection = http.client.HTTPConnection(address, timeout=timeout)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def metrics(self, openmetrics=False):
        status, headers, body = self.get(headers={"Accept": OPENMETRICS if openmetrics else "text/plain;version=0.0.4"})
        assert status == 200, f"/metrics answered {status}: {body[:200]!r}"
        kind = headers["Content-Type"]
        assert kind.startswith("application/openmetrics-text" if openmetrics else "text/plain"), kind
        return Metrics(body.decode(), openmetrics)

    def faults(self, cgroup=None, **labels):
        return self.metrics().faults(cgroup, **labels)


def run_faultd(*args, config=None, prefix=(), env=None, timeout=20):
    """Runs faultd to its end; `config` as for Daemon, put behind --config. Returns the CompletedProcess with text."""
    with tempfile.TemporaryDirectory(prefix="faultd-test-") as folder:
        os.chmod(folder, 0o755)
        argv = list(prefix) + [FAULTD]
        if config is not None:
            path = os.path.join(folder, "faultd.yaml")
            defaults = merge(TEST_DEFAULTS, {"control": {"socket": ""}})
            text = config if isinstance(config, (str, bytes)) else yaml.safe_dump(merge(defaults, config))
            with open(path, "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
            argv += ["--config", path]
        result = subprocess.run(
            argv + list(args), stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, **(env or {})}, timeout=timeout
        )
        result.stdout = result.stdout.decode(errors="replace").replace(folder + "/", "")
        result.stderr = result.stderr.decode(errors="replace").replace(folder + "/", "")
        return result


# ---- work to be counted ----


class Workload:
    """tests/live/workload.c in a cgroup, between its barriers.

    It starts in the cgroup, prepares and waits; .tids are its worker threads, if it has any. run() lets it do its work once, all of it between two barriers, and
    returns what it printed after "done" as integers: the number of operations it did, the growth of its own minor and
    major faults by getrusage, and what the scenario adds.
    """

    def __init__(self, cgroup, *args, timeout=120, pass_fd=None):
        """pass_fd: a descriptor that the program finds as number 9, for folders whose path is too long to name."""
        self.cgroup = cgroup
        self.pass_fd = pass_fd
        self.args = [str(a) for a in args]
        self.timeout = timeout

    def __enter__(self):
        argv = [need_built("workload")] + self.args
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.pass_fd is not None:
            argv = ["sh", "-c", f'exec 9<"/proc/$PPID/fd/{self.pass_fd}" && exec "$@"', "sh"] + argv
        self.process = self.cgroup.popen(argv, **pipes) if self.cgroup else subprocess.Popen(argv, **pipes)
        try:
            self.tids = self._expect(b"ready")
        except BaseException as e:
            self.__exit__(type(e))
            raise
        return self

    @property
    def pid(self):
        return self.process.pid

    def _expect(self, word):
        timer = threading.Timer(self.timeout, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        fields = line.split()
        if fields and fields[0] == b"skip":
            pytest.skip(line.decode().split(None, 1)[1].strip())
        assert fields and fields[0] == word, f"workload {self.args} said {line!r}, exit code {self.process.poll()}"
        return [int(f) for f in fields[1:]]

    def go(self):
        """Lets it begin; wait() then gets the result."""
        self.process.stdin.write(b"g")
        self.process.stdin.flush()

    def wait(self):
        return self._expect(b"done")

    def run(self):
        self.go()
        return self.wait()

    def __exit__(self, kind, *rest):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        assert kind or code == 0, f"workload {self.args} ended with {code}"


class PerfStat:
    """perf stat over page_fault_user and page_fault_kernel, off until told: somebody else's counter.

    target is a pid (with its threads and the children it makes) or a Cgroup (with its descendants, on all CPUs).

        with PerfStat(work.pid) as perf:
            with perf.counting():
                work.run()
        assert perf.user == ...
    """

    USER, KERNEL = "exceptions:page_fault_user", "exceptions:page_fault_kernel"

    def __init__(self, target, events=(USER, KERNEL)):
        need_perf()
        self.events = list(events)
        self.target = target

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="faultd-perf-")
        control, ack = os.path.join(self.folder, "control"), os.path.join(self.folder, "ack")
        os.mkfifo(control)
        os.mkfifo(ack)
        argv = ["perf", "stat", "-x", ";", "-D", "-1", "--control", f"fifo:{control},{ack}", "-o", f"{self.folder}/out"]
        if isinstance(self.target, Cgroup):
            argv += ["-a", "--for-each-cgroup", self.target.raw.decode().lstrip("/"), "-e", ",".join(self.events)]
        elif self.target is None:
            argv += ["-a", "-e", ",".join(self.events)]
        else:
            argv += ["-p", str(self.target), "-e", ",".join(self.events)]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.control = os.open(control, os.O_RDWR)
        self.ack = os.open(ack, os.O_RDWR)
        try:
            self._command("ping")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _command(self, word, timeout=20):
        os.write(self.control, word.encode() + b"\n")
        got = b""
        end = time.monotonic() + timeout
        os.set_blocking(self.ack, False)
        while b"ack" not in got:
            with contextlib.suppress(BlockingIOError):
                got += os.read(self.ack, 64)
            if self.process.poll() is not None:
                raise AssertionError("perf stat ended: " + self.process.stderr.read().decode())
            if time.monotonic() > end:
                raise AssertionError(f"perf stat does not answer to {word!r}")
            time.sleep(0.002)

    @contextlib.contextmanager
    def counting(self):
        self._command("enable")
        yield self
        self._command("disable")
        self.read()

    def read(self):
        """Ends perf and reads what it counted."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        self.counts = {}
        with open(f"{self.folder}/out") as f:
            for line in f:
                fields = line.strip().split(";")
                event = next((e for e in self.events if e in fields), None)
                if event:
                    assert fields[0].isdigit(), f"perf stat could not count: {line!r}"
                    self.counts[event] = int(fields[0])
        assert set(self.counts) == set(self.events), f"perf stat gave {self.counts}"

    @property
    def user(self):
        return self.counts[self.USER]

    @property
    def kernel(self):
        return self.counts[self.KERNEL]

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        os.close(self.control)
        os.close(self.ack)
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- BPF programs, to see that nothing stays behind ----


def programs_of(pid):
    """Ids of the BPF programs that a process holds."""
    ids = set()
    folder = f"/proc/{pid}/fdinfo"
    for fd in os.listdir(folder):
        with contextlib.suppress(OSError), open(os.path.join(folder, fd)) as f:
            ids.update(int(line.split()[1]) for line in f if line.startswith("prog_id:"))
    return ids


def loaded_programs():
    """Ids of all BPF programs of this kernel, by bpftool."""
    tool = shutil.which("bpftool") or shutil.which("/usr/sbin/bpftool")
    if not tool:
        pytest.skip("bpftool is not installed")
    out = subprocess.run([tool, "-j", "prog", "show"], capture_output=True, check=True).stdout
    return {p["id"] for p in json.loads(out or b"[]")}


def ownerless_programs():
    """Those that no process holds: pinned somewhere, or just about to go."""
    held = set()
    loaded = loaded_programs()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            held |= programs_of(pid)
    return loaded - held
