# SPDX-License-Identifier: Apache-2.0
"""The rungs below the tracepoints, each against somebody else's counter and against one another."""

import contextlib
import os
import re
import subprocess

import pytest
from harness import EXIT_NOPERM, EXIT_UNSUPPORTED, Daemon, PerfStat, Workload, need_bpf, need_perf, run_faultd, wait_until

PAGE_FAULTS = "page-faults"  # the kernel's own software event, which the rung `perf` hangs on


@pytest.fixture(autouse=True)
def _bpf():
    need_bpf()
    need_perf()


def rung(name, **more):
    return {"probes": {"page_faults": name, **more}}


@pytest.fixture(scope="module")
def by_perf():
    need_bpf()
    with Daemon(rung("perf")) as d:
        yield d


# What the perf event sees and getrusage does not, or the other way round, is told in facts of the kernel: pages that a system call
# touches without a fault of the task's own are no faults here.
WORKS = [("write", 100000), ("file", 5000), ("readinto", 500), ("cow", 1000), ("denied", 1000), ("threads", 4, 1000)]


@pytest.mark.parametrize("work", WORKS, ids=[w[0] for w in WORKS])
def test_perf_counts_what_perf_stat_counts(by_perf, cgroup, work):
    with Workload(cgroup, *work) as w, PerfStat(cgroup, events=[PAGE_FAULTS]) as perf:
        before = by_perf.metrics().faults(cgroup)
        with perf.counting():
            w.run()
        m = by_perf.metrics()
        assert m.faults(cgroup) - before == perf.counts[PAGE_FAULTS] > 0
        # It tells the mode and nothing more.
        classes = set(m.fault_classes(cgroup))
        assert classes <= {("user", "unknown", "unknown"), ("kernel", "unknown", "unknown")}


def test_perf_tells_user_from_kernel(by_perf, cgroup):
    """read(2) into fresh memory faults in the kernel, a write of one's own in user mode."""
    for work, mode in ((("readinto", 300), "kernel"), (("write", 300), "user")):
        with Workload(cgroup, *work) as w:
            before = by_perf.metrics()
            w.run()
            m = by_perf.metrics()
            assert m.faults(cgroup, mode=mode) - before.faults(cgroup, mode=mode) == 300


def test_the_rungs_agree(cgroup):
    """Two daemons at once over the same work."""
    with Daemon() as tracepoint, Daemon(rung("perf")) as perf:
        for work in (("write", 50000), ("cow", 1000), ("readinto", 200), ("threads", 4, 500)):
            with Workload(cgroup, *work) as w:
                before = [d.metrics() for d in (tracepoint, perf)]
                w.run()
                after = [d.metrics() for d in (tracepoint, perf)]
            grown = {
                mode: [a.faults(cgroup, mode=mode) - b.faults(cgroup, mode=mode) for a, b in zip(after, before)]
                for mode in ("user", "kernel")
            }
            assert grown["user"][0] == grown["user"][1], f"{work[0]}: {grown}"
            # What the kernel tries with page faults switched off, and does again without, reaches the tracepoint alone.
            assert grown["kernel"][1] <= grown["kernel"][0] <= grown["kernel"][1] + 5, f"{work[0]}: {grown}"


def test_a_period_is_an_estimate_and_says_so(cgroup):
    """One of a hundred is seen: short by less than a hundred per CPU, as the event's countdown goes on from task to task."""
    period = 100
    with Daemon(rung("perf", perf_period=period)) as daemon, Workload(cgroup, "write", 100000) as w:
        before = daemon.metrics().faults(cgroup)
        w.run()
        grown = daemon.metrics().faults(cgroup) - before
        assert grown % period == 0
        # What others fault on a CPU meanwhile can hit the countdown, but by no more than their share.
        assert abs(grown - 100000) <= period * os.cpu_count() + 2000
        assert re.search(r"page faults by perf: .*estimated from one fault in 100", daemon.log)


def test_it_says_what_it_counts_with(by_perf):
    assert by_perf.metrics().value("faultd_probe_info", probe="page_faults", backend="perf") == 1
    assert "page faults by perf: counts by mode, no access or kind, exact" in by_perf.log


def test_perf_events_are_gone_with_the_daemon():
    def events():
        listed = subprocess.run(["bpftool", "perf", "list"], capture_output=True, text=True)
        return listed.stdout.count("perf_fault")

    with Daemon(rung("perf")) as daemon:
        fds = f"/proc/{daemon.pid}/fd"
        links = []
        for fd in os.listdir(fds):
            with contextlib.suppress(OSError):
                links.append(os.readlink(f"{fds}/{fd}"))
        assert sum("perf_event" in link for link in links) == os.cpu_count()
    wait_until(lambda: events() == 0, what="the end of the events")


def test_a_cgroup_that_is_brief_counts_by_perf(by_perf, cgroup):
    with cgroup.child("brief") as c, Workload(c, "write", 500) as w:
        w.run()
        assert by_perf.metrics().faults(c, mode="user") >= 500


def test_a_rung_that_this_kernel_lacks_is_refused(cgroup):
    if os.uname().machine == "aarch64":
        pytest.skip("this kernel has do_mem_abort")
    done = run_faultd(config=rung("fentry"))
    assert done.returncode == EXIT_UNSUPPORTED
    assert "page faults by fentry: not usable: the kernel has no function do_mem_abort" in done.stderr


def test_check_tries_every_rung():
    done = run_faultd("--check", config={})
    assert done.returncode == 0
    plan = {m[1]: m[2] for m in re.finditer(r"^#   (\w+) +(chosen|usable|not usable|not tried): ", done.stdout, re.M)}
    assert plan["tracepoint"] == "chosen"
    assert plan["perf"] == "usable"
    assert plan["fentry"] == ("usable" if os.uname().machine == "aarch64" else "not usable")
    assert plan["memcg"] in ("usable", "not usable")


def test_check_of_a_forced_rung_tells_the_others():
    done = run_faultd("--check", config=rung("perf"))
    assert done.returncode == 0
    assert re.search(r"^#   tracepoint +usable: ", done.stdout, re.M) and re.search(r"^#   perf +chosen: ", done.stdout, re.M)
    assert "page faults by perf," in done.stdout


def test_without_the_right_to_perf_events_the_sysctl_is_named():
    """Run by nobody, with CAP_BPF alone: perf_event_open is not permitted, and what would help is said."""
    caps = "+bpf"
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", f"--inh-caps={caps}", f"--ambient-caps={caps}"]
    done = run_faultd(config=rung("perf"), prefix=argv)
    assert done.returncode == EXIT_NOPERM
    assert re.search(r"page faults by perf: not usable: .*(perf_event_paranoid is \d|CAP_PERFMON)", done.stderr), done.stderr
