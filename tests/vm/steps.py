# SPDX-License-Identifier: Apache-2.0
"""What each machine does, in this order. The tests look at what came out."""

import json
import os
import re
import sys

import harness
import initramfs
import machine as machines

sys.path.insert(0, os.path.join(harness.PROJECT, "tests", "live"))

import test_bad_access  # noqa: E402

CONFIG = "/etc/faultd/faultd.yaml"
PORT, SECOND_PORT, TRY_PORT = 11011, 11012, 11013

# Scenarios of tests/live/workload.c, and the page faults of which they consist.
SCENARIOS = {
    "fixed": 16,
    "write": 20000,
    "filepages": 2000,
    "exec": 1000,
    "readinto": 2000,
    "cow": 2000,
    "denied": 2000,
    "threads": 5000,
}
# How often the scenario "preempted" interrupts itself on each CPU, and after how many microseconds.
INTERRUPTIONS, INTERVAL_US = 3000, 700

# The rungs by which page faults are counted: by a daemon that may do all, and by one that has what its unit gives it, which on
# Debian's kernels is less than on others (kernel.perf_event_paranoid is 3: CAP_PERFMON is not enough for perf events). arm64 can call
# BPF programs from functions since 6.4.
RUNGS = {
    "x86_64": {"6.1": ("tracepoint", "tracepoint"), "6.12": ("tracepoint", "tracepoint"), "7": ("tracepoint", "tracepoint")},
    "aarch64": {
        "6.1": ("perf", "memcg"),
        "6.12": ("fentry", "fentry"),
        "7": ("fentry", "fentry"),
        "own": ("tracepoint", "tracepoint"),  # of own_kernel.py
    },
}


# More of the kernel's parameters. Only there programs at functions can be preempted wherever they are; Debian's arm64 kernels 7 are
# built like that, those of x86_64 can be told to.
PARAMETERS = {("x86_64", "7"): "preempt=full"}
PREEMPTIBLE = {("x86_64", "7"): r"^Linux .* PREEMPT_DYNAMIC ", ("aarch64", "7"): r"^Linux .* PREEMPT "}


def rungs(machine, series):
    """(as root, as the unit)"""
    return RUNGS[machine][series]


def victims(machine):
    """The table of the live tests, in which everything is counted; the default configuration leaves one out. arm64's undefined
    instruction is called an illegal opcode, as its manual page says, not an illegal operand."""
    rows = [row if row[0] != "abort" else (*row[:3], {}) for row in test_bad_access.TABLE]
    if machine == "aarch64":
        illegal = {("SIGILL", "illopc", test_bad_access.FATAL): 1}
        rows = [row if row[0] != "illegal_instruction" else (*row[:3], illegal) for row in rows]
    return rows


# Two events each, until the one that shows them has enough.
TRACE_ALL = """
faultctl trace --json --comm victim -n {events} >/run/trace 2>/run/trace.said &
for n in $(seq 100); do
	grep -q tracing, /run/trace.said && break
	kill -0 $! || break
	sleep 0.1
done
for n in $(seq 50); do
	kill -0 $! 2>/dev/null || break
	victim null_write
done 2>/dev/null
wait $!
code=$?
cat /run/trace
[ $code = 0 ] || cat /run/trace.said
exit $code
"""

# The addresses are known, and in which order they are written.
TRACE_FIXED = """
faultctl trace --json --user --comm workload >/run/trace 2>/run/trace.said &
for n in $(seq 100); do
	grep -q tracing, /run/trace.said && break
	kill -0 $! || break
	sleep 0.1
done
echo | workload fixed >/dev/null
sleep 1
kill -INT $!
wait $!
grep '"address":"0xcafe' /run/trace || { cat /run/trace /run/trace.said; exit 1; }
"""

