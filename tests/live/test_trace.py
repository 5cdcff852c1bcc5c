# SPDX-License-Identifier: Apache-2.0
"""faultctl trace against perf, nm and what the workload was told to do."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from harness import (
    EXIT_NOPERM,
    EXIT_OK,
    EXIT_UNSUPPORTED,
    EXIT_USAGE,
    Cgroup,
    PerfStat,
    Workload,
    loaded_programs,
    need_bpf,
    need_built,
    need_perf,
    need_program,
    need_root,
    programs_of,
    wait_until,
)

PAGE = os.sysconf("SC_PAGE_SIZE")
SUM = re.compile(r"(\d+) shown, (\d+) left out by --rate (\d+), (\d+) lost")
LINE = re.compile(
    r"^ *(?P<comm>.*?) +(?P<pid>\d+)(/(?P<tid>\d+))? \[(?P<cpu>\d+)\] +(?P<time>\d+\.\d{6}): "
    r"(?P<event>page_fault_user|page_fault_kernel|bad_access)(?: (?P<signal>SIG\w+) code=(?P<code>\w+))?"
    r"(?: address=(?P<address>0x[0-9a-f]+))? ip=(?P<ip>0x[0-9a-f]+)(?: outcome=(?P<outcome>\w+))?"
    r"(?: error_code=(?P<error_code>0x[0-9a-f]+) \((?P<meaning>[^)]*)\)(?: (?P<details>[A-Z0-9_|]+))?)? (?P<place>.*)$"
)

pytestmark = pytest.mark.usefixtures("bpf")


@pytest.fixture(scope="module")
def bpf():
    need_bpf()


class Trace:
    """faultctl trace as a child. It is attached when __enter__ returns; stop() gives its lines, parsed."""

    def __init__(self, *args, read=True, prefix=(), expect=EXIT_OK):
        self.argv = [*prefix, need_built("faultctl"), "trace", *map(str, args)]
        self.json = "--json" in args
        self.read = read
        self.expect = expect
        self.raw, self.errors = [], []

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.threads = [threading.Thread(target=self._collect, args=(self.process.stderr, self.errors))]
        if self.read:
            self.threads.append(threading.Thread(target=self._collect, args=(self.process.stdout, self.raw)))
        for thread in self.threads:
            thread.start()
        try:
            wait_until(lambda: self.said("tracing,") or self.process.poll() is not None, what="the start of the trace")
            assert self.process.poll() is None, self.stderr
        except BaseException as e:
            self.__exit__(type(e))
            raise
        return self

    @staticmethod
    def _collect(stream, lines):
        with contextlib.suppress(ValueError):
            for line in stream:
                lines.append(line)

    def start_reading(self):
        self.threads.append(threading.Thread(target=self._collect, args=(self.process.stdout, self.raw)))
        self.threads[-1].start()

    @property
    def stderr(self):
        return b"".join(self.errors).decode()

    def said(self, text):
        return text in self.stderr

    def wait(self, timeout=20):
        code = self.process.wait(timeout)
        for thread in self.threads:
            thread.join()
        assert code == self.expect, self.stderr
        return self.lines

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    @property
    def lines(self):
        if self.json:
            return [json.loads(line) for line in self.raw]
        parsed = [LINE.match(line.decode()) for line in self.raw]
        assert all(parsed), [raw for raw, good in zip(self.raw, parsed) if not good]
        return [m.groupdict() for m in parsed]

    @property
    def sums(self):
        """(shown, left out, lost)"""
        found = SUM.search(self.stderr)
        assert found, self.stderr
        return int(found[1]), int(found[2]), int(found[4])

    def __exit__(self, kind, *rest):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Program:
    """A copy of the workload under another name, which becomes its command name."""

    def __init__(self, folder, name, *args):
        self.path = os.path.join(os.fsencode(folder), name)
        shutil.copy(need_built("workload"), self.path)
        self.argv = [self.path, *args]

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline().startswith(b"ready")
        return self

    def run(self):
        self.process.stdin.write(b"g")
        self.process.stdin.flush()
        assert self.process.stdout.readline().startswith(b"done")

    def __exit__(self, *exc):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


def run_trace(*args, prefix=()):
    return subprocess.run(
        [*prefix, need_built("faultctl"), "trace", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
    )


def addresses(lines):
    return [int(line["address"], 16) for line in lines]


def text_of(pid):
    """(start, end, offset) of the executable mapping of the process' own program."""
    exe = os.readlink(f"/proc/{pid}/exe")
    with open(f"/proc/{pid}/maps") as f:
        for line in f:
            fields = line.split(None, 5)
            if "x" in fields[1] and fields[5].strip() == exe:
                start, end = (int(x, 16) for x in fields[0].split("-"))
                return start, end, int(fields[2], 16)
    raise AssertionError(f"no text of {exe}")


