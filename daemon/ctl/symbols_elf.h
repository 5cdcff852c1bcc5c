/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function names of an ELF file. The only file that sees libelf. The file may be anybody's: what it claims about
 * itself is bounded.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct elf_symbols;

/* Reads .symtab, or .dynsym where there is no .symtab, with pread(2); `fd` stays the caller's and is not needed
 * afterwards. -ENOENT if the file has no symbols or is no ELF file, -EFBIG if it has too many, -ENOMEM. */
int elf_symbols_read(int fd, struct elf_symbols **ret);
/* Accepts NULL, returns NULL. */
struct elf_symbols *elf_symbols_free(struct elf_symbols *s);

/* The function at an offset in the file as it is mapped, NULL if there is none. Valid as long as `s`. */
const char *elf_symbols_find(const struct elf_symbols *s, uint64_t file_offset, uint64_t *ret_offset);
/* Memory in use. */
size_t elf_symbols_bytes(const struct elf_symbols *s);
