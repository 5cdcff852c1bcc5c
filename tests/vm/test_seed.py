# SPDX-License-Identifier: Apache-2.0
"""arm64 with page-fault tracepoints, on a kernel that is built for this (own_kernel.py): what holds on other kernels holds there, the
tracepoints are the best rung, and show what the function that they stand for, do_mem_abort, shows.

Skipped where that kernel was not built. FAULTD_VM=seed, which "make vm-seed" sets, makes a failure of that.
"""

import json
import os
import re

import fetch
import machine as machines
import own_kernel
import pytest
import steps

# What is imported by its name runs here, too, on this file's machine.
from test_kernels import (  # noqa: F401
    CLASS,
    KERNEL_DENIED,
    counted,
    lines,
    test_bad_accesses_are_counted_exactly,
    test_counts_are_exact_under_preemption,
    test_crash_records_tell_who_how_and_where,
    test_each_crash_has_its_record,
    test_it_boots_and_gets_through,
    test_memory_stat_has_the_same_total,
    test_page_faults_are_counted_exactly,
    test_selftest_passes,
    test_the_daemon_starts_and_ends,
    test_the_daemon_takes_the_best_rung_and_says_why,
    test_the_kernel_has_no_complaint,
    test_the_rungs_agree,
    test_trace_shows_page_faults_and_bad_accesses,
    test_trace_shows_each_of_sixteen_writes_and_how_far_the_page_tables_went,
)

try:
    IMAGE = own_kernel.cached()
except fetch.Unavailable as e:
    if os.environ.get("FAULTD_VM") == "seed":
        raise
    pytest.skip(str(e), allow_module_level=True)

KERNEL = (own_kernel.PLATFORM.machine, "own")
BY_FUNCTION = "/etc/faultd/fentry.yaml"

# Arm ARM, ESR_EL1: bits 26 to 31 the exception's class, of which 0x24 is a data abort of user mode and 0x25 one of the kernel; bit 25
# set; bit 6 a write; the low six bits 4 to 7 a translation fault, at levels 0 to 3 of the page tables.
USER_WRITE, KERNEL_WRITE = 0x92000044, 0x96000044
# The GiB of the 16 pages has nothing else, but the 512 GiB of which it is a part have.
SIXTEEN = [USER_WRITE + 1] + [USER_WRITE + 3] * 15
READS = 32

# One run of a new program, from exec on.
TRACE = """
faultctl trace {options} --comm workload >/run/trace 2>/run/trace.said &
for n in $(seq 100); do
	grep -q tracing, /run/trace.said && break
	kill -0 $! || break
	sleep 0.1
done
echo | workload {work} >/dev/null
sleep 1
kill -INT $!
wait $!
cat /run/trace /run/trace.said
"""

RUNGS = """
for port in {} {}; do
	wget -q -O - http://127.0.0.1:$port/metrics | sed -n 's/^faultd_probe_info{{/probe {{/p'
done
"""


def of_both_rungs():
    """{name: script}: two daemons count the same work, each by its rung."""
    capabilities = steps.unit_capabilities()
    return {
        "events": "cd /sys/kernel/tracing/events/exceptions && ls -d page_fault_*",
        "check": f"/usr/bin/setpriv --no-new-privs --bounding-set {capabilities} faultd --check --config {steps.CONFIG}",
        "start-by-tracepoint": f"daemon start main {steps.PORT} {steps.CONFIG} {capabilities}",
        "start-by-function": f"daemon start second {steps.SECOND_PORT} {BY_FUNCTION} {capabilities}",
        "rungs": RUNGS.format(steps.PORT, steps.SECOND_PORT),
        **{f"both-{scenario}": f"CGROUP=both-{scenario} count {scenario} {n}" for scenario, n in steps.SCENARIOS.items()},
        "stop-by-function": "daemon stop second",
        "stop-by-tracepoint": "daemon stop main",
        "trace-text": TRACE.format(options="--user", work="fixed"),
        "trace-user": TRACE.format(options="--json --user", work="fixed"),
        "trace-kernel": TRACE.format(options="--json --kernel", work=f"readinto {READS}"),
    }


def scripts():
    # The first ones' last steps show what is left of all.
    ordinary = steps.ordinary(*KERNEL)
    last = {name: ordinary.pop(name) for name in ("log", "why", "dmesg")}
    return {**ordinary, **of_both_rungs(), **last}


