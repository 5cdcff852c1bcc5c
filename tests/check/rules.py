# SPDX-License-Identifier: Apache-2.0
"""The rules of the house, each a function from {path: text} to lines "path:line: what is wrong".

They see text only, so that an example is a few lines in examples.py. What they enforce is told in HACKING.md.
"""

import os
import re

# One third-party library, one file. What the header's name begins with or ends in: the only files that may include it.
# The module probe is several files, since each of its objects is enough for one.
LIBBPF = {f"daemon/source/probe{part}" for part in (".c", "_perf.c", "_bad.c", "_life.c", "_state.h")} | {"daemon/ctl/trace_probe.c"}
LIBRARIES = [
    (r"bpf/(libbpf|bpf|btf)\.h|.*\.skel\.h", LIBBPF),
    (r"microhttpd\.h", {"daemon/sink/scrape.c"}),
    (r"curl/.*", {"daemon/sink/ship_http.c"}),
    (r"protobuf-c/.*|.*\.pb-c\.h", {"daemon/sink/otlp_pack.c"}),
    (r"yaml\.h", {"config/yaml.c"}),
    (r"zlib\.h", {"daemon/sink/gzip.c"}),
    (r"sqlite3\.h", {"daemon/sink/spool.c"}),
    (r"(elfutils/)?(libelf|gelf|libdw\w*)\.h", {"daemon/ctl/symbols_elf.c"}),
    (r"systemd/sd-journal\.h", {"daemon/base/log.c"}),
]

# source/ and sink/: a module is a file and those whose names begin with its name and an underscore, or that are listed
# here as parts of it. A module includes nothing of its neighbours but what stands in MAY_USE.
PARTS = {
    "source": {"slots": "probe", "mounts": "cgroup"},
    "sink": {"exposition": "scrape", "negotiate": "scrape", "process": "scrape", "queue": "ship"},
}
MAY_USE = {
    ("scrape", "gzip"): "packs what it serves",
    ("ship", "gzip"): "packs what it sends",
    ("ship", "otlp"): "reads the collector's answer",
    ("control", "crash"): "answers with crashes as lines",
    ("journal", "crash"): "writes the sentence about a crash",
}

# Of the system, what model/ must not even see: descriptors, sockets, processes, events.
NOT_IN_MODEL = re.compile(r"(sys|linux|net|netinet|arpa|systemd)/.*|(fcntl|unistd|poll|dirent|signal|pthread|netdb|syslog)\.h")
CLOCKS = re.compile(r"\b(clock_(gettime|getres|nanosleep|\w+_ns)|time|gettimeofday|localtime(_r)?|ftime)\s*\(")
LOUD_LOG = re.compile(r"\blog_(info|notice|warning|error|warning_errno|error_errno)\s*\(|\blog_(full|at)\s*\(\s*(?!LOG_DEBUG\b)")

# What the programs in the kernel and the daemon share.
ABI_HEADERS = ("bpf/fault_abi.h", "bpf/bad_access_abi.h", "bpf/trace_abi.h")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
APACHE = "Apache-2.0"
KERNEL = "GPL-2.0-only"
DUAL = "GPL-2.0-only OR BSD-2-Clause"
BPF_NAME_MAX = 15
LINES_MAX = {"tests/": 1000, "": 600}


def in_c(path):
    return path.endswith((".c", ".h"))


def of_the_daemon(path):
    return in_c(path) and path.startswith(("daemon/", "config/"))


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def without_comments(text):
    """The same text with comments and, in place, as many line ends: positions keep their lines."""

    def blank(match):
        return match[0] if match[0][0] in "\"'" else re.sub(r"[^\n]", " ", match[0])

    return re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|/\*.*?\*/|//[^\n]*', blank, text, flags=re.S)


def without_strings(text):
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', without_comments(text))


def includes(text):
    """(line, True for quotes, name) of each #include."""
    for found in INCLUDE.finditer(without_comments(text)):
        yield line_of(text, found.start()), found[1] == '"', found[2]


def find(pattern, path, text, message):
    return [f"{path}:{line_of(text, m.start())}: {message}: {m[0].strip()}" for m in pattern.finditer(text)]


# ---- layers ----


