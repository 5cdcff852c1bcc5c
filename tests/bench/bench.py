#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What faultd costs: `make bench`.

Everything that is compared is measured in turns, in random order, within this one run, so that a busy or throttled host
hits all alike. Figures are medians with quartiles or with a bootstrapped 95 % interval; what counts are the ratios.
Writes a report in Markdown to standard output and, with --write, between the markers of docs/performance.md.
"""

import argparse
import contextlib
import datetime
import os
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

for folder in ("lib", "vm"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), folder))

import fetch  # noqa: E402
import harness  # noqa: E402
import initramfs  # noqa: E402
import kernels  # noqa: E402
import machine as machines  # noqa: E402
import platforms  # noqa: E402
from harness import Cgroup, Daemon, built  # noqa: E402

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
EVENTS = "exceptions:page_fault_user,exceptions:page_fault_kernel"
BPFTRACE = "BEGIN { printf(\"ready\\n\"); } tracepoint:exceptions:page_fault_user { @[cgroup] = count(); }"
PROCESSES = 10  # of Faulters
WORKS = {"read": "read of the shared zero page", "write": "write to a fresh page", "signal": "forbidden access, to its handler and back"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def program(name):
    path = built(name)
    if not path:
        sys.exit(f"bench: {name} is not in {harness.BUILD}: build first, or set FAULTD_BUILD")
    return path


def run(*argv):
    return subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True).stdout


# ---- statistics ----


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def spread(values, digits=1):
    low, middle, high = quartiles(values)
    return f"{middle:,.{digits}f} [{low:,.{digits}f} .. {high:,.{digits}f}]"


def fast(values):
    """The lower quartile. A virtual machine's CPU is often a hardware thread whose twin somebody else uses, and has two speeds
    that change by the second; this is the faster one, as long as it came up in a quarter of the rounds."""
    return quartiles(values)[0]


def ratio(over, under, times=2000):
    """Ratio of the medians of two paired lists, and its bootstrapped 95 % interval: (value, low, high), or None."""
    dice = random.Random(1)
    pairs = list(zip(over, under))
    found = []
    for _ in range(times):
        sample = dice.choices(pairs, k=len(pairs))
        below = statistics.median(p[1] for p in sample)
        if below > 0:
            found.append(statistics.median(p[0] for p in sample) / below)
    middle = statistics.median(under)
    if middle <= 0 or len(found) < times / 2:
        return None
    found.sort()
    return statistics.median(over) / middle, found[int(len(found) * 0.025)], found[int(len(found) * 0.975)]


def ratio_text(r):
    return f"{r[0]:.2f} [{r[1]:.2f} .. {r[2]:.2f}]" if r else "not resolved"


def wanted(value, limit, unit, at_most=True):
    met = value <= limit if at_most else value >= limit
    return f"{'met' if met else 'NOT met'} (wanted {'<=' if at_most else '>='} {limit:g}{unit})"


class Table:
    def __init__(self, *head):
        self.lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]

    def add(self, *cells):
        self.lines.append("| " + " | ".join(str(c) for c in cells) + " |")

    def __str__(self):
        return "\n".join(self.lines) + "\n"


# ---- 1. the programs themselves ----


def programs(processes, rounds):
    """Attaching alternately within one process. Several processes, since where their memory lies sways all of their rounds:
    each process gives one figure."""
    added = {}  # (work, variant) -> one median per process
    base = {}
    for n in range(processes):
        say(f"programs: process {n + 1} of {processes}")
        samples = {}
        for line in run(program("fault_cost"), "compare", rounds, 250).splitlines():
            work, variant, at, ns = line.split()
            samples.setdefault((work, variant), {})[at] = float(ns)
        for (work, variant), by_round in samples.items():
            none = samples[work, "none"]
            if variant == "none":
                base.setdefault(work, []).append(statistics.median(none.values()))
            else:
                added.setdefault((work, variant), []).append(statistics.median(by_round[r] - none[r] for r in none))
    table = Table("work", "fault alone, ns", "empty program, + ns", "faultd's programs, + ns", "ratio to empty [95 %]")
    ratios = {}
    for work, text in WORKS.items():
        if work == "signal":  # more than one program runs: the empty one is no measure
            continue
        ratios[work] = ratio(added[work, "faultd"], added[work, "empty"])
        table.add(text, spread(base[work], 0), spread(added[work, "empty"]), spread(added[work, "faultd"]),
                  ratio_text(ratios[work]))
    share = statistics.median(added["signal", "faultd"]) / statistics.median(base["signal"]) * 100
    table.add(WORKS["signal"], spread(base["signal"], 0), "", spread(added["signal", "faultd"]), f"+{share:.1f} %")
    report = "### The BPF programs\n\n" + str(table)
    table = Table("work", "with bad_access.latency, + ns")
    for work, text in WORKS.items():
        table.add(text, spread(added[work, "latency"]))
    report += "\n" + str(table)
    report += f"\n{processes} processes, {rounds} rounds each; per round and variant the median of 21 batches of 250 faults.\n"
    if ratios["read"]:
        report += f"Ratio over reads: {wanted(ratios['read'][0], 1.3, 'x the empty program')}.\n"
    report += f"From the fault to its handler and back, as lat_sig prot has it: {wanted(share, 10, ' %')}.\n"
    return report


# ---- 2. the rungs below ----

EMULATED = ("aarch64", "6.12", "fentry")


def emulated_costs(rounds):
    """What fault_cost says on a kernel that has the rung, in an emulated machine. Raises fetch.Unavailable."""
    machine, series, rung = EMULATED
    platform = platforms.PLATFORMS[machine]
    tree = initramfs.Tree(platform)
    tree.program("/usr/bin/fault_cost", platform.built("fault_cost"))
    booted = machines.boot(platform, kernels.image(machine, series), tree, {"cost": f"fault_cost compare {rounds} 100 {rung}"})
    return booted.release, booted.output("cost")


def added_costs(said):
    """{work: ([empty program, + ns], [faultd, + ns])} by round."""
    samples = {}
    for work, variant, _, ns in map(str.split, said.splitlines()):
        samples.setdefault((work, variant), []).append(float(ns))
    return {work: tuple([a - b for a, b in zip(samples[work, v], samples[work, "none"])] for v in ("empty", "faultd")) for work in WORKS}


def rungs(processes, rounds):
    """Where there are no tracepoints. In an emulated machine only the ratio means something."""
    table = Table("page faults by", "work", "empty program, + ns", "faultd's programs, + ns", "ratio to empty [95 %]")

    def add(name, costs, digits=1):
        for work in ("read", "write"):
            empty, counting = costs[work]
            table.add(name, WORKS[work], spread(empty, digits), spread(counting, digits), ratio_text(ratio(counting, empty)))

    gathered = {work: ([], []) for work in WORKS}
    for n in range(processes):
        say(f"rungs: process {n + 1} of {processes}")
        for work, both in added_costs(run(program("fault_cost"), "compare", rounds, 250, "perf")).items():
            for all_of_it, values in zip(gathered[work], both):
                all_of_it.append(statistics.median(values))
    add("perf event, here", gathered)
    say("rungs: in an emulated machine")
    report = "### The rungs below\n\n"
    try:
        release, said = emulated_costs(rounds)
        add(f"{EMULATED[2]}, emulated {EMULATED[0]}, {release}", added_costs(said), 0)
    except fetch.Unavailable as e:
        report += f"By {EMULATED[2]} not measured: {e}.\n\n"
    return report + str(table) + "\nThe time of an emulated machine is none of a real one: there only the ratio counts.\n"


# ---- 3. the daemon among other tools ----


@contextlib.contextmanager
def process(argv, ready=None, settle=0.3, sig=signal.SIGINT):
    """Runs a tool until the block ends; `ready` is what it prints when it has attached. Gives what it wrote, in a list."""
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
        written = []

        def text():
            out.flush()
            return os.pread(out.fileno(), 1 << 20, 0).decode(errors="replace")

        try:
            if ready:
                harness.wait_until(lambda: re.search(ready, text()) or p.poll() is not None, 20, f"{argv[0]}")
            time.sleep(settle)
            if p.poll() is not None:
                raise RuntimeError(f"{argv[0]} ended by itself: {text()[-300:]}")
            yield written
        finally:
            if p.poll() is None:
                p.send_signal(sig)
            p.stdin.close()
            p.wait(20)
            written.append(text())


@contextlib.contextmanager
def nothing():
    time.sleep(0.3)
    yield


@contextlib.contextmanager
def empty_program():
    with process([program("fault_cost"), "hold"], ready="ready"):
        yield


@contextlib.contextmanager
def faultd():
    with Daemon({"interval": "1s", "windows": ["10s", "1m", "5m"], "log": {"level": "info"}}) as d:
        time.sleep(0.3)
        yield
        if d.faults(mode="user") < 10000:
            raise RuntimeError("faultd did not count")


@contextlib.contextmanager
def bpftrace():
    with process(["bpftrace", "-e", BPFTRACE], ready="ready", settle=0.7) as out:
        yield
    if not any(int(n) > 10000 for n in re.findall(r"@\[\d+\]: (\d+)", out[0])):
        raise RuntimeError("bpftrace did not count: " + out[0][-300:])


@contextlib.contextmanager
def perf_stat():
    with process(["perf", "stat", "-a", "-x", ";", "-e", EVENTS], settle=0.7) as out:
        yield
    if not any(int(n) > 10000 for n in re.findall(r"^(\d+);", out[0], re.M)):
        raise RuntimeError("perf stat did not count: " + out[0][-300:])


@contextlib.contextmanager
def perf_record():
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        with process(["perf", "record", "-a", "-q", "-e", EVENTS, "-o", data], settle=0.7):
            yield
        if os.path.getsize(data) < 1 << 20:
            raise RuntimeError("perf record did not record")


TOOLS = {  # name -> (how to run it, program that must be there)
    "nothing": (nothing, None),
    "empty tp_btf program": (empty_program, None),
    "faultd, whole daemon": (faultd, None),
    "perf stat -a": (perf_stat, "perf"),
    "bpftrace, count by cgroup": (bpftrace, "bpftrace"),
    "perf record -a": (perf_record, "perf"),
}


class Faulters:
    """Processes that fault on demand and tell what a fault cost. They outlive the tools, so that each is compared with itself:
    where a process's memory lies sways all that it measures."""

    def __init__(self, n):
        argv = [program("fault_cost"), "serve", "200", "250"]
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.processes = [subprocess.Popen(argv, **pipes) for _ in range(n)]

    def measure(self):
        """One {work: ns} per process."""
        found = []
        for p in self.processes:
            p.stdin.write("\n")
            p.stdin.flush()
            found.append(dict(zip(WORKS, map(float, p.stdout.readline().split()))))
        return found

    def __enter__(self):
        self.measure()
        return self

    def __exit__(self, *exc):
        for p in self.processes:
            p.stdin.close()
            p.wait(10)
            p.stdout.close()


