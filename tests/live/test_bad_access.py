# SPDX-License-Identifier: Apache-2.0
"""Bad accesses: each kind is counted where it belongs, by signal, code and outcome, once. The right values are the kernel's:
its documentation, the siginfo that a handler sees, the status that a parent sees, and perf's count of signal_deliver."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from harness import Daemon, PerfStat, need_bpf, need_built, need_perf, need_program, wait_until

FATAL, HANDLED = "fatal", "handled"


@pytest.fixture(autouse=True)
def _bpf():
    need_bpf()


@pytest.fixture(scope="module")
def counting():
    """One daemon that counts all that it can."""
    need_bpf()
    with Daemon({"bad_access": {"also": ["ILL", "FPE", "TRAP", "SYS", "ABRT"]}}) as d:
        yield d


class Victim:
    """tests/live/victim.c in a cgroup, started and not waited for."""

    def __init__(self, cgroup, *args, **env):
        argv = [need_built("victim")] + [str(a) for a in args]
        self.process = cgroup.popen(argv, stdout=subprocess.PIPE, env={**os.environ, **env})

    @property
    def pid(self):
        return self.process.pid

    def wait(self, timeout=60):
        """What its handlers counted, and its exit code as subprocess has it."""
        out = self.process.communicate(timeout=timeout)[0].decode().split("\n")[0]
        if out.startswith("skip "):
            pytest.skip(out[5:])
        assert self.process.returncode != 3, "the victim could not prepare its case"
        return int(out.split()[1]) if out.startswith("handled ") else None, self.process.returncode

    def first_line(self):
        return self.process.stdout.readline()


def bad(metrics, cgroup):
    """{(signal, code, outcome): count} of a cgroup."""
    return {
        (s.labels["signal"], s.labels["code"], s.labels["outcome"]): int(s.value)
        for s in metrics.samples("faultd_bad_accesses_total", cgroup=cgroup.path)
    }


def segv(code, outcome, count=1):
    return {("SIGSEGV", code, outcome): count}


def bus(code, outcome, count=1):
    return {("SIGBUS", code, outcome): count}


def only(cgroup):
    """Configuration: what else crashes on this host leaves no record."""
    return {"cgroups": {"include": [cgroup.path]}}


def records(daemon):
    """What became of the records of the cgroup that is included."""
    m = daemon.metrics()
    return m.sum("faultd_crash_records_total") - m.value("faultd_crash_records_total", result="excluded")


TABLE = [
    # case, arguments, ends by, counts
    ("null_read", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("null_write", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("read_only", (), signal.SIGSEGV, segv("accerr", FATAL)),
    ("no_access", (), signal.SIGSEGV, segv("accerr", FATAL)),
    ("no_exec", (), signal.SIGSEGV, segv("accerr", FATAL)),
    ("past_eof", (), signal.SIGBUS, bus("adrerr", FATAL)),
    ("no_address", (), signal.SIGSEGV, segv("kernel", FATAL)),
    ("kernel_address", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("protection_key", (), signal.SIGSEGV, segv("pkuerr", FATAL)),
    ("misaligned", (), signal.SIGBUS, bus("adraln", FATAL)),
    ("divide_by_zero", (), signal.SIGFPE, {("SIGFPE", "intdiv", FATAL): 1}),
    ("illegal_instruction", (), signal.SIGILL, {("SIGILL", "illopn", FATAL): 1}),
    ("abort", (), signal.SIGABRT, {("SIGABRT", "abort", FATAL): 1}),
    ("survive_null", (1000,), 0, segv("maperr", HANDLED, 1000)),
    ("survive_ro", (1000,), 0, segv("accerr", HANDLED, 1000)),
    ("survive_bus", (10,), 0, bus("adrerr", HANDLED, 10)),
    ("overflow", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("overflow_no_stack", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("overflow_handled", (), 0, segv("maperr", HANDLED)),
    ("default_again", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("reset_hand", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("raise_again", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("raise_again_on_stack", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("raise_plainly", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("ignored", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("blocked", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("raise", (), signal.SIGSEGV, segv("sent", FATAL)),
    ("forge", (), signal.SIGSEGV, segv("sent", FATAL)),
    ("forge_kernel", (), signal.SIGSEGV, segv("sent", FATAL)),
    ("forge_and_fault", (), signal.SIGBUS, bus("adrerr", FATAL)),
    ("survive_and_raise", (), signal.SIGSEGV, {**segv("maperr", HANDLED, 3), **segv("sent", FATAL)}),
    ("bus_without_stack", (), signal.SIGSEGV, bus("adrerr", FATAL)),
    ("sent_in_vain", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("traced_and_ignored", (), 0, {}),
    ("survive_and_die", (), signal.SIGSEGV, {**segv("maperr", HANDLED, 3), **segv("accerr", FATAL)}),
    ("raise_above", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("exec_then_raise", (), signal.SIGSEGV, {**segv("maperr", HANDLED), **segv("sent", FATAL)}),
    ("lazy", (), signal.SIGSEGV, {**segv("accerr", HANDLED, 10), **segv("accerr", FATAL)}),
    ("reported_thread", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("taken_by_wait", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("flushed", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("exit_signal", (), signal.SIGSEGV, segv("sent", FATAL)),
    ("forge_by_gate", (), signal.SIGSEGV, segv("sent", FATAL)),
    ("no_stack_in_call", (), signal.SIGSEGV, {**segv("maperr", HANDLED), **segv("kernel", FATAL)}),
    ("by_timer", (), signal.SIGSEGV, segv("sent", FATAL)),
    ("two_threads", (), signal.SIGSEGV, segv("maperr", FATAL)),
    ("bad_pointer", (100,), 0, {}),
]


@pytest.mark.parametrize("case, args, ends_by, counts", TABLE, ids=[row[0] for row in TABLE])
def test_each_kind_is_counted_once(counting, cgroup, case, args, ends_by, counts):
    count, code = Victim(cgroup, case, *args).wait()
    assert code == -ends_by
    if args and counts:
        assert count == sum(counts.values())  # its own handler's count
    # The record comes with the delivery; the counters need nothing more than a scrape.
    assert bad(counting.metrics(), cgroup) == counts


def test_threads_that_fault_together_are_one_crash(counting, cgroup):
    """Often both are delivered before the first one's end has begun."""
    for _ in range(60):
        assert Victim(cgroup, "two_threads").wait()[1] == -signal.SIGSEGV
    assert bad(counting.metrics(), cgroup) == segv("maperr", FATAL, 60)


