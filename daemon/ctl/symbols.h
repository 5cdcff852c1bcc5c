/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an instruction is: function and file of an address in a process or in the kernel. What was read is kept within
 * bounds (processes, files, bytes), so a long trace does not grow.
 *
 * Reads /proc, and the files that processes have mapped; not files of file systems that another host or a process
 * serves (NFS, FUSE, ...): those could keep us waiting, so addresses in them are told by file and offset.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct symbols;

struct symbol_place {
	const char *symbol; /* NULL: not known */
	uint64_t symbol_offset;
	const char *module;     /* the file's path, or "[vdso]", "[anon]", "[kernel]"; NULL: not known */
	uint64_t module_offset; /* in the file; only with has_offset */
	bool has_offset;
};

/* What the kernel said about the mapping at the instant of the event: the last component of the file's name,
 * perhaps cut, "" for none, and the offset of ip in the file. It is right when the process is gone or has mapped
 * something else since. */
struct symbol_hint {
	const char *module;
	uint64_t offset;
};

/* `proc` is where procfs is mounted. -ENOMEM. */
int symbols_new(const char *proc, struct symbols **ret);
/* Accepts NULL, returns NULL. */
struct symbols *symbols_free(struct symbols *s);

/* The place of `ip` in process `tgid`. `hint` may be NULL: then what was read of the process within the last second
 * is taken as it is. Strings are valid until the next call. */
void symbols_user(struct symbols *s, uint32_t tgid, uint64_t ip, const struct symbol_hint *hint, uint64_t now_ns,
		  struct symbol_place *ret);

/* The place of `ip` in the kernel. The first call reads all names. */
void symbols_kernel(struct symbols *s, uint64_t ip, struct symbol_place *ret);
/* 0, or why the kernel's names are not known, once symbols_kernel() has tried: -ENODATA if they are hidden, -errno. */
int symbols_kernel_error(const struct symbols *s);