# A CPU that goes and comes back takes the perf event of its rung along. Between the two, and after it was back for two intervals, the
# other CPU's faults and its own are counted.
HOTPLUG = """
cpu=/sys/devices/system/cpu/cpu1/online
daemon start hotplug {port} /etc/faultd/hotplug.yaml || exit 1
CGROUP=before count threads 1000
echo 0 >$cpu
sleep 3
CGROUP=one-cpu count write 3000
echo 1 >$cpu
sleep 3
CGROUP=both-cpus count threads 1000
wget -q -O - http://127.0.0.1:{port}/metrics | grep 'faultd_drops_total{{reason="cpu_gap"}}'
cat /run/hotplug.log
daemon stop hotplug
"""

# What the verifier says to the daemon's own way to load the programs, if it refuses any. Nobody waits for the end.
WHY = """
grep -q 'not usable' /run/main.log || exit 0
printf 'log: {level: debug}\\n' >/run/debug.yaml
timeout 10 faultd --config /run/debug.yaml 2>&1 | sed -n '/BEGIN PROG LOAD LOG/,/failed to load/p'
"""

# Each program of the objects of which the kernels have all the hooks, by somebody else's loader, which prints all that the verifier
# says. With the constants as they are built: of code that they switch off the verifier sees nothing, and only the daemon's start is
# proof.
LOADED = {"x86_64": ("bad_access", "cgroup_life"), "aarch64": ("cgroup_life",)}
LOAD = """
code=0
for object in {objects}; do
	echo "== $object"
	bpftool prog loadall /usr/lib/bpf/$object.bpf.o /sys/fs/bpf/$object || code=1
done
exit $code
"""


def configuration(port, probes):
    return json.dumps({"scrape": {"listen": [f"127.0.0.1:{port}"]}, "control": {"socket": ""}, "probes": probes})


def unit_capabilities(but=None):
    """As setpriv(1) takes a bounding set: "-all,+bpf,..."."""
    with open(os.path.join(harness.PROJECT, "systemd", "faultd.service.in")) as f:
        found = re.search(r"^CapabilityBoundingSet=(.+)$", f.read(), re.M)
    names = [name[len("CAP_") :].lower() for name in found[1].split()]
    return ",".join(["-all"] + ["+" + name for name in names if name != but])


# What a daemon makes of a machine that denies it something: how page faults are to be counted, what it may do, what happens before.
# The tests have a table of what comes of each.
TRIES = {
    "root": ("auto", None, ""),
    "unit": ("auto", unit_capabilities(), ""),
    "no-perfmon": ("auto", unit_capabilities(but="perfmon"), ""),
    "no-capabilities": ("auto", "-all", ""),
    "no-btf": ("auto", unit_capabilities(), "mount -t tmpfs none /sys/kernel/btf"),
    "tracepoint": ("tracepoint", None, ""),
    "fentry": ("fentry", None, ""),
    "perf-paranoid-3": ("perf", unit_capabilities(), "sysctl -w kernel.perf_event_paranoid=3"),
    "perf-paranoid-2": ("perf", unit_capabilities(), "sysctl -w kernel.perf_event_paranoid=2"),
    "memcg": ("memcg", unit_capabilities(), ""),
}
AFTER_TRY = "umount /sys/kernel/btf 2>/dev/null; sysctl -q -w kernel.perf_event_paranoid=3"


def try_step(name):
    rung, capabilities, before = TRIES[name]
    return f"{before}\ndaemon try {name} {TRY_PORT} /etc/faultd/try-{rung}.yaml {capabilities or ''}\n{AFTER_TRY}"


def fatal(row):
    """How many crashes a row of victims() is, each of which leaves a record."""
    return sum(n for (_, _, outcome), n in row[3].items() if outcome == test_bad_access.FATAL)