def test_a_crash_that_the_process_outlives_by_exec_is_none(cgroup):
    """A thread crashes while the other is becoming another program: now and then only the thread dies, and what ends the new
    program counts as its own. The parent knows how each ended."""
    with Daemon({"interval": "10s", "windows": ["10s"]}) as daemon:
        victim = Victim(cgroup, "crash_against_exec", 3000)
        crashed, divided = (int(line.split()[-1]) for line in victim.process.communicate(timeout=120)[0].decode().split("\n")[:2])
        assert crashed + divided == 3000 and crashed > 0 and divided > 0
        assert bad(daemon.metrics(), cgroup) == {**segv("maperr", FATAL, crashed), ("SIGFPE", "intdiv", FATAL): divided}


def test_records_tell_no_more_than_is_known(cgroup):
    """No sender of a timer's signal, which comes while anybody may be running; no access of an older fault; the name of a program
    that has no place."""
    with Daemon({**only(cgroup), "bad_access": {"addresses": "local"}}) as daemon:
        Victim(cgroup, "by_timer").wait()
        Victim(cgroup, "no_stack_in_call").wait()
        script = 'import os, sys; f = os.memfd_create("nowhere"); os.write(f, open(sys.argv[1], "rb").read()); os.execve(f, ["v", "raise"], {})'
        cgroup.popen([sys.executable, "-c", script, need_built("victim")]).wait()
        told = wait_until(lambda: len(crashes_of(daemon)) == 3 and crashes_of(daemon), what="three crashes")
    timer, kernel, nowhere = told
    assert timer["code"] == "sent" and "sender_pid" not in timer
    assert kernel["code"] == "kernel" and not {"access", "kind", "error_code", "address"} & set(kernel)
    assert kernel["address_class"] == "none"
    assert nowhere["exe"] == "/memfd:nowhere" and nowhere["sender_pid"] == nowhere["pid"]


def test_no_page_fault_beside_an_address_that_is_none(counting, cgroup):
    """A general protection fault: perf sees no page fault for it, while each access to the kernel's half is one."""
    need_perf()
    user = {}
    for case in ("survive_no_address", "survive_kernel"):
        with PerfStat(cgroup) as perf, perf.counting():
            assert Victim(cgroup, case, 1000).wait() == (1000, 0)
        user[case] = perf.user
    assert user["survive_no_address"] < 500 and user["survive_kernel"] >= 1000
    assert bad(counting.metrics(), cgroup) == {**segv("kernel", HANDLED, 1000), **segv("maperr", HANDLED, 1000)}


