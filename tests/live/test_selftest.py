# SPDX-License-Identifier: Apache-2.0
"""faultctl selftest: what it finds on this kernel, and that it finds what is wrong.

The daemon's side is played by a socket that gives scripted answers, so that wrong counts can be shown; only the last test asks a real
daemon.
"""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import urllib.parse

import pytest
from harness import EXIT_OK, EXIT_OSERR, EXIT_UNSUPPORTED, EXIT_USAGE, Daemon, need_bpf, need_built, need_root, need_v2, v2_mount, wait_until

FAILED = 1
SIGNALS = "signals SIGSEGV SIGBUS SIGILL SIGFPE\n"
NULL_READ = "SIGSEGV maperr handled 1\nSIGSEGV maperr fatal 1\n"


def faultctl(*args, prefix=(), timeout=120, **options):
    argv = list(prefix) + [need_built("faultctl"), "selftest", *args]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, **options)


def rows_of(result):
    return {row["case"]: row for row in map(json.loads, result.stdout.splitlines())}


def selftest_cgroups():
    return [d for d in os.listdir(v2_mount()) if d.startswith("faultd-selftest-")] if v2_mount() else []


def left_behind():
    """Of self-tests that are over; others may be running on this host."""
    return {d for d in selftest_cgroups() if not os.path.exists("/proc/" + d.split("-")[2])}


class Answers:
    """A socket that answers the verb `bad` by a function of the cgroup and of how often it was asked before: (text, or None to hang
    up). Remembers the questions."""

    def __init__(self, folder, answer):
        self.path = os.path.join(folder, "control.sock")
        self.answer = answer
        self.asked = []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                line = peer.makefile("r").readline()
                match = re.fullmatch(r"bad cgroup=(\S+)\n", line)
                cgroup = urllib.parse.unquote(match[1]) if match else None
                before = self.asked.count(cgroup)
                self.asked.append(cgroup)
                text = self.answer(cgroup, before) if match else "error not understood\n"
                if text is not None:
                    peer.sendall(text.encode())

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.socket.close()


def counting(after, before="", head="ok\ncounted\n", signals=SIGNALS):
    """Answers of a daemon that has counted `after` when it is asked again about a case's cgroup."""

    def answer(cgroup, asked):
        if "faultd-selftest-" not in cgroup or asked == 0:
            return head + signals + before
        return head + signals + after

    return answer


@pytest.fixture
def folder(tmp_path):
    need_root()
    need_v2()
    before = left_behind()
    yield str(tmp_path)
    assert left_behind() <= before


def run_against(folder, answer, *cases, **options):
    with Answers(folder, answer) as answers:
        argv = [arg for case in cases for arg in ("--case", case)]
        result = faultctl("--socket", answers.path, "--json", *argv, **options)
        result.asked = answers.asked
    return result


# ---- the kernel's side ----


def test_every_case_on_this_kernel():
    result = faultctl("--no-daemon", "--json")
    rows = rows_of(result)
    listed = rows_of(faultctl("--list", "--json"))
    assert set(rows) - {"bad-access-acceleration"} == set(listed)
    wrong = {name: row for name, row in rows.items() if row["result"] not in ("pass", "skipped", "info")}
    assert not wrong, result.stdout
    assert all(row["text"] for row in rows.values() if row["result"] == "skipped")
    # Portable ones, which no machine may skip.
    for name in ("null-read", "read-only", "prot-none", "past-eof", "stack-overflow-altstack", "barrier", "two-threads", "raise"):
        assert rows[name]["result"] == "pass", rows[name]
    assert result.returncode == EXIT_OK
    assert not result.stderr


def test_the_table_ends_with_the_sum():
    text = faultctl("--no-daemon", "--case", "null-read", "--case", "memory-tag", "--case", "shadow-stack").stdout
    lines = text.splitlines()
    skipped = text.count(" skipped: ")
    assert re.search(r"^null-read +SIGSEGV maperr handled 1, fatal 1 +pass \(kernel only\)$", text, re.M)
    assert lines[-1] == f"{3 - skipped} passed, 0 failed, {skipped} skipped; the daemon was not asked"


def test_no_core_is_left(tmp_path):
    def allow_cores():
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    result = faultctl("--no-daemon", preexec_fn=allow_cores, cwd=tmp_path)
    assert result.returncode == EXIT_OK, result.stdout
    assert os.listdir(tmp_path) == []


