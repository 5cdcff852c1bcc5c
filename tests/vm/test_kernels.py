# SPDX-License-Identifier: Apache-2.0
"""On each kernel: the BPF objects load, the daemon takes its best rung, and its counts are those that were planned."""

import json
import re
import subprocess

import denied
import machine as machines
import platforms
import pytest
import steps
from harness import Metrics

USER_READ = ("user", "read", "missing")
USER_WRITE = ("user", "write", "missing")
USER_EXEC = ("user", "exec", "missing")
USER_DENIED = ("user", "write", "protection")
KERNEL_WRITE = ("kernel", "write", "missing")
KERNEL_DENIED = ("kernel", "write", "protection")

# What the scenario's faults are; "threads" does them once on each CPU.
CLASS = {
    "fixed": USER_WRITE,
    "write": USER_WRITE,
    "filepages": USER_READ,
    "exec": USER_EXEC,
    "readinto": KERNEL_WRITE,
    "cow": USER_DENIED,
    "denied": USER_DENIED,
    "threads": USER_WRITE,
}


# What the processor says of some of the victim's cases. x86 (Intel SDM volume 3, 4.7): bit 0, the page is there; 1, a write; 2, by
# user mode; 4, a fetch. Neither page was touched before: the kernel refuses the write to the one that is read-only at once, and has
# x86 fetch once more from the one without the right to execute, which is there by then.
X86_CODES = {"null_read": 0x4, "null_write": 0x6, "read_only": 0x6, "no_exec": 0x15}
# arm64 (Arm ARM, ESR_EL1): bits 26 to 31 the exception's class, 0x20 an instruction abort, 0x24 a data abort, both by user mode; 25
# always set; 6 a write; 0 to 5 the status, 0x04 a translation fault, its two low bits the level at which the walk of the page tables
# ended, which depends on what else is mapped.
ARM64_CODES = {"null_read": 0x92000004, "null_write": 0x92000044, "read_only": 0x92000044, "no_exec": 0x82000004}
LEVEL = 0x3
# The kernel's name of the address, by the crash records.
ADDRESSES = {"null_read": "null page", "null_write": "null page", "read_only": "mapped"}

# Of the self-test's cases, those for which qemu's processor raises no exception or another one, and what is said then.
NOT_EMULATED = {
    "x86_64": {
        "misaligned": "no signal came",
        "float-divide": "no signal came",
        "non-canonical-stack": "the process died of SIGSEGV",
    },
    "aarch64": {},
}
# Those that some kernels or this processor lack, that are asked for by name, and whose signals are not counted by default.
MAY_BE_SKIPPED = {
    "x86_64": {"guard-marker", "shadow-stack", "memory-tag", "memory-failure", "breakpoint", "seccomp", "abort"},
    "aarch64": {
        *("protection-key", "guard-marker", "memory-failure", "non-canonical-stack", "umip", "shadow-stack", "dispatch-selector"),
        *("divide", "float-divide", "breakpoint", "seccomp", "abort"),
    },
}


def lines(text, word):
    """The rest of the lines that begin with a word."""
    return [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith(word + " ")]


def exposition(output, word):
    return Metrics("".join(f"{line}\n" for line in lines(output, word)))


def counted(output, cgroup, before="before", after="after"):
    """{class: growth} of a cgroup between the two scrapes of guest/count."""
    before, after = exposition(output, before), exposition(output, after)
    first = before.fault_classes(cgroup)
    return {k: n - first.get(k, 0) for k, n in after.fault_classes(cgroup).items() if n != first.get(k, 0)}


def test_it_boots_and_gets_through(machine):
    assert machine.output("release").strip() == machine.release
    assert machine.finished, f"{machine.release}: it did not power off by itself; {machine.story()}"


def test_bpf_objects_load_as_they_are_built(machine):
    assert "== cgroup_life" in machine.output("load")


def test_the_daemon_starts_and_ends(machine):
    machine.output("start")
    machine.output("stop")


def does_as_expected(machine, odd, attempt):
    rung, code, line = denied.expected(machine.machine, machine.series, odd, attempt)
    output = machine.output(f"try-{attempt}")
    assert lines(output, "code") == [str(code)], f"{denied.title(odd, attempt)}:\n{output}"
    backends = dict(re.findall(r'^probe {probe="(\w+)",backend="([^"]+)"} 1$', output, re.M))
    assert backends.get("page_faults") == rung, f"{denied.title(odd, attempt)}:\n{output}"
    counted_too = {True: "tracepoint", False: "off"}[denied.bad_accesses(odd, attempt)] if rung else None
    assert backends.get("bad_accesses") == counted_too, f"{denied.title(odd, attempt)}:\n{output}"
    assert re.search(line, "\n".join(lines(output, "log"))), f"{denied.title(odd, attempt)}: no {line} in\n{output}"


@pytest.mark.parametrize("attempt", steps.TRIES)
def test_the_daemon_takes_the_best_rung_and_says_why(machine, attempt):
    does_as_expected(machine, None, attempt)