def layer(path):
    """base, model, source, sink, config; daemon for what stands above them; bpf, proto."""
    parts = path.split("/")
    if parts[0] == "daemon":
        return parts[1] if len(parts) > 2 else "daemon"
    return parts[0]


def module(path):
    name = re.split(r"[.]", os.path.basename(path))[0]
    parts = PARTS.get(layer(path), {})
    return parts.get(name) or parts.get(name.split("_")[0]) or name.split("_")[0]


def why_not(path, name):
    """Why `path` may not include the project's header `name`; None if it may."""
    here, there = layer(path), layer(name)
    if here == "daemon":
        return None
    if here in ("source", "sink") and there == here:
        if module(path) == module(name) or (module(path), module(name)) in MAY_USE:
            return None
        return f"{module(path)} does not use its neighbour {module(name)}"
    allowed = {
        "base": ("base",),
        "model": ("base", "model"),
        "source": ("base", "model"),
        "sink": ("base", "model"),
        "config": ("base", "config"),
        "ctl": ("base", "model", "ctl"),
    }[here]
    abi = ABI_HEADERS + ("bpf/fault_class.h",)
    shared = {"model": abi, "source": abi, "ctl": abi + ("daemon/exit.h", "daemon/sink/control.h", "daemon/source/cgroup.h")}
    # What is generated from bpf/ and proto/ is a library's header: the other rule names its one file.
    if there in allowed or name in shared.get(here, ()) or name.endswith((".skel.h", ".pb-c.h")):
        return None
    return f"{here}/ does not include {there}/"


def layers(files):
    """Who may include whom (DESIGN: data goes down by callback, never up by include)."""
    wrong = []
    for path, text in files.items():
        if not of_the_daemon(path):
            continue
        for line, quoted, name in includes(text):
            reason = why_not(path, name) if quoted and "/" in name else "headers of the project go by their path" if quoted else None
            if reason:
                wrong.append(f"{path}:{line}: {reason}: {name}")
    return wrong


def bpf_alone(files):
    """bpf/ includes nothing of the daemon; the ABI header nothing but fixed-width types."""
    wrong = []
    for path, text in files.items():
        if not (in_c(path) and path.startswith("bpf/")):
            continue
        for line, quoted, name in includes(text):
            if quoted and not name.startswith("bpf/"):
                wrong.append(f"{path}:{line}: bpf/ does not include {name}")
            elif path in ABI_HEADERS and not quoted and name != "linux/types.h":
                wrong.append(f"{path}:{line}: the ABI header needs no {name}")
    return wrong


def abi_types(files):
    """The ABI headers hold no pointer, bool, long or bitfield."""
    members = re.compile(
        r"^\s*(?:(?:const\s+)?[\w\s]+\*+\s*\w+|(?:unsigned\s+)?(?:bool|_Bool|long|int|short|size_t)\b[^;()]*|[\w\s]+:\s*\d+)\s*;", re.M
    )
    wrong = []
    for path in ABI_HEADERS:
        wrong += find(members, path, without_strings(files.get(path, "")), "not a type of the same size everywhere")
    return wrong


def libraries(files):
    """One third-party library, one file."""
    wrong = []
    for path, text in files.items():
        if not of_the_daemon(path):
            continue
        for line, _, name in includes(text):
            for pattern, allowed in LIBRARIES:
                if re.fullmatch(pattern, name) and path not in allowed:
                    wrong.append(f"{path}:{line}: {name} is for {' or '.join(sorted(allowed))} alone")
    return wrong


def pure_model(files):
    """model/ decides on plain data: no descriptors, no clock, no logging above debug."""
    wrong = []
    for path, text in files.items():
        if not (in_c(path) and layer(path) == "model"):
            continue
        for line, quoted, name in includes(text):
            if not quoted and NOT_IN_MODEL.fullmatch(name):
                wrong.append(f"{path}:{line}: model/ knows no <{name}>")
        code = without_strings(text)
        wrong += find(CLOCKS, path, code, "model/ is told the time")
        wrong += find(LOUD_LOG, path, code, "model/ logs at debug at most")
    return wrong


# ---- single files ----