def functions_of(path):
    """[(first, last, name)] by nm, as addresses in the file's own terms."""
    out = subprocess.run(["nm", "-S", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    fields = [line.split() for line in out.splitlines()]
    return [(int(f[0], 16), int(f[0], 16) + int(f[1], 16), f[3]) for f in fields if len(f) == 4 and f[2] in "tT"]


SIXTEEN = [0xCAFE0000 + i * PAGE for i in range(16)]


# ---- what a line says ----


def test_sixteen_writes_are_sixteen_lines(cgroup):
    need_program("nm", "binutils")
    with Workload(cgroup, "fixed") as work, Trace("--pid", work.pid) as trace:
        start, end, offset = text_of(work.pid)
        before = time.clock_gettime(time.CLOCK_MONOTONIC)
        work.run()
        after = time.clock_gettime(time.CLOCK_MONOTONIC)
        lines = trace.stop()
    assert addresses(lines) == SIXTEEN
    for line in lines:
        assert (line["comm"], line["pid"], line["tid"]) == ("workload", str(work.pid), None)
        assert line["event"] == "page_fault_user"
        assert start <= int(line["ip"], 16) < end
        # The USER and WRITE bits, and no PROT, as the Intel manual numbers them.
        assert (line["error_code"], line["meaning"], line["details"]) == ("0x6", "user write, missing", "WRITE|USER")
        assert before - 1e-6 <= float(line["time"]) <= after + 1e-6
    assert [float(line["time"]) for line in lines] == sorted(float(line["time"]) for line in lines)
    assert trace.sums == (16, 0, 0)
    # The function by nm. Text of a position-independent program lies in the file where it is linked to.
    name, distance, path = re.fullmatch(r"(\w+)\+(0x[0-9a-f]+) \((.*)\)", lines[0]["place"]).groups()
    at = int(lines[0]["ip"], 16) - start + offset
    first, _, wanted = next(f for f in functions_of(need_built("workload")) if f[0] <= at < f[1])
    assert (name, int(distance, 16), path) == (wanted, at - first, need_built("workload"))


def test_each_line_agrees_with_perf(cgroup, tmp_path):
    need_perf()
    data = tmp_path / "data"
    with Workload(cgroup, "fixed") as work, Trace("--pid", work.pid, "--user", "--json") as trace:
        argv = ["perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-e", "exceptions:page_fault_user", "-o", data, "-p", str(work.pid)]
        control, ack = tmp_path / "control", tmp_path / "ack"
        os.mkfifo(control)
        os.mkfifo(ack)
        perf = subprocess.Popen(argv + ["-D", "-1", "--control", f"fifo:{control},{ack}"], stderr=subprocess.DEVNULL)
        with open(control, "w") as commands, open(ack) as answers:
            commands.write("enable\n")
            commands.flush()
            assert answers.readline().strip("\0\n") == "ack"
            work.run()
            perf.send_signal(signal.SIGINT)
            perf.wait(20)
        lines = trace.stop()
    script = subprocess.run(
        ["perf", "script", "-i", data, "-F", "tid,cpu,time,event,trace", "--ns"], capture_output=True, text=True, check=True
    ).stdout
    wanted = re.findall(r"(\d+) \[(\d+)\] +([\d.]+): \S*page_fault_user: address=(\S+) ip=(\S+) error_code=(\S+)", script)
    assert len(wanted) == len(lines) == 16
    for line, (tid, cpu, at, *numbers) in zip(lines, wanted):
        assert (line["tid"], line["cpu"]) == (int(tid), int(cpu))
        assert abs(line["time"] - float(at)) < 0.05
        # Some versions of perf print the f of "%pf" behind the number.
        for key, number in zip(("address", "ip", "error_code"), numbers):
            assert number in (line[key], line[key] + "f")


def test_kernel_faults_are_named_by_kallsyms(cgroup):
    with open("/proc/kallsyms") as f:
        names = {line.split()[2]: int(line.split()[0], 16) for line in f if line.split()[1] in "tTwW"}
    if not any(names.values()):
        pytest.skip("this kernel hides its addresses (kernel.kptr_restrict)")
    with Workload(cgroup, "readinto", 16) as work, Trace("--pid", work.pid) as trace:
        work.run()
        lines = trace.stop()
    assert [line["event"] for line in lines] == ["page_fault_kernel"] * 16
    for line in lines:
        assert line["meaning"] == "kernel write, missing"
        name, distance = re.match(r"(\S+)\+(0x[0-9a-f]+) \(\[", line["place"]).groups()
        assert names[name] + int(distance, 16) == int(line["ip"], 16)


def test_hidden_kernel_symbols_are_said(cgroup, tmp_path):
    zeros = tmp_path / "kallsyms"
    zeros.write_text("0000000000000000 T _stext\n")
    prefix = ["unshare", "--mount", "sh", "-c", f'mount --bind {zeros} /proc/kallsyms && exec "$@"', "sh"]
    with Workload(cgroup, "readinto", 16) as work, Trace("--pid", work.pid, prefix=prefix) as trace:
        work.run()
        lines = trace.stop()
    assert {line["place"] for line in lines} == {"[kernel]"}
    assert trace.stderr.count("kptr_restrict") == 1


def test_a_thread_is_named_beside_its_process(cgroup):
    with Workload(cgroup, "threads", 8) as work, Trace("--pid", work.pid, "--json") as trace:
        work.run()
        lines = trace.stop()
    assert {line["pid"] for line in lines} == {work.pid}
    faults = {tid: sum(line["tid"] == tid for line in lines) for tid in work.tids}
    assert set(faults.values()) == {8}


def test_command_names_cannot_drive_the_terminal(tmp_path):
    name = b"w\x1b[31m\n\xff"
    with Program(tmp_path, name, "fixed") as work:
        with Trace("--pid", work.process.pid) as text, Trace("--pid", work.process.pid, "--json") as objects:
            work.run()
            lines, parsed = text.stop(), objects.stop()
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f-\xff]", b"".join(text.raw))
    assert [line["comm"] for line in lines] == [r"w\x1b[31m\x0a\xff"] * 16
    assert [line["comm"] for line in parsed] == ["w\x1b[31m\n\ufffd"] * 16


# ---- filters ----


def test_the_pid_filter_excludes_the_rest(cgroup):
    with Workload(cgroup, "fixed") as work, Workload(cgroup, "fixed") as other:
        with Trace("--pid", work.pid) as trace, Trace("--comm", "workload", "--cgroup", cgroup.path) as all_of_them:
            other.run()
            work.run()
            other.run()
            lines, both = trace.stop(), all_of_them.stop()
    assert {line["pid"] for line in lines} == {str(work.pid)} and len(lines) == 16
    assert len(both) == 48  # the other one was there to be seen


def test_the_comm_filter_excludes_the_rest(tmp_path):
    with Program(tmp_path, b"a-name-of-more-than-15", "fixed") as work, Program(tmp_path, b"a-name-of-mor", "fixed") as other:
        with Trace("--comm", "a-name-of-more-than-15") as trace:
            other.run()
            work.run()
            lines = trace.stop()
    assert [(line["comm"], line["pid"]) for line in lines] == [("a-name-of-more-", str(work.process.pid))] * 16


def test_the_cgroup_filter_excludes_the_rest(cgroup):
    with cgroup.child("in.service") as inside, cgroup.child("out.service") as outside, inside.child("deeper") as deeper:
        with Workload(inside, "fixed") as work, Workload(outside, "fixed") as other, Workload(deeper, "fixed") as below:
            with Trace("--cgroup", cgroup.path + "/in.*") as trace, Trace("--cgroup", f"{cgroup.path}/in.*/**") as tree:
                for each in (other, work, below, other):
                    each.run()
                lines, all_lines = trace.stop(), tree.stop()
    assert {line["pid"] for line in lines} == {str(work.pid)} and len(lines) == 16
    assert all(line["place"].endswith(f" cgroup={cgroup.path}/in.service") for line in lines)
    assert {line["pid"] for line in all_lines} == {str(work.pid), str(below.pid)} and len(all_lines) == 32


def test_a_cgroup_born_later_is_seen_from_its_first_fault(cgroup):
    """No walk has met it when its first process faults."""
    with Trace("--cgroup", cgroup.path + "/late*", "--json", "--rate", 100000) as trace:
        with cgroup.child("late") as late, cgroup.child("other") as other:
            with Workload(late, "fixed") as work, Workload(other, "fixed") as outside:
                outside.run()
                work.run()
                lines = trace.stop()
    assert {line["pid"] for line in lines} == {work.pid}
    assert {line["cgroup"] for line in lines} == {late.path}
    assert addresses(lines)[-16:] == SIXTEEN
    assert len(lines) > 100  # exec and the dynamic linker


def test_user_and_kernel_faults_apart(cgroup):
    with Workload(cgroup, "readinto", 16) as into, Workload(cgroup, "fixed") as fixed:
        with Trace("--cgroup", cgroup.path, "--user") as user, Trace("--cgroup", cgroup.path, "--kernel") as kernel:
            into.run()
            fixed.run()
            user_lines, kernel_lines = user.stop(), kernel.stop()
    assert {line["event"] for line in user_lines} == {"page_fault_user"} and len(user_lines) == 16
    assert {line["event"] for line in kernel_lines} == {"page_fault_kernel"} and len(kernel_lines) == 16


# ---- bounds ----


@pytest.mark.parametrize("rate", [100, 500])
def test_a_flood_is_bounded_and_all_of_it_accounted_for(cgroup, rate):
    with Workload(cgroup, "write", 200000) as work, Trace("--pid", work.pid, "--rate", rate) as trace:
        with PerfStat(work.pid) as perf:
            began = time.monotonic()
            with perf.counting():
                work.run()
        lines = trace.stop()
        took = time.monotonic() - began
    shown, left_out, lost = trace.sums
    assert perf.user + perf.kernel == shown + left_out + lost >= 200000
    assert shown == len(lines)
    # A second's worth may be saved up.
    assert rate <= shown <= rate * (took + 1) * os.cpu_count()
    assert lost == 0


def test_what_a_slow_reader_loses_is_counted(cgroup):
    with Workload(cgroup, "write", 200000) as work, Trace("--pid", work.pid, "--rate", 100000, read=False) as trace:
        with PerfStat(work.pid) as perf:
            with perf.counting():
                work.run()
        wait_until(lambda: trace.said("not shown in the last second"), what="word of the loss")
        trace.start_reading()
        lines = trace.stop()
    shown, left_out, lost = trace.sums
    assert perf.user + perf.kernel == shown + left_out + lost
    assert shown == len(lines) > 0
    assert lost > 0


def test_it_ends_after_n_lines(cgroup):
    with Workload(cgroup, "write", 1000) as work, Trace("--pid", work.pid, "-n", 5, "--rate", 1000) as trace:
        work.run()
        lines = trace.wait()
    assert len(lines) == 5
    assert trace.sums[0] == 5


def test_it_ends_with_its_process(cgroup):
    with Workload(cgroup, "fixed") as work:
        trace = Trace("--pid", work.pid, "--user").__enter__()
        work.run()
    with contextlib.ExitStack() as stack:
        stack.push(trace)
        lines = trace.wait()
    assert addresses(lines)[:16] == SIXTEEN


def test_a_reader_that_goes_ends_it_quietly(cgroup):
    """Even if nothing more happens."""
    with Workload(cgroup, "fixed") as work, Trace("--pid", work.pid, read=False) as trace:
        work.run()
        assert b"0xcafe0000" in trace.process.stdout.readline()
        trace.process.stdout.close()
        trace.wait(10)
    assert len(trace.errors) == 1  # that it began


def test_a_reader_that_does_not_read_cannot_hold_it(cgroup):
    with Workload(cgroup, "write", 20000) as work, Trace("--pid", work.pid, "--rate", 100000, read=False) as trace:
        work.run()
        wait_until(lambda: trace.said("not shown"), what="a full pipe")
        trace.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert trace.process.poll() is None  # it waits for the reader
        trace.process.send_signal(signal.SIGINT)
        trace.wait(10)


def test_nothing_stays_behind():
    with Trace("--comm", "no such command") as trace:
        ids = programs_of(trace.process.pid)
        assert len(ids) == 4
        trace.stop()
    wait_until(lambda: not ids & loaded_programs(), what="the end of the programs")


def test_its_own_faults_are_not_shown():
    with Trace("-n", 200, "--rate", 100000) as trace:
        for _ in range(20):
            subprocess.run(["/bin/true"])
        lines = trace.wait()
    assert "faultctl" not in {line["comm"] for line in lines}


# ---- bad accesses ----

NULL_WRITE = "import ctypes; ctypes.memset(0, 1, 1)"


def crash(cgroup, code):
    return cgroup.popen([sys.executable, "-c", "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); " + code])


def test_a_fatal_null_write(cgroup):
    with Trace("--cgroup", cgroup.path, "--bad") as trace:
        child = crash(cgroup, NULL_WRITE)
        assert child.wait() == -signal.SIGSEGV
        (line,) = trace.stop()
    assert line["pid"] == str(child.pid)
    assert (line["event"], line["signal"], line["code"], line["outcome"]) == ("bad_access", "SIGSEGV", "maperr", "fatal")
    assert (line["address"], line["error_code"], line["meaning"]) == ("0x0", "0x6", "user write, missing")
    # memset(3), whether the process was still there to be looked at or not.
    assert "libc" in line["place"]


def test_a_signal_that_was_sent_has_no_address(cgroup):
    with Trace("--cgroup", cgroup.path, "--bad") as trace:
        assert crash(cgroup, "import os; os.kill(os.getpid(), 11)").wait() == -signal.SIGSEGV
        (line,) = trace.stop()
    assert (line["signal"], line["code"], line["outcome"]) == ("SIGSEGV", "sent", "fatal")
    assert line["address"] is None and line["error_code"] is None


def test_a_signal_that_is_ignored_is_no_bad_access(cgroup):
    """A debugger gets to see even those, and lets this one pass: it is delivered to nobody."""
    traceme, cont = 0, 7
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    ready, note = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_IGN)
        libc.ptrace(traceme, 0, 0, 0)
        os.write(note, b"x")
        while True:
            time.sleep(1)
    try:
        os.read(ready, 1)
        with Trace("--pid", pid, "--bad") as trace:
            os.kill(pid, signal.SIGSEGV)
            _, status = os.waitpid(pid, 0)
            assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGSEGV
            assert libc.ptrace(cont, pid, 0, signal.SIGSEGV) == 0
            os.kill(pid, signal.SIGUSR1)  # comes after it
            _, status = os.waitpid(pid, 0)
            assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGUSR1
            assert trace.stop() == []
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(note)