def visit(name, faulters, pages, faults, seed):
    """One round of one tool."""
    with TOOLS[name][0]():
        for at, found in enumerate(faulters.measure()):
            for work, ns in found.items():
                faults.setdefault((work, name), [[] for _ in range(PROCESSES)])[at].append(ns)
        seed[name].append(min(float(ms) for ms in run(program("fault_cost"), "seed", 3, pages).split()))


def tools(rounds, pages):
    """Each tool in turn, and while it runs other processes that fault. Also maps and writes `pages` pages."""
    missing = {name: needs for name, (_, needs) in TOOLS.items() if needs and not shutil.which(needs)}
    if "perf stat -a" not in missing:
        harness.need_perf()  # mounts tracefs
    names = [name for name in TOOLS if name not in missing]
    faults = {}  # (work, name) -> by process, ns by round
    seed = {name: [] for name in names}
    failed = {}
    with Faulters(PROCESSES) as faulters:
        for n in range(rounds):
            say(f"tools: round {n + 1} of {rounds}")
            random.shuffle(names)
            for name in [n for n in names if n not in failed]:
                try:
                    visit(name, faulters, pages, faults, seed)
                except (RuntimeError, AssertionError, OSError, subprocess.SubprocessError) as e:
                    if name in ("nothing", "empty tp_btf program", "faultd, whole daemon"):
                        raise
                    failed[name] = str(e)
                    say(f"tools: {name}: {e}")

    table = Table("tool", *(f"{text}, + ns [quartiles]" for text in WORKS.values()), "ratio to empty [95 %]")
    added = {}
    alone = {key: [fast(rounds_of) for rounds_of in by_process] for key, by_process in faults.items()}
    for name in TOOLS:
        if name in missing or name in failed:
            table.add(name, "", "", f"skipped: {missing[name]} is not installed" if name in missing else f"failed: {failed[name]}")
            continue
        if name == "nothing":
            table.add(name, *(spread(alone[work, name], 0) + " in all" for work in WORKS), "")
            continue
        for work in WORKS:
            added[work, name] = [t - b for t, b in zip(alone[work, name], alone[work, "nothing"])]
        against = ratio(added["read", name], added["read", "empty tp_btf program"])
        table.add(name, *(spread(added[work, name]) for work in WORKS), "1" if name.startswith("empty") else ratio_text(against))
    report = "### The daemon among other tools\n\n" + str(table)
    report += (f"\n{rounds} rounds, each tool started anew in each. {PROCESSES} processes that outlive the tools are each compared with "
               "themselves: the lower quartile over the rounds of the fast tenth of 200 batches of 250 faults. "
               "The ratio is that of reads.\n")
    if ("read", "bpftrace, count by cgroup") in added:
        times = ratio(added["read", "bpftrace, count by cgroup"], added["read", "faultd, whole daemon"])
        if times:
            report += f"bpftrace costs {ratio_text(times)} times what faultd does: {wanted(times[0], 4, '', at_most=False)}.\n"

    table = Table("tool", f"map and write {pages:,} pages, ms [quartiles]", "change of the lower quartile, %")
    for name in TOOLS:
        if name in missing or name in failed:
            continue
        change = 100 * (fast(seed[name]) / fast(seed["nothing"]) - 1)
        table.add(name, spread(seed[name]), "" if name == "nothing" else f"{change:+.1f}")
    return report + "\n### Mapping and writing many pages\n\n" + str(table)


