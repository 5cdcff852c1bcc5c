# SPDX-License-Identifier: Apache-2.0
"""On each kernel: the BPF objects load, the daemon takes its best rung, and its counts are those that were planned."""

import json
import re
import subprocess

import machine as machines
import pytest
import steps
from harness import Metrics, need_built

USER_READ = ("user", "read", "missing")
USER_WRITE = ("user", "write", "missing")
USER_EXEC = ("user", "exec", "missing")
USER_DENIED = ("user", "write", "protection")
KERNEL_WRITE = ("kernel", "write", "missing")
KERNEL_DENIED = ("kernel", "write", "protection")

# What the scenario's faults are; "threads" does them once on each CPU.
CLASS = {
    "write": USER_WRITE,
    "filepages": USER_READ,
    "exec": USER_EXEC,
    "readinto": KERNEL_WRITE,
    "cow": USER_DENIED,
    "denied": USER_DENIED,
    "threads": USER_WRITE,
}


# What the processor says of some of the victim's cases (Intel SDM volume 3, 4.7): bit 0, the page is there; 1, a write; 2, by user
# mode; 4, a fetch. The read-only page was never touched; that without the right to execute was written.
ERROR_CODES = {"null_read": "0x4", "null_write": "0x6", "read_only": "0x6", "no_exec": "0x15"}


# Of the self-test's cases, those for which qemu's processor raises no exception or another one, and what is said then.
NOT_EMULATED = {
    "misaligned": "no signal came",
    "float-divide": "no signal came",
    "non-canonical-stack": "the process died of SIGSEGV",
}
# Those that some kernels or this processor lack, that are asked for by name, and whose signals are not counted by default.
MAY_BE_SKIPPED = {"guard-marker", "shadow-stack", "memory-tag", "memory-failure", "breakpoint", "seccomp", "abort"}


def lines(text, word):
    """The rest of the lines that begin with a word."""
    return [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith(word + " ")]


def exposition(output, word):
    return Metrics("".join(f"{line}\n" for line in lines(output, word)))


def counted(output, cgroup):
    """{class: growth} of a cgroup between the two scrapes of guest/count."""
    before, after = exposition(output, "before"), exposition(output, "after")
    first = before.fault_classes(cgroup)
    return {k: n - first.get(k, 0) for k, n in after.fault_classes(cgroup).items() if n != first.get(k, 0)}


def test_it_boots_and_gets_through(machine):
    assert machine.output("release").strip() == machine.release
    assert machine.finished, f"{machine.release}: it did not power off by itself; {machine.story()}"


def test_every_bpf_object_loads_as_it_is_built(machine):
    assert "== /usr/lib/bpf/bad_access.bpf.o" in machine.output("load")


def test_check_finds_the_tracepoints_usable(machine):
    plan = machine.output("check")
    assert re.search(r"^# +tracepoint +chosen: exact counts", plan, re.M), plan
    assert re.search(r"^# +bad accesses by tracepoint +chosen: exact counts", plan, re.M), plan


def test_the_daemon_starts_with_its_unit_s_capabilities_and_ends(machine):
    machine.output("start")
    machine.output("stop")


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
    of_kernel = growth.pop(KERNEL_DENIED, 0) if scenario == "cow" else 0
    assert growth == {CLASS[scenario]: planned}, output
    # The second witness is getrusage(2). It does not know of faults that end in a signal.
    if scenario != "denied":
        assert planned <= minor <= planned + of_kernel


def why_skipped(output, case):
    """What a victim said that cannot do its case on this machine, or None."""
    said = [line.removeprefix(f"{case} skip ") for line in lines(output, "said") if line.startswith(f"{case} skip ")]
    return said[0] if said else None


@pytest.mark.parametrize("case, arguments, ends_by, counts", steps.VICTIMS, ids=[row[0] for row in steps.VICTIMS])
def test_bad_accesses_are_counted_exactly(machine, case, arguments, ends_by, counts):
    output = machine.output("victims")
    if why_skipped(output, case):
        pytest.skip(why_skipped(output, case))
    assert f"{case} {128 + ends_by if ends_by else 0}" in lines(output, "ended")
    if arguments and counts:
        assert f"{case} handled {sum(counts.values())}" in lines(output, "said")
    samples = exposition(output, "after").samples("faultd_bad_accesses_total", cgroup=f"/{case}")
    assert {(s.labels["signal"], s.labels["code"], s.labels["outcome"]): s.value for s in samples} == counts


def test_each_crash_has_its_record(machine):
    output = machine.output("victims")
    records = sum(steps.fatal(row) for row in steps.VICTIMS if not why_skipped(output, row[0]))
    after = exposition(output, "after")
    assert after.value("faultd_crash_records_total", result="kept") == records
    assert after.sum("faultd_crash_records_total") == records


def build_id(program):
    notes = subprocess.run(["readelf", "--notes", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


def test_crash_records_tell_who_how_and_where(machine):
    records = {r["cgroup"]: r for r in map(json.loads, machine.output("crashes").splitlines())}
    here = build_id(need_built("victim"))
    for case, error_code in ERROR_CODES.items():
        r = records[f"/{case}"]
        assert (r["comm"], r["exe"], r["error_code"]) == ("victim", "/usr/bin/victim", error_code), r
        # Only there the program does not run its own code.
        assert case == "no_exec" or r["frames"][0].get("build_id") == here, r


def test_selftest_passes(machine):
    step = machine.step("selftest")
    rows = {row["case"]: row for row in map(json.loads, step.output.splitlines())}
    by_result = {"pass": set(), "fail": set(), "skipped": set(), "info": set()}
    for case, row in rows.items():
        by_result[row["result"]].add(case)
    for case in by_result["fail"] & set(NOT_EMULATED):
        assert rows[case]["text"] == NOT_EMULATED[case], rows[case]
    assert by_result["fail"] <= set(NOT_EMULATED), [rows[case] for case in by_result["fail"]]
    assert by_result["skipped"] <= MAY_BE_SKIPPED, [rows[case] for case in by_result["skipped"]]
    assert by_result["pass"] and step.code == (1 if by_result["fail"] else 0), step.output


def test_trace_shows_page_faults_and_bad_accesses(machine):
    events = [json.loads(line) for line in machine.output("trace").splitlines()]
    assert len(events) == 400
    by_event = {event: [e for e in events if e["event"] == event] for event in {e["event"] for e in events}}
    assert set(by_event) == {"page_fault_user", "page_fault_kernel", "bad_access"}
    for e in by_event["bad_access"]:
        # Where tests/live/victim.c writes to, from its own code.
        assert (e["signal"], e["code"], e["outcome"]) == ("SIGSEGV", "maperr", "fatal"), e
        assert (e["address"], e["error_code"], e["module"]) == ("0x8", ERROR_CODES["null_write"], "victim"), e
    assert {e["module"] for e in by_event["page_fault_kernel"]} == {"[kernel]"}


def test_the_kernel_has_no_complaint(machine):
    bad = re.findall(r"^.*(?:\bBUG:|\bWARNING:|\bOops\b|rcu.*stall|Call Trace).*$", machine.output("dmesg"), re.M)
    assert not bad, "\n".join(bad)
