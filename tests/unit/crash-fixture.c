/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/crash-fixture.h"

#include <string.h>

struct crash_event crash_event_make(void)
{
	struct crash_event e = {
	    .head = {.type = CRASH_DELIVERED, .tgid = 4711, .tid = 4712},
	    .time_ns = 1,
	    .cgroup_id = 99,
	    .class = SEGV(1),
	    .signal = 11,
	    .code = 1,
	    .flags = CRASH_HAS_ADDRESS | CRASH_HAS_ERROR_CODE,
	    .tgid_inside = 7,
	    .tid_inside = 8,
	    .uid = 1000,
	    .address = 0x1234,
	    .ip = 0x401000,
	    .sp = 0x7ffc00001000,
	    .trap = 14,
	    .error_code = 6,
	    .code_begin = 0x400000,
	    .code_end = 0x500000,
	    .comm = "myapp",
	    .exe = "/usr/bin/myapp",
	    .n_frames = 2,
	    .frames = {{.kind = CRASH_FRAME_BUILD_ID, .build_id = {0xde, 0xad, [19] = 0x01}, .offset = 0x1000},
		       {.kind = CRASH_FRAME_NONE, .offset = 0x400123}},
	};

	return e;
}

static struct crash *make(const char *cgroup, const struct crash_event *event, enum crash_arch arch)
{
	struct identity *identity = NULL;
	struct crash *c = NULL;

	assert_int_equal(identity_parse(cgroup, strlen(cgroup), &identity), 0);
	assert_int_equal(crash_new(event, arch, CRASH_TIME_NS, identity, &c), 0);
	return c;
}

struct crash *crash_of(const struct crash_event *event)
{
	return make("/system.slice/myapp.service", event, CRASH_ARCH_X86_64);
}

struct crash *crash_of_arm64(const struct crash_event *event)
{
	return make("/system.slice/myapp.service", event, CRASH_ARCH_ARM64);
}

struct crash *crash_in(const char *cgroup, const struct crash_event *event)
{
	return make(cgroup, event, CRASH_ARCH_X86_64);
}