def planned_classes(machine, scenario, n):
    """What the rung in use makes of them."""
    mode, access, kind = CLASS[scenario]
    return {(mode, access, kind) if machine.by_root != "perf" else (mode, "unknown", "unknown"): n}


def of_modes(growth):
    return {mode: sum(n for (m, _, _), n in growth.items() if m == mode) for mode in ("user", "kernel")}


@pytest.mark.parametrize("scenario", steps.SCENARIOS)
def test_page_faults_are_counted_exactly(machine, scenario):
    output = machine.output(f"count-{scenario}")
    said = [line.split() for line in lines(output, "said")]
    assert [words[0] for words in said] == ["ready", "done"], said
    operations, minor = int(said[1][1]), int(said[1][2])
    planned = steps.SCENARIOS[scenario] * (machines.CPUS if scenario == "threads" else 1)
    assert operations == planned
    growth = counted(output, f"/{scenario}")
    # After a fork the kernel, too, writes to pages that are shared: what it answers. Before or after the first getrusage(2),
    # depending on where the stack is.
    of_kernel = 0
    if scenario == "cow":
        of_kernel = growth.pop(KERNEL_DENIED, 0) + growth.pop(("kernel", "unknown", "unknown"), 0)
    assert growth == planned_classes(machine, scenario, planned), output
    # The second witness is getrusage(2). It does not know of faults that end in a signal.
    if scenario != "denied":
        assert planned <= minor <= planned + of_kernel


@pytest.mark.parametrize("scenario", steps.SCENARIOS)
def test_the_rungs_agree(machine, scenario):
    """The best one and the perf event, over the same work. What the kernel tries with page faults switched off, and does again without,
    reaches the best one twice and the perf event once."""
    if machine.by_root == "perf":
        pytest.skip("the perf event is the best rung there")
    machine.output("start-second")
    machine.output("stop-second")
    output = machine.output(f"count-{scenario}")
    of_perf = counted(output, f"/{scenario}", "before2", "after2")
    best, perf = of_modes(counted(output, f"/{scenario}")), of_modes(of_perf)
    assert best["user"] == perf["user"] and best["user"] + best["kernel"] > 0, output
    assert perf["kernel"] <= best["kernel"] <= perf["kernel"] + 5, output


def test_counts_are_exact_under_preemption(machine):
    """A run that the kernel skips, since another that it interrupted is not over, must show in the metric."""
    preemptible = steps.PREEMPTIBLE.get((machine.machine, machine.series))
    if preemptible:
        version = machine.output("version")
        assert re.search(preemptible, version, re.M) and ("DYNAMIC" not in preemptible or "Dynamic Preempt: full" in version), version
    output = machine.output("preempted")
    said = [line.split() for line in lines(output, "said")]
    planned, minor = int(said[1][1]), int(said[1][2])
    growth = counted(output, "/preempted")
    missed = [exposition(output, word).value("faultd_probe_recursion_misses_total") for word in ("before", "after")]
    assert set(growth) == {USER_WRITE if machine.by_root != "perf" else ("user", "unknown", "unknown")}, output
    assert planned == minor > 2 * machines.CPUS * steps.INTERRUPTIONS, "the threads hardly ran between one another"
    # Others' runs may be missed as well.
    assert 0 <= planned - sum(growth.values()) <= missed[1] - missed[0], output


def test_memory_stat_has_the_same_total(machine):
    """The last rung. It tells of a cgroup when it is read for the first time, and here that is after the work has begun."""
    output = machine.output("memcg")
    said = [line.split() for line in lines(output, "said")]
    growth = counted(output, "/memcg")
    assert set(growth) == {("unknown", "unknown", "unknown")}
    assert int(said[1][2]) == 20000 and sum(growth.values()) == 20000, output


def test_the_perf_event_follows_the_cpus(machine):
    """One goes and comes back. How many faults there were until that was noticed nobody knows: a drop counter moves."""
    output = machine.output("hotplug")
    looks = output.split("said ready")[1:]
    planned = {"before": 1000 * machines.CPUS, "one-cpu": 3000, "both-cpus": 1000 * machines.CPUS}
    for (name, n), look in zip(planned.items(), looks, strict=True):
        assert f"said done {n} " in look and of_modes(counted(look, f"/{name}"))["user"] == n, output
    assert 'faultd_drops_total{reason="cpu_gap"} 1\n' in output and "CPU 1 came online" in output, output


def why_skipped(output, case):
    """What a victim said that cannot do its case on this machine, or None."""
    said = [line.removeprefix(f"{case} skip ") for line in lines(output, "said") if line.startswith(f"{case} skip ")]
    return said[0] if said else None


@pytest.mark.parametrize("case", [row[0] for row in steps.victims("x86_64")])
def test_bad_accesses_are_counted_exactly(machine, case):
    output = machine.output("victims")
    if why_skipped(output, case):
        pytest.skip(why_skipped(output, case))
    _, arguments, ends_by, counts = next(row for row in steps.victims(machine.machine) if row[0] == case)
    assert f"{case} {128 + ends_by if ends_by else 0}" in lines(output, "ended")
    if arguments and counts:
        assert f"{case} handled {sum(counts.values())}" in lines(output, "said")
    samples = exposition(output, "after").samples("faultd_bad_accesses_total", cgroup=f"/{case}")
    assert {(s.labels["signal"], s.labels["code"], s.labels["outcome"]): s.value for s in samples} == counts