def test_handled_ones_are_told_apart(cgroup):
    with Workload(cgroup, "denied", 10) as work, Trace("--pid", work.pid, "--bad") as trace:
        work.run()
        lines = trace.stop()
    assert len(lines) == 10
    for line in lines:
        assert (line["signal"], line["code"], line["outcome"]) == ("SIGSEGV", "accerr", "handled")
        assert (line["error_code"], line["meaning"]) == ("0x7", "user write, protection")
    assert len(set(addresses(lines))) == 1


def test_faults_and_what_came_of_them_in_order(cgroup):
    with Workload(cgroup, "denied", 10) as work, Trace("--pid", work.pid) as trace:
        work.run()
        lines = trace.stop()
    assert [line["event"] for line in lines] == ["page_fault_user", "bad_access"] * 10
    assert len(set(addresses(lines))) == 1
    assert len({line["ip"] for line in lines}) == 1


def test_a_bus_error_past_the_end_of_a_file(cgroup):
    code = "import mmap, os; f = os.memfd_create('x'); os.ftruncate(f, 4096); m = mmap.mmap(f, 4096); os.ftruncate(f, 0); m[0]"
    with Trace("--cgroup", cgroup.path, "--bad", "--json") as trace:
        assert crash(cgroup, code).wait() == -signal.SIGBUS
        (line,) = trace.stop()
    assert (line["signal"], line["code"], line["outcome"]) == ("SIGBUS", "adrerr", "fatal")
    assert int(line["address"], 16) % PAGE == 0


