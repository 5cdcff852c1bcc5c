# SPDX-License-Identifier: Apache-2.0
"""What a daemon does on a machine that denies it something: the rung that counts page faults or None, its exit code, and what its log
says (an expression)."""

import harness
import steps

MEANING = {
    "root": "as root",
    "unit": "as the unit",
    "no-perfmon": "as the unit, without CAP_PERFMON",
    "no-capabilities": "root without any capability",
    "no-btf": "no BTF",
    "tracepoint": "`tracepoint` asked for",
    "fentry": "`fentry` asked for",
    "perf-paranoid-3": "`perf` asked for, as the unit, perf_event_paranoid 3",
    "perf-paranoid-2": "`perf` asked for, as the unit, perf_event_paranoid 2",
    "memcg": "`memcg` asked for",
}
# (odd machine or None, attempt)
ROWS = [(None, name) for name in steps.TRIES] + [(odd, name) for odd, (_, names) in steps.ODD.items() for name in names]

NEED = "CAP_BPF and CAP_PERFMON are needed"
NO_TRACEPOINT = "the kernel has no tracepoints exceptions:page_fault_user"
NO_FUNCTION = "the kernel has no function do_mem_abort"
NO_CALL = "the kernel cannot call BPF programs from its functions"
NO_BTF = r"no type information \(/sys/kernel/btf/vmlinux\)"
PARANOID = "kernel.perf_event_paranoid is 3; set it to 2"
NO_CONTROLLER = "page faults by memcg: not usable: memory.stat: no memory controller"
LOCKED = r"the kernel is locked down \(confidentiality\), boot without lockdown=confidentiality"


def _counts(rung):
    return f"page faults by {rung}: (?!not usable)"


def _ordinary(machine, series, attempt):
    by_root, by_unit = steps.rungs(machine, series)
    arm = machine == "aarch64"
    lacks_call = by_root == "perf"
    return {
        "root": (by_root, harness.EXIT_OK, _counts(by_root)),
        "unit": (by_unit, harness.EXIT_OK, PARANOID if lacks_call else _counts(by_unit)),
        "no-perfmon": ("memcg", harness.EXIT_OK, f"page faults by (tracepoint|fentry): not usable: .*{NEED}"),
        "no-capabilities": ("memcg", harness.EXIT_OK, f"page faults by (tracepoint|fentry): not usable: .*{NEED}"),
        "no-btf": ("memcg", harness.EXIT_OK, f"page faults by perf: not usable: .*{NO_BTF}"),
        "tracepoint": ("tracepoint", harness.EXIT_OK, _counts("tracepoint"))
        if by_root == "tracepoint"
        else (None, harness.EXIT_UNSUPPORTED, NO_TRACEPOINT),
        "fentry": ("fentry", harness.EXIT_OK, _counts("fentry"))
        if arm and not lacks_call
        else (None, harness.EXIT_UNSUPPORTED, NO_CALL if arm else NO_FUNCTION),
        "perf-paranoid-3": (None, harness.EXIT_NOPERM, PARANOID),
        "perf-paranoid-2": ("perf", harness.EXIT_OK, _counts("perf")),
        "memcg": ("memcg", harness.EXIT_OK, _counts("memcg")),
    }[attempt]


def _without_memory(machine, series, attempt):
    _, by_unit = steps.rungs(machine, series)
    return {
        "unit": (by_unit, harness.EXIT_OK, _counts(by_unit)),
        "no-perfmon": (None, harness.EXIT_NOPERM, NO_CONTROLLER),
        "memcg": (None, harness.EXIT_UNSUPPORTED, NO_CONTROLLER),
    }[attempt]


def _locked_down(machine, series, attempt):
    """What lockdown forbids is to read the kernel's memory: page faults are counted without, bad accesses are not."""
    by_root, by_unit = steps.rungs(machine, series)
    no_bad = f"bad accesses by tracepoint: not usable: .*{LOCKED}"
    return {
        "unit": (by_unit, harness.EXIT_OK, no_bad),
        "root": (by_root, harness.EXIT_OK, no_bad),
        "memcg": ("memcg", harness.EXIT_OK, no_bad),
    }[attempt]


def expected(machine, series, odd, attempt):
    """(rung or None, exit code, expression)"""
    return {None: _ordinary, "no memory controller": _without_memory, "lockdown": _locked_down}[odd](machine, series, attempt)


def title(odd, attempt):
    return (f"{odd}: " if odd else "") + MEANING[attempt]


def bad_accesses(odd, attempt):
    """Whether they are counted, where the daemon starts."""
    return odd != "lockdown" and attempt not in ("no-perfmon", "no-capabilities", "no-btf")


def outcome(machine, series, odd, attempt):
    rung, code, _ = expected(machine, series, odd, attempt)
    return (rung + ("" if bad_accesses(odd, attempt) else ", no bad accesses")) if rung else f"exit {code}"