# ---- 4. many cgroups ----


def status_kib(pid, key):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key + ":"))


def cpu_ns(pid):
    """Nanoseconds on the CPU, of all threads."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total


def cpu_share(pid, seconds):
    before, began = cpu_ns(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_ns(pid) - before) / ((time.monotonic() - began) * 1e9)


def scrape_ms(url, n, *options):
    """Medians by curl, from connect to the last byte."""
    times, size = [], 0
    for _ in range(n):
        out = run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code} %{time_total} %{size_download}", *options, url + "/metrics")
        code, seconds, size = out.split()
        if code != "200":
            raise RuntimeError(f"scrape answered {code}")
        times.append(float(seconds) * 1000)
    return times, int(size)


def many(cgroups, seconds, quiet_seconds):
    table = Table("figure", "value", "wanted")
    with Daemon({"interval": "1s", "windows": ["10s", "1m", "5m"], "cgroups": {"max": cgroups + 24}, "log": {"level": "info"}}) as d:
        empty_rss = status_kib(d.pid, "VmRSS")
        with Cgroup() as home:
            say(f"many: making {cgroups} cgroups")
            for i in range(cgroups):
                home.child(f"c{i}")
            visitor = subprocess.Popen([program("fault_cost"), "visit", home.dir, str(cgroups)])
            try:
                harness.wait_until(lambda: len(d.metrics().cgroups()) > cgroups, 30, "all cgroups in the exposition")
                say(f"many: {seconds} s with faults in each")
                busy = cpu_share(d.pid, seconds)
                rss, anonymous = status_kib(d.pid, "VmRSS"), status_kib(d.pid, "RssAnon")
                plain, size = scrape_ms(d.url, 41)
                packed, packed_size = scrape_ms(d.url, 41, "--compressed")
                scrape_rss = status_kib(d.pid, "VmRSS")
            finally:
                visitor.kill()
                visitor.wait()
            say(f"many: {quiet_seconds} s without faults")
            quiet = cpu_share(d.pid, quiet_seconds)
            live = d.metrics()
            late = live.sum("faultd_late_ticks_total")
            drops = {s.labels["reason"]: int(s.value) for s in live.samples("faultd_drops_total") if s.value}
    table.add("resident memory, MiB", f"{rss / 1024:.1f} ({anonymous / 1024:.1f} of it private; {empty_rss / 1024:.1f} at start, "
              f"{scrape_rss / 1024:.1f} after scrapes)", wanted(rss / 1024, 10, " MiB"))
    table.add(f"CPU, faults in each of the {cgroups:,} cgroups every second, % of a core", f"{busy:.3f}", wanted(busy, 0.1, " %"))
    table.add("CPU, no faults in them, % of a core", f"{quiet:.3f}", wanted(quiet, 0.1, " %"))
    table.add(f"scrape, {size / 1024:,.0f} KiB of text, ms", spread(plain, 2), wanted(statistics.median(plain), 5, " ms"))
    table.add(f"scrape, gzip, {packed_size / 1024:,.0f} KiB, ms", spread(packed, 2), "")
    for line in run(program("encode_cost"), cgroups, 201).splitlines():
        shape, name, median, high, size = line.split()
        limit = wanted(float(median), 2, " ms") if name == "otlp" else ""
        table.add(f"encoding {shape} as {name}, {int(size) / 1024:,.0f} KiB, ms", f"{float(median):.2f} (95 %: {float(high):.2f})", limit)
    report = f"### {cgroups:,} live cgroups, interval 1 s\n\n{table}\nCPU over {seconds} and {quiet_seconds} s. Late ticks: {late}. "
    return report + f"Drops: {drops or 'none'}.\n"


# ---- report ----


def host():
    model = ""
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), os.uname().machine)
    load = os.getloadavg()[0]
    text = f"{datetime.date.today():%-d %B %Y}, kernel {os.uname().release}, {os.cpu_count()} CPUs ({model}), load before {load:.1f}"
    return text


def write_report(report, path):
    with contextlib.suppress(FileNotFoundError):
        with open(path) as f:
            text = f.read()
        if BEGIN in text and END in text:
            head, rest = text.split(BEGIN, 1)
            report = head + BEGIN + "\n" + report + END + rest.split(END, 1)[1]
        else:
            report = text.rstrip("\n") + f"\n\n{BEGIN}\n{report}{END}\n"
    if BEGIN not in report:
        report = f"# Performance\n\n{BEGIN}\n{report}{END}\n"
    with open(path, "w") as f:
        f.write(report)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the report into docs/performance.md")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works, not for figures")
    parser.add_argument("--only", choices=["programs", "rungs", "tools", "many"], action="append", help="only this part")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: needs root")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two descriptors per cgroup

    said = "make bench" if not args.quick and not args.only else "tests/bench/bench.py " + " ".join(sys.argv[1:])
    report = f"{host()}; by `{said}`.\nMedians with [quartiles] unless said otherwise; +: added to a fault's cost.\n"
    began = time.monotonic()
    parts = args.only or ["programs", "rungs", "tools", "many"]
    if "programs" in parts:
        report += "\n" + (programs(2, 10) if args.quick else programs(24, 30))
    if "rungs" in parts:
        report += "\n" + (rungs(2, 5) if args.quick else rungs(12, 20))
    if "tools" in parts:
        report += "\n" + (tools(2, 20000) if args.quick else tools(10, 100000))
    if "many" in parts:
        report += "\n" + (many(200, 5, 5) if args.quick else many(1000, 60, 20))
    report += f"\nThe run took {time.monotonic() - began:.0f} s.\n"
    print(report, end="")
    if args.write:
        write_report(report, os.path.join(harness.PROJECT, "docs", "performance.md"))


if __name__ == "__main__":
    main()