def test_a_flood_of_faults_does_not_crowd_bad_accesses_out(cgroup):
    with Workload(cgroup, "write", 100000) as flood, Workload(cgroup, "denied", 5) as work:
        cpu = min(os.sched_getaffinity(0))
        for each in (flood, work):
            os.sched_setaffinity(each.pid, {cpu})
        with Trace("--cgroup", cgroup.path, "--rate", 5) as trace:
            flood.run()
            work.run()
            lines = trace.stop()
    assert sum(line["event"] == "bad_access" for line in lines) == 5
    assert trace.sums[1] > 90000


# ---- what cannot be done ----


@pytest.mark.parametrize(
    "args, wanted",
    [
        (["--pid", "0"], "number of a process"),
        (["--pid", "x"], "number of a process"),
        (["--rate", "0"], "1 to 100000"),
        (["--rate", "100001"], "1 to 100000"),
        (["--rate", "-1"], "1 to 100000"),
        (["-n", "0"], "from 1"),
        (["-n", "1x"], "from 1"),
        (["--comm", ""], "command name"),
        (["--cgroup", "a"], "begin with /"),
        (["--cgroup", "/[a"], "["),
        (["--user", "--kernel"], "--user"),
        (["--bad", "--kernel"], "--bad"),
        (["word"], "options only"),
        (["--nonsense"], "--help"),
    ],
)
def test_wrong_options_are_explained(args, wanted):
    result = run_trace(*args)
    assert result.returncode == EXIT_USAGE
    assert wanted in result.stderr and not result.stdout