def needs_licence(path, text):
    name = os.path.basename(path)
    ends = (".c", ".h", ".py", ".sh", ".proto", ".yaml", ".bt", ".service", ".socket", ".config", ".patch")
    return name.endswith(ends) or name in ("Makefile", "meson.build", "meson_options.txt") or text.startswith("#!")


def licences(files):
    """An SPDX line at the top of each source, with the licence of its folder."""
    wrong = []
    for path, text in files.items():
        if not needs_licence(path, text):
            continue
        wanted = DUAL if path.startswith("bpf/") and in_c(path) or path.endswith(".bpf.c") else APACHE
        # A patch holds lines of what it changes, which is the kernel.
        wanted = KERNEL if path.startswith("tests/vm/seed/") and path.endswith(".patch") else wanted
        found = re.search(r"SPDX-License-Identifier: (.*?)\s*(\*/|-->)?$", "\n".join(text.splitlines()[:5]), re.M)
        if not found:
            wrong.append(f"{path}:1: no SPDX-License-Identifier in the first lines")
        elif found[1] != wanted:
            wrong.append(f"{path}:1: {found[1]} instead of {wanted}")
    return wrong


def bpf_names(files):
    """The kernel cuts names of programs and maps after 15 characters."""
    program = re.compile(r'SEC\("(?!\.maps|license)[^"]*"\)\s*(?:static\s+)?int\s+(?:BPF_\w+\(\s*)?(\w+)')
    table = re.compile(r'\}\s*(\w+)\s+SEC\("\.maps"\)')
    wrong = []
    for path, text in files.items():
        if path.startswith("bpf/") and in_c(path):
            for found in list(program.finditer(text)) + list(table.finditer(text)):
                if len(found[1]) > BPF_NAME_MAX:
                    wrong.append(f"{path}:{line_of(text, found.start())}: more than {BPF_NAME_MAX} characters: {found[1]}")
    return wrong


def lengths(files):
    """A file that has grown too long is two files."""
    wrong = []
    for path, text in files.items():
        most = next(n for start, n in LINES_MAX.items() if path.startswith(start))
        if path.endswith((".c", ".h", ".py", ".sh")) and text.count("\n") > most:
            wrong.append(f"{path}:{text.count(chr(10))}: more than {most} lines")
    return wrong


def idioms(files):
    """Cleanup attributes instead of goto, structs without typedef, tabs at the start of a line."""
    wrong = []
    for path, text in files.items():
        if not in_c(path):
            continue
        code = without_strings(text)
        wrong += find(re.compile(r"^\s*goto\s+\w+", re.M), path, code, "goto")
        wrong += find(re.compile(r"\btypedef\s+struct\b"), path, code, "typedef of a struct")
        wrong += find(re.compile(r"^ {8,}\S", re.M), path, code, "indented by spaces") if path.startswith("daemon/") else []
    return wrong


def no_places(files):
    """Nothing in the tree names a developer's machine or a host that packages come from."""
    # In pieces, so that this file passes, too.
    places = re.compile(
        r"(?<![\w.~-])/(?:home/[a-z]\w*|Users/\w+|wor[k]|tmp/bash_job[s])/"
        r"|\b(?:deb|security|ftp[.\w]*|snapshot|archive|mirrors?)[.](?:debian|ubuntu|fedoraproject|centos)[.]org\b"
        r"|\bregistry[.]npmjs\b|\bproxy[.]golang\b|\b(?:files[.])?pythonhoste[d]\b|\bpypi[.]org\b"
    )
    wrong = []
    for path, text in files.items():
        wrong += find(places, path, text, "names a place outside the tree")
    return wrong


def tidy_text(files):
    """No carriage returns, no blanks at line ends, a line end at the end."""
    wrong = []
    for path, text in files.items():
        if path.endswith((".md", ".c", ".h", ".py", ".sh", ".proto", ".yaml", "meson.build", "Makefile")):
            wrong += find(re.compile(r"[ \t\r]+$", re.M), path, text, "blank at the end of a line")
            if text and not text.endswith("\n"):
                wrong.append(f"{path}:{line_of(text, len(text))}: no line end at the end")
    return wrong


ALL = [layers, bpf_alone, abi_types, libraries, pure_model, licences, bpf_names, lengths, idioms, no_places, tidy_text]