def test_each_crash_has_its_record(machine):
    output = machine.output("victims")
    records = sum(steps.fatal(row) for row in steps.victims(machine.machine) if not why_skipped(output, row[0]))
    after = exposition(output, "after")
    assert after.value("faultd_crash_records_total", result="kept") == records
    assert after.sum("faultd_crash_records_total") == records


def build_id(program):
    notes = subprocess.run(["readelf", "--notes", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


def error_code(machine, text):
    """As the tables have it."""
    code = int(text, 16)
    return code if machine.machine == "x86_64" else code & ~LEVEL


def test_crash_records_tell_who_how_and_where(machine):
    records = {r["cgroup"]: r for r in map(json.loads, machine.output("crashes").splitlines())}
    here = build_id(platforms.PLATFORMS[machine.machine].built("victim"))
    for case, code in (X86_CODES if machine.machine == "x86_64" else ARM64_CODES).items():
        r = records[f"/{case}"]
        assert (r["comm"], r["exe"], error_code(machine, r["error_code"])) == ("victim", "/usr/bin/victim", code), r
        access = {"null_read": "read", "no_exec": "exec"}.get(case, "write")
        there = machine.machine == "x86_64" and case == "no_exec"
        assert (r["access"], r["kind"]) == (access, "protection" if there else "missing"), r
        assert r["address_class"] == ADDRESSES.get(case, r["address_class"]), r
        # Only there the program does not run its own code.
        assert case == "no_exec" or r["frames"][0].get("build_id") == here, r


def test_selftest_passes(machine):
    step = machine.step("selftest")
    rows = {row["case"]: row for row in map(json.loads, step.output.splitlines())}
    by_result = {"pass": set(), "fail": set(), "skipped": set(), "info": set()}
    for case, row in rows.items():
        by_result[row["result"]].add(case)
    not_emulated, may_be_skipped = NOT_EMULATED[machine.machine], MAY_BE_SKIPPED[machine.machine]
    for case in by_result["fail"] & set(not_emulated):
        assert rows[case]["text"] == not_emulated[case], rows[case]
    assert by_result["fail"] <= set(not_emulated), [rows[case] for case in by_result["fail"]]
    assert by_result["skipped"] <= may_be_skipped, [rows[case] for case in by_result["skipped"] - may_be_skipped]
    assert by_result["pass"] and step.code == (1 if by_result["fail"] else 0), step.output


def test_trace_shows_page_faults_and_bad_accesses(machine):
    events = [json.loads(line) for line in machine.output("trace").splitlines()]
    assert len(events) == (400 if machine.by_root != "perf" else 40)
    by_event = {event: [e for e in events if e["event"] == event] for event in {e["event"] for e in events}}
    assert set(by_event) == ({"page_fault_user", "page_fault_kernel"} if machine.by_root != "perf" else set()) | {"bad_access"}
    code = (X86_CODES if machine.machine == "x86_64" else ARM64_CODES)["null_write"]
    for e in by_event["bad_access"]:
        # Where tests/live/victim.c writes to, from its own code.
        assert (e["signal"], e["code"], e["outcome"]) == ("SIGSEGV", "maperr", "fatal"), e
        assert (e["address"], error_code(machine, e["error_code"])) == ("0x8", code), e
        # By its path if the process was there for long enough to be asked.
        assert e["module"] in ("victim", "/usr/bin/victim"), e
    assert {e["module"] for e in by_event.get("page_fault_kernel", [])} <= {"[kernel]"}


def test_trace_shows_each_of_sixteen_writes_and_how_far_the_page_tables_went(machine):
    """At 0xcafe0000, in a GiB where nothing else is: on arm64 the first ends at level 1, since it lacks tables, the others at the
    last; all from one instruction."""
    if machine.by_root == "perf":
        pytest.skip("page faults cannot be traced there")
    events = [json.loads(line) for line in machine.output("trace-fixed").splitlines() if line.startswith("{")]
    assert [e["address"] for e in events] == [hex(0xCAFE0000 + i * 4096) for i in range(16)]
    assert len({e["ip"] for e in events}) == 1 and {e["event"] for e in events} == {"page_fault_user"}
    codes = [int(e["error_code"], 16) for e in events]
    if machine.machine == "x86_64":
        assert codes == [0x6] * 16
    else:
        assert codes == [0x92000045] + [0x92000047] * 15, list(map(hex, codes))


def complaints(machine):
    return "\n".join(re.findall(r"^.*(?:\bBUG:|\bWARNING:|\bOops\b|rcu.*stall|Call Trace).*$", machine.output("dmesg"), re.M))


def test_the_kernel_has_no_complaint(machine):
    assert not complaints(machine)