def test_help_tells_of_kernel_addresses():
    result = run_trace("--help")
    assert result.returncode == EXIT_OK
    assert "Addresses of the kernel" in result.stdout


def test_a_process_that_is_not_there():
    child = subprocess.Popen(["/bin/true"])
    child.wait()
    result = run_trace("--pid", str(child.pid))
    assert result.returncode == 1 and "no such process" in result.stderr


def test_without_privileges_it_says_what_is_needed():
    need_program("setpriv", "util-linux")
    result = run_trace(prefix=["setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all"])
    assert result.returncode == EXIT_NOPERM
    assert "CAP_BPF and CAP_PERFMON" in result.stderr


def in_other_kernel(tmp_path, btf):
    """A prefix that lets the program see another BTF: what it would see on another kernel."""
    need_root()
    path = tmp_path / "btf"
    path.write_bytes(btf)
    return ["unshare", "--mount", "sh", "-c", f'mount --bind {path} /sys/kernel/btf/vmlinux && exec "$@"', "sh"]


def without_tracepoints(*names):
    with open("/sys/kernel/btf/vmlinux", "rb") as f:
        btf = f.read()
    for name in names:
        assert b"btf_trace_" + name in btf
        btf = btf.replace(b"btf_trace_" + name, b"btf_trace_" + b"x" * len(name))
    return btf