def test_signals_that_the_caller_ignores_or_blocks():
    def meddle():
        for signo in (signal.SIGSEGV, signal.SIGBUS, signal.SIGCHLD):
            signal.signal(signo, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGSEGV, signal.SIGBUS, signal.SIGUSR1])

    result = faultctl("--no-daemon", "--json", preexec_fn=meddle)
    assert result.returncode == EXIT_OK, result.stdout


def test_acceleration_is_told_by_locks():
    need_root()
    text = rows_of(faultctl("--no-daemon", "--json"))["bad-access-acceleration"]["text"]
    if text.startswith("cannot be told: "):
        pytest.skip(text)
    denied, n, unmapped = map(int, re.search(r": .* (\d+) times for (\d+) .* and (\d+) times", text).groups())
    assert n == 1000 and 900 <= unmapped <= 1100
    release = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
    if os.uname().machine in ("x86_64", "aarch64"):
        # Merged for 6.10. Older kernels of distributions may have it, too.
        assert text.startswith("yes: ") == (denied < 100)
        assert release < (6, 10) or text.startswith("yes: ")


# ---- the daemon's side ----


def test_right_counts_pass(folder):
    result = run_against(folder, counting(NULL_READ), "null-read")
    row = rows_of(result)["null-read"]
    assert (row["result"], row["daemon"], row["text"]) == ("pass", True, "")
    assert row["expected"] == {"signal": "SIGSEGV", "code": "maperr", "handled": 1, "fatal": 1}
    assert result.returncode == EXIT_OK
    # The caller's cgroup to see who answers, then before and after in the case's own.
    assert result.asked[1:] == [row["cgroup"]] * 2
    assert re.search(r"/faultd-selftest-\d+-null-read$", row["cgroup"])


def test_only_growth_counts(folder):
    before = "SIGSEGV maperr handled 70\nSIGBUS adrerr fatal 3\n"
    after = "SIGBUS adrerr fatal 3\nSIGSEGV maperr fatal 1\nSIGSEGV maperr handled 71\n"
    assert run_against(folder, counting(after, before), "null-read").returncode == EXIT_OK


@pytest.mark.parametrize(
    "after, said",
    [
        ("", "maperr handled 0 instead of 1, SIGSEGV maperr fatal 0 instead of 1"),
        ("SIGSEGV maperr handled 1\n", "SIGSEGV maperr fatal 0 instead of 1"),
        ("SIGSEGV maperr handled 2\nSIGSEGV maperr fatal 1\n", "SIGSEGV maperr handled 2 instead of 1"),
        ("SIGSEGV maperr handled 1\nSIGSEGV maperr fatal 2\n", "SIGSEGV maperr fatal 2 instead of 1"),
        ("SIGSEGV accerr handled 1\nSIGSEGV maperr fatal 1\n", "SIGSEGV accerr handled 1 instead of 0"),
        ("SIGBUS maperr handled 1\nSIGSEGV maperr fatal 1\n", "SIGBUS maperr handled 1 instead of 0"),
        (NULL_READ + "SIGSEGV kernel fatal 1\n", "SIGSEGV kernel fatal 1 instead of 0"),
        (NULL_READ + "SIGABRT abort fatal 5\n", "SIGABRT abort fatal 5 instead of 0"),
    ],
)
def test_wrong_counts_fail(folder, after, said):
    result = run_against(folder, counting(after), "null-read")
    row = rows_of(result)["null-read"]
    assert row["result"] == "fail" and said in row["text"], row
    assert result.returncode == FAILED


def test_counts_that_vanish_fail(folder):
    result = run_against(folder, counting(NULL_READ, before="SIGBUS adrerr fatal 3\n"), "null-read")
    assert "SIGBUS adrerr fatal -3 instead of 0" in rows_of(result)["null-read"]["text"]
    assert result.returncode == FAILED


def test_a_case_that_must_not_count(folder):
    assert run_against(folder, counting(""), "efault", "sent-ignored").returncode == EXIT_OK
    os.unlink(os.path.join(folder, "control.sock"))
    result = run_against(folder, counting("SIGSEGV sent fatal 1\n"), "efault", "sent-ignored")
    assert {row["result"] for row in rows_of(result).values()} == {"fail"}