def ordinary(machine, series):
    """{name: script} of a machine that is as the distribution wants it."""
    by_root, by_unit = rungs(machine, series)
    # memory.stat is not what is tested here.
    capabilities = unit_capabilities() if by_unit == by_root else ""
    steps = {"release": "uname -r", "load": LOAD.format(objects=" ".join(LOADED[machine]))}
    steps["start"] = f"daemon start main {PORT} {CONFIG} {capabilities}"
    if by_root != "perf":
        steps["start-second"] = f"daemon start second {SECOND_PORT} /etc/faultd/second.yaml"
    for scenario, n in SCENARIOS.items():
        steps[f"count-{scenario}"] = f"count {scenario} {n}"
    if by_root != "perf":
        steps["stop-second"] = "daemon stop second"
    steps["version"] = "uname -a; dmesg | grep 'Dynamic Preempt' || true"
    steps["preempted"] = f"count preempted {INTERRUPTIONS} {INTERVAL_US}"
    rows = victims(machine)
    cases = [":".join(map(str, (case, *arguments))) for case, arguments, _, _ in rows]
    steps["victims"] = f"victims {sum(map(fatal, rows))} {' '.join(cases)}"
    steps["crashes"] = "faultctl crashes --json"
    steps["selftest"] = "faultctl selftest --json"
    steps["trace"] = TRACE_ALL.replace("{events}", "400" if by_root != "perf" else "40")
    if by_root != "perf":
        steps["trace-fixed"] = TRACE_FIXED
    steps["stop"] = "daemon stop main"
    steps["memcg"] = (
        f"daemon start memcg {PORT} /etc/faultd/memcg.yaml {unit_capabilities()} && CGROUP=memcg WAIT=5 count write 20000 && daemon stop memcg"
    )
    steps["hotplug"] = HOTPLUG.format(port=PORT)
    for name in TRIES:
        steps[f"try-{name}"] = try_step(name)
    steps.update({"log": "cat /run/main.log", "why": WHY, "dmesg": "dmesg"})
    return steps


# Machines with a kernel parameter that takes something away: {name: (parameter, attempts)}.
ODD = {
    "no memory controller": ("cgroup_disable=memory", ("unit", "no-perfmon", "memcg")),
    "lockdown": ("lockdown=confidentiality", ("unit", "root", "memcg")),
}


ODD_KERNELS = [("x86_64", "6.12"), ("aarch64", "6.12")]


def odd(name):
    steps = {"cmdline": "cat /proc/cmdline", "lockdown": "cat /sys/kernel/security/lockdown || true"}
    steps.update({f"try-{t}": try_step(t) for t in ODD[name][1]})
    steps["dmesg"] = "dmesg"
    return steps


TOLD_ON_FAILURE = ("try-root", "start", "log", "why")


def tree(platform):
    """What the steps run. Raises fetch.Unavailable."""
    tree = initramfs.Tree(platform)
    for path, name in (("/usr/sbin", "faultd"), ("/usr/bin", "faultctl"), ("/usr/bin", "workload"), ("/usr/bin", "victim")):
        tree.program(f"{path}/{name}", platform.built(name))
    tree.program("/usr/bin/setpriv", *platform.other_program("setpriv", "util-linux", "libcap-ng0"))
    tree.program("/usr/sbin/bpftool", *platform.other_program("bpftool", "bpftool", "libcap2"))
    for script in ("count", "daemon", "victims"):
        tree.copy(f"/usr/bin/{script}", os.path.join(machines.GUEST, script))
    tree.copy(CONFIG, os.path.join(harness.PROJECT, "config", "faultd.yaml"))
    # A long interval: what the end of a handler takes back shall not have been told before, however slow the machine is.
    tree.write(CONFIG + ".d/50-slow.yaml", "interval: 10s\nwindows: [10s]\n")
    tree.write("/etc/faultd/second.yaml", configuration(SECOND_PORT, {"page_faults": "perf", "bad_access": False}))
    tree.write("/etc/faultd/hotplug.yaml", configuration(PORT, {"page_faults": "perf"}))
    tree.write("/etc/faultd/memcg.yaml", configuration(PORT, {"page_faults": "memcg"}))
    for rung in {rung for rung, _, _ in TRIES.values()}:
        tree.write(f"/etc/faultd/try-{rung}.yaml", configuration(TRY_PORT, {"page_faults": rung}))
    tree.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    tree.write("/etc/group", "root:x:0:\n")
    objects = os.path.join(platform.build, "bpf")
    for name in sorted(os.listdir(objects)):
        if name.endswith(".bpf.o") and not name.endswith(".full.bpf.o"):
            tree.copy(f"/usr/lib/bpf/{name}", os.path.join(objects, name))
    return tree
