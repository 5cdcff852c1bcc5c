# SPDX-License-Identifier: Apache-2.0
"""What each machine does, in this order. The tests look at what came out."""

import os
import re
import shutil
import sys

import fetch
import harness
import initramfs
import machine

sys.path.insert(0, os.path.join(harness.PROJECT, "tests", "live"))

import test_bad_access  # noqa: E402

CONFIG = "/etc/faultd/faultd.yaml"

# Scenarios of tests/live/workload.c, and the page faults of which they consist.
SCENARIOS = {
    "write": 20000,
    "filepages": 2000,
    "exec": 1000,
    "readinto": 2000,
    "cow": 2000,
    "denied": 2000,
    "threads": 5000,
}

# The table of the live tests, in which everything is counted; the default configuration leaves this one out.
VICTIMS = [row if row[0] != "abort" else (*row[:3], {}) for row in test_bad_access.TABLE]
# The daemon has the capabilities that its unit gives it, which on Debian's kernels is less than on others
# (kernel.perf_event_paranoid is 3), and the default configuration.
START = """
mkdir /run/faultd
# By its path: busybox has a smaller one, and prefers that.
/usr/bin/setpriv --no-new-privs --bounding-set {bounding} faultd --config {config} >/run/faultd.log 2>&1 &
echo $! >/run/faultd.pid
for n in $(seq 200); do
	wget -q -O /dev/null http://127.0.0.1:11011/metrics && exit 0
	kill -0 $! || exit 1
	sleep 0.1
done
exit 1
"""

STOP = """
kill -TERM $(cat /run/faultd.pid) || exit 1
for n in $(seq 100); do
	kill -0 $(cat /run/faultd.pid) 2>/dev/null || exit 0
	sleep 0.1
done
exit 1
"""

# Two events each, until the one that shows them has enough.
TRACE = """
faultctl trace --json --comm victim -n 400 >/run/trace 2>/run/trace.said &
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

# What the verifier says to the daemon's own way to load the programs, if it refuses any. Nobody waits for the end.
WHY = """
grep -q 'not usable' /run/faultd.log || exit 0
printf 'log: {level: debug}\\n' >/run/debug.yaml
timeout 10 faultd --config /run/debug.yaml 2>&1 | sed -n '/BEGIN PROG LOAD LOG/,/failed to load/p'
"""

# Each program of each object, by somebody else's loader, which prints all that the verifier says. With the constants as they
# are built: of code that they switch off the verifier sees nothing, and only the daemon's start is proof.
LOAD = """
code=0
for object in /usr/lib/bpf/*.bpf.o; do
	# It holds a program for a function that this architecture has not.
	[ $object = /usr/lib/bpf/page_fault.bpf.o ] && continue
	echo "== $object"
	bpftool prog loadall $object /sys/fs/bpf/$(basename $object .bpf.o) || code=1
done
exit $code
"""


def unit_capabilities():
    """As setpriv(1) takes a bounding set: "-all,+bpf,..."."""
    with open(os.path.join(harness.PROJECT, "systemd", "faultd.service.in")) as f:
        found = re.search(r"^CapabilityBoundingSet=(.+)$", f.read(), re.M)
    return ",".join(["-all"] + ["+" + name[len("CAP_") :].lower() for name in found[1].split()])


def fatal(row):
    """How many crashes a row of VICTIMS is, each of which leaves a record."""
    return sum(n for (_, _, outcome), n in row[3].items() if outcome == test_bad_access.FATAL)


def _steps():
    yield "release", "uname -r"
    yield "load", LOAD
    yield "check", f"faultd --config {CONFIG} --check"
    yield "start", START.format(bounding=unit_capabilities(), config=CONFIG)
    for scenario, n in SCENARIOS.items():
        yield f"count-{scenario}", f"count {scenario} {n}"
    cases = [":".join(map(str, (case, *arguments))) for case, arguments, _, _ in VICTIMS]
    yield "victims", f"victims {sum(map(fatal, VICTIMS))} {' '.join(cases)}"
    yield "crashes", "faultctl crashes --json"
    yield "selftest", "faultctl selftest --json"
    yield "trace", TRACE
    yield "stop", STOP
    yield "log", "cat /run/faultd.log"
    yield "why", WHY
    yield "dmesg", "dmesg"


STEPS = dict(_steps())
TOLD_ON_FAILURE = ("check", "log", "why")


def _other_program(name, package):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if not path:
        raise fetch.Unavailable(f"{name} is not installed (package {package})")
    return path


def tree():
    """What the steps run. Raises fetch.Unavailable."""
    tree = initramfs.Tree()
    for path, name in (("/usr/sbin", "faultd"), ("/usr/bin", "faultctl"), ("/usr/bin", "workload"), ("/usr/bin", "victim")):
        tree.program(f"{path}/{name}", harness.need_built(name))
    tree.program("/usr/bin/setpriv", _other_program("setpriv", "util-linux"))
    tree.program("/usr/sbin/bpftool", _other_program("bpftool", "bpftool"))
    for script in ("count", "victims"):
        tree.copy(f"/usr/bin/{script}", os.path.join(machine.GUEST, script))
    tree.copy(CONFIG, os.path.join(harness.PROJECT, "config", "faultd.yaml"))
    tree.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    tree.write("/etc/group", "root:x:0:\n")
    objects = os.path.join(harness.BUILD, "bpf")
    for name in sorted(os.listdir(objects)):
        if name.endswith(".bpf.o") and not name.endswith(".full.bpf.o"):
            tree.copy(f"/usr/lib/bpf/{name}", os.path.join(objects, name))
    return tree
