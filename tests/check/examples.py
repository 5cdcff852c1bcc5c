# SPDX-License-Identifier: Apache-2.0
"""For each rule what must pass and what must fail, as {path: text}: a rule that cannot fail is no rule."""

import rules

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
DUAL = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n"


def include(*names):
    return "".join(f"#include {name if name[0] == '<' else chr(34) + name + chr(34)}\n" for name in names)


def abi(member):
    return {"bpf/fault_abi.h": "struct fault_cell {\n\t__u64 count[20];\n\t" + member + ";\n};\n"}


# rule: (examples that pass, examples that fail)
EXAMPLES = {
    rules.layers: (
        [
            {"daemon/base/log.c": include("daemon/base/log.h", "<unistd.h>")},
            {"daemon/model/fault.h": include("bpf/fault_abi.h", "daemon/base/table.h", "daemon/model/window.h")},
            {"daemon/source/probe_bpf.c": include("daemon/source/probe.h", "daemon/source/slots.h", "bpf/page_fault.skel.h")},
            {"daemon/sink/scrape_listen.c": include("daemon/sink/scrape.h", "daemon/sink/gzip.h", "daemon/sink/exposition.h")},
            {"daemon/sink/exposition.c": include("daemon/sink/negotiate.h", "daemon/model/snapshot.h")},
            {"daemon/sink/ship.c": include("daemon/sink/queue.h", "daemon/sink/otlp.h")},
            {"daemon/sink/otlp_pack.c": include("proto/otlp.pb-c.h")},
            {"daemon/sink/control_peers.c": include("daemon/sink/control.h", "daemon/sink/crash_line.h")},
            {"daemon/sink/journal.c": include("daemon/sink/crash_line.h", "daemon/model/crash.h")},
            {"daemon/pipeline.c": include("config/config.h", "daemon/source/probe.h", "daemon/sink/ship.h")},
            {"config/keys.c": include("config/config.h", "daemon/base/strbuf.h")},
            {"daemon/base/table.c": '/* #include "daemon/model/fault.h" */\n'},
            {"tests/unit/test-any.c": include("daemon/sink/ship.h", "daemon/source/probe.h")},
        ],
        [
            {"daemon/base/log.c": include("daemon/model/fault.h")},
            {"daemon/base/log.c": include("config/config.h")},
            {"daemon/model/window.c": include("daemon/sink/scrape.h")},
            {"daemon/model/window.c": include("daemon/source/probe.h")},
            {"daemon/model/window.c": include("bpf/slots.bpf.h")},
            {"daemon/model/window.c": include("daemon/exit.h")},
            {"daemon/source/memcg.c": include("daemon/source/cgroup.h")},
            {"daemon/source/memcg.c": include("daemon/sink/ship.h")},
            {"daemon/source/host.c": include("daemon/pipeline.h")},
            {"daemon/sink/ship.c": include("daemon/sink/scrape.h")},
            {"daemon/sink/otlp.c": include("daemon/sink/ship.h")},
            {"daemon/sink/otlp.c": include("daemon/sink/gzip.h")},
            {"daemon/sink/crash_line.c": include("daemon/sink/control.h")},
            {"daemon/sink/journal.c": include("daemon/sink/control.h")},
            {"daemon/sink/exposition.c": include("config/config.h")},
            {"daemon/sink/scrape.c": include("bpf/fault_abi.h")},
            {"config/yaml.c": include("daemon/model/identity.h")},
            {"daemon/sink/scrape.c": include("exposition.h")},
            {"daemon/sink/scrape.c": '  #  include "daemon/sink/ship.h"\n'},
        ],
    ),
    rules.bpf_alone: (
        [{"bpf/a.bpf.c": include("bpf/slots.bpf.h", "<bpf/bpf_helpers.h>")}, {"bpf/fault_abi.h": include("<linux/types.h>")}],
        [{"bpf/a.bpf.c": include("daemon/model/fault.h")}, {"bpf/fault_abi.h": include("<stdbool.h>")}],
    ),
    rules.abi_types: (
        [abi("__u32 slot"), abi("__u8 pad[7]"), abi("struct other next"), abi("char path[128]"), abi("/* long ago; int x; */ __u64 a")],
        [abi("void *next"), abi("bool alive"), abi("unsigned long n"), abi("int n"), abi("__u32 flag : 1"), abi("const char *name")],
    ),
    rules.libraries: (
        [
            {"daemon/source/probe.c": include("<bpf/libbpf.h>", "bpf/page_fault.skel.h")},
            {"daemon/sink/scrape.c": include("<microhttpd.h>")},
            {"daemon/sink/ship_http.c": include("<curl/curl.h>")},
            {"daemon/sink/otlp_pack.c": include("proto/otlp.pb-c.h")},
            {"config/yaml.c": include("<yaml.h>")},
            {"daemon/sink/gzip.c": include("<zlib.h>")},
            {"daemon/ctl/symbols_elf.c": include("<gelf.h>", "<libelf.h>")},
            {"daemon/base/log.c": include("<systemd/sd-journal.h>")},
            {"daemon/sink/ship.h": include("<systemd/sd-event.h>")},
            {"tests/bench/a.c": include("<bpf/libbpf.h>")},
        ],
        [
            {"daemon/pipeline.c": include("<bpf/libbpf.h>")},
            {"daemon/source/cgroup.c": include("<bpf/bpf.h>")},
            {"daemon/pipeline.c": include("bpf/page_fault.skel.h")},
            {"daemon/sink/scrape_listen.c": include("<microhttpd.h>")},
            {"daemon/sink/ship.h": include("<curl/curl.h>")},
            {"daemon/sink/otlp_batch.c": include("<protobuf-c/protobuf-c.h>")},
            {"daemon/sink/otlp_logs.c": include("proto/otlp.pb-c.h")},
            {"daemon/sink/ship.c": include("proto/otlp.pb-c.h")},
            {"config/config.c": include("<yaml.h>")},
            {"daemon/sink/scrape.c": include("<zlib.h>")},
            {"daemon/ctl/symbols.c": include("<gelf.h>")},
            {"daemon/main.c": include("<systemd/sd-journal.h>")},
        ],
    ),
    rules.pure_model: (
        [
            {"daemon/model/window.c": include("<stdint.h>", "daemon/base/clock.h") + "uint64_t x = 2 * NSEC_PER_SEC;\n"},
            {"daemon/model/window.c": 'void f(void) { log_debug("x"); log_at(LOG_DEBUG, 0, "y"); }\n'},
            {"daemon/model/window.c": "int r = step_time(now_ns); /* clock_monotonic_ns() is the caller's */\n"},
            {"daemon/sink/ship.c": include("<fcntl.h>") + "uint64_t now = clock_monotonic_ns();\n"},
        ],
        [
            {"daemon/model/window.c": include("<fcntl.h>")},
            {"daemon/model/window.c": include("<sys/socket.h>")},
            {"daemon/model/window.c": include("<unistd.h>")},
            {"daemon/model/window.h": include("<systemd/sd-event.h>")},
            {"daemon/model/window.c": "uint64_t now = clock_monotonic_ns();\n"},
            {"daemon/model/window.c": "clock_gettime(CLOCK_MONOTONIC, &ts);\n"},
            {"daemon/model/window.c": "time_t t = time(NULL);\n"},
            {"daemon/model/window.c": 'log_info("hello");\n'},
            {"daemon/model/window.c": 'log_warning_errno(r, "hello");\n'},
            {"daemon/model/window.c": 'log_at(LOG_ERR, 0, "hello");\n'},
        ],
    ),
    rules.licences: (
        [
            {"daemon/main.c": SPDX},
            {"bpf/page_fault.bpf.c": DUAL, "bpf/fault_abi.h": DUAL, "bpf/meson.build": "# SPDX-License-Identifier: Apache-2.0\n"},
            {"tests/bench/empty.bpf.c": DUAL},
            {"tests/run": "#!/usr/bin/python3\n# SPDX-License-Identifier: Apache-2.0\n"},
            {"proto/a.proto": "// SPDX-License-Identifier: Apache-2.0\n"},
            {"tests/vm/seed/a.patch": "SPDX-License-Identifier: GPL-2.0-only\n", "tests/vm/seed/build": "#!/bin/sh\n" + "# " + SPDX[3:]},
            {"README.md": "faultd\n"},
        ],
        [
            {"daemon/main.c": "int main(void);\n"},
            {"daemon/main.c": DUAL},
            {"bpf/fault_abi.h": SPDX},
            {"tests/run": "#!/usr/bin/python3\nprint()\n"},
            {"daemon/main.c": "\n" * 9 + SPDX},
            {"Makefile": "all:\n"},
            {"tests/vm/seed/a.patch": "--- a/x\n+++ b/x\n"},
            {"tests/vm/seed/a.patch": "SPDX-License-Identifier: Apache-2.0\n"},
            {"tests/vm/seed/build": "#!/bin/sh\n# SPDX-License-Identifier: GPL-2.0-only\n"},
            {"packaging/a.patch": "SPDX-License-Identifier: GPL-2.0-only\n"},
            {"tests/vm/seed/a.config": "CONFIG_SMP=y\n"},
        ],
    ),
    rules.bpf_names: (
        [
            {"bpf/a.bpf.c": 'SEC("tp_btf/page_fault_user")\nint BPF_PROG(page_fault_user, unsigned long a)\n'},
            {"bpf/a.bpf.c": 'struct {\n} slot_by_cgroup SEC(".maps");\nchar LICENSE[] SEC("license") = "GPL";\n'},
        ],
        [
            {"bpf/a.bpf.c": 'SEC("tp_btf/page_fault_kernel")\nint BPF_PROG(page_fault_kernel, unsigned long a)\n'},
            {"bpf/a.bpf.c": 'SEC("tp/x")\nint sixteen_letters_(void *ctx)\n'},
            {"bpf/a.bpf.h": 'struct {\n} slot_by_cgroup_id SEC(".maps");\n'},
        ],
    ),
    rules.lengths: (
        [{"daemon/a.c": "x\n" * 600}, {"docs/a.md": "x\n" * 5000}, {"tests/lib/a.py": "x\n" * 1000}],
        [{"daemon/a.c": "x\n" * 601}, {"bpf/a.h": "x\n" * 601}, {"tests/lib/a.py": "x\n" * 1001}],
    ),
    rules.idioms: (
        [{"daemon/a.c": "struct a {\n\tint goto_count; /* goto out */\n};\n"}, {"daemon/a.c": 'puts("typedef struct");\n'}],
        [
            {"daemon/a.c": "\tif (r < 0)\n\t\tgoto out;\n"},
            {"daemon/a.h": "typedef struct { int a; } a_t;\n"},
            {"daemon/a.c": "        return 0;\n"},
        ],
    ),
    rules.no_places: (
        [
            {"daemon/a.c": 'open("/sys/fs/cgroup/system.slice", 0);\n'},
            {"tests/a.py": 'path = "/home" + name\n'},
            {"README.md": "Debian, at www.debian.org, packages it.\n"},
            {"tests/unit/a.c": '"/user.slice/wor' + 'k/x"\n'},
        ],
        [
            {"daemon/a.c": 'open("/home/' + 'anna/x", 0);\n'},
            {"README.md": "see /wor" + "k/main/README.md\n"},
            {"packaging/a.sh": "echo deb http://deb.debian" + ".org/debian bookworm main\n"},
            {"packaging/a.sh": "curl https://registry.npm" + "js.org/x\n"},
        ],
    ),
    rules.tidy_text: (
        [{"README.md": "a\n\nb\n"}, {"daemon/a.c": ""}],
        [{"README.md": "a \n"}, {"daemon/a.c": "a\r\n"}, {"daemon/a.c": "a"}],
    ),
}