def test_without_type_information_it_says_so(tmp_path):
    result = run_trace(prefix=in_other_kernel(tmp_path, b""))
    assert result.returncode == EXIT_UNSUPPORTED
    assert "CONFIG_DEBUG_INFO_BTF" in result.stderr


def test_without_page_fault_tracepoints_bad_accesses_remain(cgroup, tmp_path):
    prefix = in_other_kernel(tmp_path, without_tracepoints(b"page_fault_user", b"page_fault_kernel"))
    with Workload(cgroup, "denied", 5) as work:
        with Trace("--pid", work.pid, prefix=prefix) as trace, Trace("--pid", work.pid, "--bad", prefix=prefix) as bad:
            work.run()
            lines, same = trace.stop(), bad.stop()
    assert [line["event"] for line in lines] == ["bad_access"] * 5
    assert [line["event"] for line in same] == ["bad_access"] * 5
    assert trace.stderr.count("only bad accesses are shown") == 1
    assert not bad.said("page_fault")  # nobody asked for them
    result = run_trace("--kernel", prefix=prefix)
    assert result.returncode == EXIT_UNSUPPORTED and "page_fault_kernel" in result.stderr


def test_in_another_pid_namespace_it_refuses():
    need_program("unshare", "util-linux")
    result = run_trace(prefix=["unshare", "--pid", "--fork", "--mount-proc"])
    assert result.returncode == EXIT_UNSUPPORTED
    assert "pid namespace" in result.stderr