def test_sent_from_another_cgroup_counts_for_the_victim(counting, cgroup):
    with cgroup.child("victim") as home, cgroup.child("sender") as away:
        victim = Victim(home, "wait")
        victim.first_line()
        assert away.popen(["kill", "-SEGV", str(victim.pid)]).wait() == 0
        assert victim.wait()[1] == -signal.SIGSEGV
        m = counting.metrics()
        assert bad(m, home) == segv("sent", FATAL)
        assert bad(m, away) == {}


def in_pid_namespace(cgroup, script):
    """Runs a shell as the init of a pid namespace of its own."""
    return cgroup.popen(["unshare", "--pid", "--fork", "sh", "-c", script, need_built("victim")]).wait()


def test_init_of_a_pid_namespace_does_not_die_of_a_signal_that_is_sent(counting, cgroup):
    """The kernel drops it, at once or, where it was blocked, when it is delivered: nothing is counted."""
    assert in_pid_namespace(cgroup, "kill -SEGV $$; kill -SEGV 1; exit 7") == 7
    assert in_pid_namespace(cgroup, 'exec "$0" blocked_init') == 7
    assert bad(counting.metrics(), cgroup) == {}


def test_init_of_a_pid_namespace_dies_of_its_own_fault(counting, cgroup):
    """And unshare(1), which waits for it, ends itself by the same signal, which it sends."""
    assert in_pid_namespace(cgroup, 'exec "$0" null_write') == -signal.SIGSEGV
    assert bad(counting.metrics(), cgroup) == {**segv("maperr", FATAL), **segv("sent", FATAL)}


def test_a_runtime_that_uses_faults_as_a_barrier(cgroup):
    """10,000 handled a second for 3 s: exact by perf, cheap, no crash record."""
    need_perf()
    with Daemon({"windows": ["10s"], **only(cgroup)}) as daemon, PerfStat(cgroup, events=["signal:signal_deliver"]) as perf:
        before = daemon.metrics().value("process_cpu_seconds_total")
        with perf.counting():
            count, code = Victim(cgroup, "barrier", 10000, 3).wait()
        m = daemon.metrics()
        assert code == 0 and count == 30000
        assert bad(m, cgroup) == segv("accerr", HANDLED, 30000)
        assert perf.counts["signal:signal_deliver"] == 30000
        assert m.value("faultd_crash_records_total", result="kept") == 0
        assert m.value("process_cpu_seconds_total") - before < 0.3
        rate = wait_until(
            lambda: daemon.metrics().value("faultd_bad_access_rate", cgroup=cgroup.path, window="10s"), what="a rate"
        )
        assert rate > 0


def test_a_crash_loop_is_counted_exactly_and_recorded_in_bounds(cgroup):
    """2,000 crashes of one cgroup: all counted; 10 records a minute, the others are suppressed and counted, too."""
    with Daemon(only(cgroup)) as daemon:
        began = time.monotonic()
        assert Victim(cgroup, "crowd", 2000, 20).wait()[1] == 0
        minutes = (time.monotonic() - began) / 60
        m = daemon.metrics()
        assert bad(m, cgroup) == segv("maperr", FATAL, 2000)
        wait_until(lambda: records(daemon) == 2000, what="all records accounted for")
        kept = daemon.metrics().value("faultd_crash_records_total", result="kept")
        assert 10 <= kept <= 10 + 10 * minutes + 1


def test_records_that_the_daemon_cannot_read_in_time_are_lost_and_counted(cgroup):
    with Daemon({"interval": "10s", "windows": ["10s"], **only(cgroup)}) as daemon:
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            assert Victim(cgroup, "crowd", 500, 20).wait()[1] == 0
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        wait_until(lambda: records(daemon) >= 500, what="all records accounted for")
        m = daemon.metrics()
        assert bad(m, cgroup) == segv("maperr", FATAL, 500)
        assert m.value("faultd_crash_records_total", result="ring_full") > 0


def crashes_of(daemon):
    argv = [need_built("faultctl"), "crashes", "--socket", daemon.control_socket, "--json"]
    return [json.loads(line) for line in subprocess.run(argv, capture_output=True, check=True).stdout.splitlines()]