def tree():
    tree = steps.tree(own_kernel.PLATFORM)
    tree.write(BY_FUNCTION, steps.configuration(steps.SECOND_PORT, {"page_faults": "fentry", "bad_access": False}))
    return tree


@pytest.fixture(scope="session")
def machine():
    try:
        booted = machines.boot(own_kernel.PLATFORM, IMAGE, tree(), scripts())
    except fetch.Unavailable as e:
        assert os.environ.get("FAULTD_VM") != "seed", str(e)
        pytest.skip(str(e))
    booted.machine, booted.series = KERNEL
    booted.by_root, booted.by_unit = steps.rungs(*KERNEL)
    return booted


def events(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_the_kernel_has_the_tracepoints(machine):
    assert machine.release.endswith(own_kernel.SUFFIX)
    assert machine.output("events").split() == ["page_fault_kernel", "page_fault_user"]


def test_check_chooses_the_tracepoints_and_finds_the_function_usable(machine):
    plan = machine.output("check")
    assert re.search(r"^# +tracepoint +chosen: exact counts by mode, access and kind", plan, re.M), plan
    assert re.search(r"^# +fentry +usable: exact counts by mode, access and kind", plan, re.M), plan
    assert re.search(r"^# +page faults by tracepoint,", plan, re.M), plan


def test_each_of_two_daemons_has_its_rung(machine):
    for name in ("start-by-tracepoint", "start-by-function", "stop-by-function", "stop-by-tracepoint"):
        machine.output(name)
    assert re.findall(r'^probe {probe="page_faults",backend="(\w+)"} 1$', machine.output("rungs"), re.M) == ["tracepoint", "fentry"]


@pytest.mark.parametrize("scenario", steps.SCENARIOS)
def test_the_tracepoints_and_the_function_agree(machine, scenario):
    output = machine.output(f"both-{scenario}")
    growth, by_function = (counted(output, f"/both-{scenario}", f"before{n}", f"after{n}") for n in ("", "2"))
    assert growth == by_function, output
    # After a fork the kernel, too, writes to pages that are shared: what it answers.
    if scenario == "cow":
        growth.pop(KERNEL_DENIED, None)
    planned = steps.SCENARIOS[scenario] * (machines.CPUS if scenario == "threads" else 1)
    assert growth == {CLASS[scenario]: planned} and int(lines(output, "said")[1].split()[1]) == planned, output


def test_trace_shows_sixteen_writes_of_which_the_first_lacks_tables_from_level_1_on(machine):
    shown = [e for e in events(machine.output("trace-user")) if e["address"].startswith("0xcafe")]
    assert [e["address"] for e in shown] == [hex(0xCAFE0000 + i * 4096) for i in range(16)]
    assert [int(e["error_code"], 16) for e in shown] == SIXTEEN, shown
    assert {e["event"] for e in shown} == {"page_fault_user"} and len({e["ip"] for e in shown}) == 1, shown
    assert {(e["mode"], e["access"], e["kind"]) for e in shown} == {("user", "write", "missing")}
    assert [e["details"].split("|")[-1] for e in shown] == ["TRANSLATION_L1"] + ["TRANSLATION_L3"] * 15


def test_trace_says_it_in_words(machine):
    shown = [line for line in machine.output("trace-text").splitlines() if "address=0xcafe" in line]
    assert len(shown) == 16 and all("page_fault_user" in line and "(user write, missing)" in line for line in shown), shown


def test_trace_shows_what_the_kernel_writes_in_exec_and_in_read(machine):
    shown = events(machine.output("trace-kernel"))
    assert {(e["event"], e["mode"], e["module"]) for e in shown} == {("page_fault_kernel", "kernel", "[kernel]")}
    by_function = {}
    for e in shown:
        by_function.setdefault(e["symbol"].lstrip("_"), []).append(e)
    # The end of the new program's data is cleared; it is far from the stack, and there are no tables for it yet.
    assert KERNEL_WRITE in [int(e["error_code"], 16) for e in by_function["arch_clear_user"]], by_function
    # read(2) into pages that nobody touched before. Only the first could lack more than its own entry.
    copied = by_function["arch_copy_to_user"]
    assert len(copied) == READS, by_function
    assert [int(e["error_code"], 16) for e in copied[1:]] == [KERNEL_WRITE + 3] * (READS - 1), by_function
    assert {(e["access"], e["kind"]) for e in copied} == {("write", "missing")}