def test_counted_under_the_code_that_the_process_was_told(folder):
    """A signal that claims to be an access counts as sent."""
    assert run_against(folder, counting("SIGSEGV sent handled 1\nSIGSEGV sent fatal 1\n"), "forged-thread").returncode == EXIT_OK
    os.unlink(os.path.join(folder, "control.sock"))
    assert run_against(folder, counting(NULL_READ), "forged-thread").returncode == FAILED


def test_a_cgroup_without_counters_of_its_own(folder):
    result = run_against(folder, counting("", head="ok\nother\n"), "null-read")
    row = rows_of(result)["null-read"]
    assert row["result"] == "skipped" and "'other'" in row["text"] and row["cgroup"] in row["text"]
    # Nothing was checked: that is no success.
    assert result.returncode == EXIT_UNSUPPORTED and "nothing was checked" in result.stderr


def test_a_cgroup_that_gets_counters_with_its_first_fault(folder):
    def answer(cgroup, asked):
        return counting(NULL_READ)(cgroup, asked) if asked else "ok\nother\n" + SIGNALS

    assert run_against(folder, answer, "null-read").returncode == EXIT_OK


def test_counts_that_come_a_little_later(folder):
    def answer(cgroup, asked):
        return counting(NULL_READ if asked > 3 else "")(cgroup, asked)

    assert run_against(folder, answer, "null-read").returncode == EXIT_OK


@pytest.mark.parametrize(
    "signals, said",
    [
        ("signals SIGSEGV SIGBUS SIGILL SIGFPES\n", "does not count SIGFPE"),
        ("", "does not say whether it counts SIGFPE"),
    ],
)
def test_signals_that_the_daemon_does_not_count(folder, signals, said):
    result = run_against(folder, counting("", signals=signals), "divide")
    row = rows_of(result)["divide"]
    if "no fault on this architecture" in row["text"]:
        pytest.skip(row["text"])
    assert row["result"] == "skipped" and said in row["text"], row


def test_a_daemon_that_counts_no_bad_accesses(folder):
    result = run_against(folder, counting("", signals="signals\n"), "null-read")
    assert result.returncode == EXIT_UNSUPPORTED and "counts no bad accesses" in result.stderr
    assert not result.stdout


# ---- what may go wrong ----


def test_no_daemon(tmp_path):
    result = faultctl("--socket", str(tmp_path / "nothing"))
    assert result.returncode == EXIT_OSERR and "--no-daemon" in result.stderr
    assert not result.stdout


@pytest.mark.parametrize(
    "body",
    [
        "",
        "counted",
        "neither\n",
        "counted\nSIGSEGV maperr fatal\n",
        "counted\nSIGSEGV maperr fatal 1 2\n",
        "counted\nSIGSEGV maperr fatal -1\n",
        "counted\nSIGSEGV maperr fatal 99999999999999999999999\n",
        "counted\nSIGSEGV  fatal 1\n",
        "counted\nSIGSEGV maperr fatal 1",
        "counted\n\n",
        "counted\nsignals A\nsignals B\n",
        "counted\nsignals " + "S" * 4000 + "\n",
        "counted\n" + "SIGSEGV maperr fatal 1\n" * 10000,
        "counted\n" + "S" * 4000 + " maperr fatal 1\n",
        "counted\nSIG\0SEGV maperr fatal 1\n",
    ],
    ids=lambda body: body[:40].encode().hex(),
)
def test_answers_that_are_none(folder, body):
    result = run_against(folder, lambda cgroup, asked: "ok\n" + body, "null-read")
    assert result.returncode == FAILED and "not understood" in result.stderr
    assert not result.stdout


def test_a_daemon_that_goes_away(folder):
    def answer(cgroup, asked):
        return None if asked or "faultd-selftest-" in cgroup else counting("")(cgroup, asked)

    result = run_against(folder, answer, "null-read", "null-write")
    rows = rows_of(result)
    assert list(rows) == ["null-read"] and "did not answer" in rows["null-read"]["text"]
    assert result.returncode == FAILED


@pytest.mark.parametrize(
    "args", [("--case", "nothing"), ("word",), ("--limit", "0"), ("--limit", "1x"), ("--limit", "3601"), ("--case",), ("--other",)]
)
def test_wrong_command_lines(args):
    result = faultctl("--no-daemon", *args)
    assert result.returncode == EXIT_USAGE and result.stderr and not result.stdout


def freeze(cgroup):
    with open(f"{v2_mount()}{cgroup}/cgroup.freeze", "w") as f:
        f.write("1")


