# SPDX-License-Identifier: Apache-2.0
"""The counts of a private cgroup equal somebody else's: perf stat on the same process, and the number that was planned."""

import subprocess
import time

import pytest
from harness import Cgroup, Daemon, PerfStat, Workload, need_bpf, need_perf

USER_READ = ("user", "read", "missing")
USER_WRITE = ("user", "write", "missing")
USER_EXEC = ("user", "exec", "missing")
USER_DENIED = ("user", "write", "protection")
KERNEL_WRITE = ("kernel", "write", "missing")


@pytest.fixture(scope="module")
def daemon():
    need_bpf()
    with Daemon() as d:
        yield d


def growth(before, after):
    return {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)}


def by_mode(classes, mode):
    return sum(n for (m, _, _), n in classes.items() if m == mode)


def measure(daemon, cgroup, *scenario):
    """Runs a scenario once: (growth by class, what perf counted, what the workload said)."""
    need_perf()
    with Workload(cgroup, *scenario) as work, PerfStat(work.pid) as perf:
        before = daemon.metrics().fault_classes(cgroup)
        with perf.counting():
            done = work.run()
        classes = growth(before, daemon.metrics().fault_classes(cgroup))
    assert by_mode(classes, "user") == perf.user
    assert by_mode(classes, "kernel") == perf.kernel
    return classes, perf, done


def test_a_million_anonymous_writes(daemon, cgroup):
    classes, _, done = measure(daemon, cgroup, "write", 1000000)
    assert classes == {USER_WRITE: 1000000}
    assert done[1] == 1000000  # getrusage


def test_sixteen_writes_at_cafe0000(daemon, cgroup):
    classes, _, _ = measure(daemon, cgroup, "fixed")
    assert classes == {USER_WRITE: 16}


def test_reads_of_a_mapped_file(daemon, cgroup):
    classes, perf, done = measure(daemon, cgroup, "file", 20000)
    assert set(classes) == {USER_READ}
    assert 0 < perf.user <= 20000  # one fault maps several pages
    assert done[1] == perf.user


def test_reads_of_a_file_mapped_page_by_page(daemon, cgroup):
    classes, _, _ = measure(daemon, cgroup, "filepages", 20000)
    assert classes == {USER_READ: 20000}


def test_calls_into_mapped_code(daemon, cgroup):
    classes, _, _ = measure(daemon, cgroup, "exec", 5000)
    assert classes == {USER_EXEC: 5000}


def test_copy_on_write_after_fork(daemon, cgroup):
    classes, _, _ = measure(daemon, cgroup, "cow", 50000)
    assert classes[USER_DENIED] == 50000


def test_a_forked_child_that_writes(daemon, cgroup):
    classes, _, _ = measure(daemon, cgroup, "fork", 20000)
    assert classes[USER_DENIED] >= 20000
    assert classes[USER_WRITE] >= 20000


def test_kernel_faults_by_read_into_fresh_memory(daemon, cgroup):
    classes, _, _ = measure(daemon, cgroup, "readinto", 20000)
    assert classes == {KERNEL_WRITE: 20000}


def test_faults_on_all_cpus_at_once(daemon, cgroup):
    with Workload(cgroup, "threads", 1) as work:
        done = work.run()
    cpus = done[0]
    classes, _, _ = measure(daemon, cgroup, "threads", 200000)
    assert classes == {USER_WRITE: 200000 * cpus}


def test_denied_writes_left_through_a_handler(daemon, cgroup):
    classes, _, _ = measure(daemon, cgroup, "denied", 10000)
    assert classes == {USER_DENIED: 10000}


def test_write_permission_toggled_by_a_handler(daemon, cgroup):
    classes, _, _ = measure(daemon, cgroup, "toggle", 10000)
    assert set(classes) == {USER_DENIED}
    assert classes[USER_DENIED] >= 10000


def test_the_whole_life_of_a_process(daemon, cgroup):
    """Not between barriers: exec, dynamic linking, exit and all. perf counts by cgroup here."""
    need_perf()
    with PerfStat(cgroup) as perf:
        before = daemon.metrics().fault_classes(cgroup)
        with perf.counting():
            for _ in range(5):
                assert cgroup.popen(["/bin/ls", "/"], stdout=subprocess.DEVNULL).wait() == 0
        classes = growth(before, daemon.metrics().fault_classes(cgroup))
    assert by_mode(classes, "user") == perf.user > 0
    assert by_mode(classes, "kernel") == perf.kernel > 0


def test_a_process_moved_between_cgroups_while_it_faults(daemon, cgroup):
    need_perf()
    with Cgroup(parent=cgroup) as a, Cgroup(parent=cgroup) as b:
        with Workload(a, "write", 1000000) as work, PerfStat(work.pid) as perf:
            before = daemon.metrics()
            with perf.counting():
                work.go()
                moves = 0
                while moves < 100:
                    (b if moves % 2 == 0 else a).add(work.pid)
                    moves += 1
                    time.sleep(0.003)
                work.wait()
            after = daemon.metrics()
        in_a, in_b = (after.faults(c) - before.faults(c) for c in (a, b))
        assert in_a + in_b == perf.user + perf.kernel
        assert in_a > 0 and in_b > 0
        written = sum(after.faults(c, mode="user", access="write") - before.faults(c, mode="user", access="write") for c in (a, b))
        assert written == 1000000


def test_a_thread_counts_where_the_thread_is(daemon, cgroup):
    need_perf()
    with Cgroup(parent=cgroup) as threaded:
        threaded.write("cgroup.type", "threaded")
        with Workload(cgroup, "threads", 30000) as work:
            if len(work.tids) < 2:
                pytest.skip("needs two CPUs")
            threaded.write("cgroup.threads", str(work.tids[0]))
            with PerfStat(work.pid) as perf:
                before = daemon.metrics()
                with perf.counting():
                    work.run()
                after = daemon.metrics()
            own, others = (after.faults(c) - before.faults(c) for c in (threaded, cgroup))
            assert own == 30000
            assert others == 30000 * (len(work.tids) - 1)
            assert own + others == perf.user + perf.kernel


def test_two_daemons_count_the_same(daemon, cgroup):
    with Daemon() as second, Workload(cgroup, "write", 50000) as work:
        before = [d.faults(cgroup) for d in (daemon, second)]
        work.run()
        assert [d.faults(cgroup) - b for d, b in zip((daemon, second), before)] == [50000, 50000]


def test_a_daemon_started_later_counts_from_its_start(cgroup):
    need_bpf()
    with Workload(cgroup, "write", 1000) as work:
        work.run()
        with Daemon() as d:
            assert d.faults(cgroup) == 0
            work.run()
            assert d.metrics().fault_classes(cgroup) == {USER_WRITE: 1000}


def test_both_formats_agree(daemon, cgroup):
    with Workload(cgroup, "write", 12345) as work:
        work.run()
        text, openmetrics = daemon.metrics(), daemon.metrics(openmetrics=True)
    assert text.fault_classes(cgroup) == openmetrics.fault_classes(cgroup)
    assert text.faults(cgroup, mode="user", access="write", kind="missing") >= 12345


def test_nothing_was_lost(daemon):
    """Runs last in this file: what the daemon itself says about all of the above."""
    m = daemon.metrics()
    for reason in ("uncounted", "slot_leaked", "cgroup_ring", "table_full", "no_slot"):
        assert m.sum("faultd_drops_total", reason=reason) == 0, reason
    assert m.sum("faultd_probe_recursion_misses_total") == 0