def test_a_glob_that_matches_nothing_yet_is_said():
    with Trace("--cgroup", "/no/such/cgroup") as trace:
        assert trace.said("no cgroup matches /no/such/cgroup yet")
        assert trace.stop() == []


def verdicts_of(pid):
    """The cgroup ids in the program's table, by bpftool."""
    tool = shutil.which("bpftool") or shutil.which("/usr/sbin/bpftool")
    if not tool:
        pytest.skip("bpftool is not installed")
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        with open(f"/proc/{pid}/fdinfo/{fd}") as f:
            found = re.search(r"^map_id:\s*(\d+)", f.read(), re.M)
        if found:
            show = subprocess.run([tool, "-j", "map", "show", "id", found[1]], capture_output=True, check=True).stdout
            if json.loads(show)["name"] == "trace_cgroups":
                dump = subprocess.run([tool, "-j", "map", "dump", "id", found[1]], capture_output=True, check=True).stdout
                return {int.from_bytes(bytes(int(x, 16) for x in entry["key"]), sys.byteorder) for entry in json.loads(dump)}
    raise AssertionError("no table of cgroups")


def test_cgroups_come_and_go_in_the_programs_table(cgroup):
    with Trace("--cgroup", cgroup.path + "/**") as trace:
        with cgroup.child() as child:
            number = os.fstat(child.fd).st_ino
            wait_until(lambda: number in verdicts_of(trace.process.pid), what="a verdict on a new cgroup")
        wait_until(lambda: number not in verdicts_of(trace.process.pid), what="the end of a verdict")


def test_records_of_cgroups_that_were_gone_are_counted(cgroup):
    """The reader holds the trace up, so that it looks at the records of a cgroup when that is gone."""
    with Workload(cgroup, "write", 800) as work, PerfStat(cgroup) as perf:
        with Trace("--cgroup", cgroup.path + "/**", "--rate", 100000, read=False) as trace:
            with perf.counting():
                work.run()
                with cgroup.child() as child:
                    child.popen(["/bin/true"]).wait()
                    number = os.fstat(child.fd).st_ino
            wait_until(lambda: number not in verdicts_of(trace.process.pid), what="the end of a verdict")
            trace.start_reading()
            lines = trace.stop()
    found = re.search(r", (\d+) of cgroups that were gone", trace.stderr)
    assert found, trace.stderr
    shown, left_out, lost = trace.sums
    assert shown == len(lines)
    assert shown + int(found[1]) + left_out + lost == perf.user + perf.kernel


def test_without_standard_output_it_does_not_begin():
    result = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", need_built("faultctl"), "trace"], capture_output=True, text=True)
    assert result.returncode == 1 and "standard output is closed" in result.stderr


def test_a_dead_cgroup_is_no_crash(cgroup):
    with Trace("--cgroup", "/**", "--json", "-n", 1000, "--rate", 100000) as trace:
        for i in range(20):
            with Cgroup(f"short-{i}", parent=cgroup) as short:
                short.popen(["/bin/true"]).wait()
        trace.wait()
