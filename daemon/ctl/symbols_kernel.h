/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function names of the running kernel, from /proc/kallsyms.
 */
#pragma once

#include <stdint.h>

struct kernel_symbols;

/* Reads the whole list from `path`. -ENODATA if the kernel hides the addresses (kernel.kptr_restrict, no
 * CAP_SYSLOG): all are zero then. -ENOMEM, -errno. */
int kernel_symbols_read(const char *path, struct kernel_symbols **ret);
/* Accepts NULL, returns NULL. */
struct kernel_symbols *kernel_symbols_free(struct kernel_symbols *k);

/* The function at an address, NULL if there is none. *ret_module is "[kernel]" or the module's name, "[ext4]". Both
 * are valid as long as `k`. */
const char *kernel_symbols_find(const struct kernel_symbols *k, uint64_t address, uint64_t *ret_offset,
				const char **ret_module);