def test_two_daemons_both_know_the_file_of_a_crash(cgroup):
    """At the delivery the kernel lets only one program look at the mappings; the other looks when the process ends."""
    need_program("readelf", "binutils")
    notes = subprocess.run(["readelf", "-n", need_built("victim")], capture_output=True, text=True).stdout
    build_id = re.search(r"Build ID: (\w+)", notes)
    if not build_id:
        pytest.skip("programs have no build id here")
    with Daemon(only(cgroup)) as one, Daemon(only(cgroup)) as other:
        for _ in range(3):
            Victim(cgroup, "null_write").wait()
        for daemon in (one, other):
            wait_until(lambda: len(crashes_of(daemon)) == 3, what="three crashes")  # noqa: B023
        told = [crashes_of(daemon) for daemon in (one, other)]
    assert [c["frames"][0]["build_id"] for c in told[0] + told[1]] == [build_id[1]] * 6
    assert len({c["fingerprint"] for c in told[0] + told[1]}) == 1


def test_signals_that_are_not_asked_for_are_not_counted(cgroup):
    with Daemon({"bad_access": {"also": []}}) as daemon:
        for case in ("illegal_instruction", "divide_by_zero", "abort"):
            Victim(cgroup, case).wait()
        Victim(cgroup, "null_write").wait()
        assert bad(daemon.metrics(), cgroup) == segv("maperr", FATAL)


def test_bad_accesses_switched_off_are_not_shown(cgroup):
    with Daemon({"probes": {"bad_access": False}}) as daemon:
        Victim(cgroup, "null_write").wait()
        m = daemon.metrics()
        assert m.samples("faultd_bad_accesses_total") == []
        assert m.value("faultd_probe_info", probe="bad_accesses", backend="off") == 1


def test_bad_accesses_need_no_page_fault_probe(cgroup):
    """As on a kernel without the page-fault tracepoints."""
    with Daemon({"probes": {"page_faults": "off"}}) as daemon:
        Victim(cgroup, "survive_null", 7).wait()
        Victim(cgroup, "read_only").wait()
        m = daemon.metrics()
        assert bad(m, cgroup) == {**segv("maperr", HANDLED, 7), **segv("accerr", FATAL)}
        assert m.faults(cgroup.path) == 0


def test_an_excluded_cgroup_counts_as_other_and_leaves_no_record(cgroup):
    with Daemon({"cgroups": {"include": [cgroup.path + "/**"], "exclude": [cgroup.path]}}) as daemon:
        Victim(cgroup, "null_write").wait()
        m = daemon.metrics()
        assert bad(m, cgroup) == {}
        assert m.sum("faultd_bad_accesses_total", cgroup="other", code="maperr", outcome=FATAL) >= 1
        assert m.value("faultd_crash_records_total", result="excluded") >= 1
        assert records(daemon) == 0


def test_bad_accesses_of_a_cgroup_that_is_gone_go_on_in_other(cgroup):
    with Daemon() as daemon:
        brief = cgroup.child("brief")
        Victim(brief, "survive_null", 50).wait()
        brief.remove()
        assert bad(daemon.metrics(), brief) == segv("maperr", HANDLED, 50)
        wait_until(lambda: bad(daemon.metrics(), brief) == {}, what="the leaving of the dead cgroup")
        assert daemon.metrics().sum("faultd_bad_accesses_total", cgroup="other", outcome=HANDLED) >= 50


def test_latency_is_measured_when_asked_for(cgroup):
    """More victims than CPUs, so that some are interrupted between the fault and its signal: these are not measured, but told."""
    with Daemon({"bad_access": {"latency": True}}) as daemon:
        for victim in [Victim(cgroup, "survive_ro", 30000) for _ in range(3 * os.cpu_count())]:
            assert victim.wait() == (30000, 0)
        total = 30000 * 3 * os.cpu_count()
        m = daemon.metrics()
        label = dict(cgroup=cgroup.path)
        count = m.value("faultd_bad_access_latency_seconds_count", **label)
        missed = m.value("faultd_drops_total", reason="bad_latency")
        assert bad(m, cgroup) == segv("accerr", HANDLED, total)
        assert 0.9 * total < count <= total <= count + missed
        assert m.value("faultd_bad_access_latency_seconds_bucket", le="+Inf", **label) == count
        # No delivery takes less than a tenth of a microsecond, nor all of them more than the test.
        assert 1e-7 * count < m.value("faultd_bad_access_latency_seconds_sum", **label) < 60
        with cgroup.child("brief") as c:
            Victim(c, "overflow_no_stack").wait()
            m = daemon.metrics()
            assert m.value("faultd_bad_access_latency_seconds_count", cgroup=c.path) == 1
            assert m.value("faultd_drops_total", reason="bad_latency") == missed
    with Daemon() as daemon:
        Victim(cgroup, "survive_ro", 10).wait()
        assert daemon.metrics().samples("faultd_bad_access_latency_seconds_count") == []