def freezing(cgroup, asked):
    """The case's process hangs as soon as it enters its cgroup."""
    if "faultd-selftest-" in cgroup:
        freeze(cgroup)
    return counting("")(cgroup, asked)


def test_a_process_that_hangs(folder):
    with Answers(folder, freezing) as answers:
        result = faultctl("--socket", answers.path, "--json", "--case", "null-read", "--limit", "1", timeout=60)
    assert "hung" in rows_of(result)["null-read"]["text"]
    assert result.returncode == FAILED


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(folder, signo):
    """Its process ends, its cgroup goes, no other case begins, and it ends by that signal."""
    with Answers(folder, freezing) as answers:
        argv = [need_built("faultctl"), "selftest", "--socket", answers.path, "--json"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:

            def hanging():
                # Not the cgroup in which it only tries whether it can.
                mine = [d for d in selftest_cgroups() if d.endswith(f"-{process.pid}-null-read")]
                return mine and open(f"{v2_mount()}/{mine[0]}/cgroup.procs").read()

            wait_until(hanging, what="a process in the cgroup")
            process.send_signal(signo)
            out, _ = process.communicate(timeout=10)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == -signo
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["case"], row["result"]) for row in rows] == [("null-read", "skipped")]


def test_where_no_cgroup_can_be_made(folder):
    """Then the growth of the caller's own counts, which is said."""
    asked = []

    def answer(cgroup, before):
        asked.append(cgroup)
        return "ok\ncounted\n" + SIGNALS + ("SIGSEGV sent fatal 7\n" if before < 2 else "SIGSEGV sent fatal 7\n" + NULL_READ)

    prefix = ["unshare", "-m", "sh", "-c", f'mount -o remount,bind,ro {v2_mount()} && exec "$@"', "sh"]
    result = run_against(folder, answer, "null-read", prefix=prefix)
    own = next(line.split("::")[1].strip() for line in open("/proc/self/cgroup") if line.startswith("0::"))
    assert result.returncode == EXIT_OK, result.stdout + result.stderr
    assert set(asked) == {own} and rows_of(result)["null-read"]["cgroup"] == own
    assert "no cgroup can be made" in result.stderr and "Read-only file system" in result.stderr


# ---- a real daemon ----


def test_every_case_against_the_daemon(folder):
    need_bpf()
    path = os.path.join(folder, "faultd.sock")
    also = ["ILL", "FPE", "TRAP", "SYS", "ABRT"]
    with Daemon({"bad_access": {"also": also}, "control": {"socket": path}}) as daemon:
        wait_until(lambda: os.path.exists(path), what="the daemon's control socket")
        result = faultctl("--socket", path, "--json")
        exposition = daemon.metrics()
    rows = rows_of(result)
    wrong = {name: row for name, row in rows.items() if row["result"] not in ("pass", "skipped", "info")}
    assert not wrong and result.returncode == EXIT_OK, json.dumps(wrong, indent=1) + result.stderr
    passed = [row for row in rows.values() if row["result"] == "pass"]
    assert passed and all(row["daemon"] for row in passed)
    assert not [row for row in rows.values() if row["result"] == "skipped" and "the daemon" in row["text"]]
    # The same by another way out of the daemon, whose totals keep what cgroups counted that are gone.
    assert exposition.sum("faultd_bad_accesses_total", code="pkuerr") == 2 * (rows["protection-key"]["result"] == "pass")


def test_what_a_killed_self_test_left_is_swept(folder):
    """Its cgroup stays behind; the next one that can use the place removes it."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = os.path.join(v2_mount(), f"faultd-selftest-{gone.pid}-null-read")
    os.mkdir(left)
    try:
        with Answers(folder, lambda cgroup, before: "ok\ncounted\n" + SIGNALS + (NULL_READ if before else "")) as answers:
            faultctl("--socket", answers.path, "--case", "null-read")
        assert not os.path.exists(left)
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(left)


def test_results_that_cannot_be_written_are_a_failure(folder):
    with Answers(folder, lambda cgroup, before: "ok\ncounted\n" + SIGNALS + (NULL_READ if before else "")) as answers:
        argv = [need_built("faultctl"), "selftest", "--socket", answers.path, "--case", "null-read"]
        with open("/dev/full", "w") as full:
            done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode != 0 and "cannot be written" in done.stderr
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *argv], stderr=subprocess.PIPE, text=True)
        assert done.returncode != 0 and "standard output is closed" in done.stderr
