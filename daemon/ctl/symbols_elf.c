/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/symbols_elf.h"

#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/symbol_table.h"

/* Of a table of symbols or of their names. The largest browsers' symbols do not fit; they are shown by offset. */
#define SECTION_BYTES_MAX (UINT64_C(64) << 20)
#define SEGMENTS_MAX 64
#define NAME_MAX_BYTES 4096

/* A part of the file that is mapped, and to where. */
struct segment {
	uint64_t offset, size, address;
};

struct elf_symbols {
	struct segment segments[SEGMENTS_MAX];
	size_t n_segments;
	struct symbol_table table;
};

DEFINE_CLEANUP(elf_done, Elf *, elf_end)
DEFINE_CLEANUP(symbols_done, struct elf_symbols *, elf_symbols_free)

static void read_segments(Elf *elf, struct elf_symbols *s)
{
	size_t n = 0;
	GElf_Phdr header;

	if (elf_getphdrnum(elf, &n) != 0)
		return;
	for (size_t i = 0; i < n && s->n_segments < SEGMENTS_MAX; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD || !(header.p_flags & PF_X))
			continue;
		s->segments[s->n_segments++] = (struct segment){
		    .offset = header.p_offset,
		    .size = header.p_filesz,
		    .address = header.p_vaddr,
		};
	}
}

/* The section of that type; NULL if there is none. */
static Elf_Scn *find_section(Elf *elf, GElf_Word type, GElf_Shdr *ret)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, ret) && ret->sh_type == type)
			return section;
	return NULL;
}

static bool is_function(const GElf_Sym *symbol)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF;
}

/* The name at `at` in the section of names; NULL if it does not end within it. */
static const char *name_at(const Elf_Data *names, size_t at, size_t *ret_len)
{
	const char *name;

	if (!names->d_buf || at >= names->d_size)
		return NULL;
	name = (const char *)names->d_buf + at;
	*ret_len = strnlen(name, names->d_size - at);
	return *ret_len > 0 && *ret_len < names->d_size - at && *ret_len <= NAME_MAX_BYTES ? name : NULL;
}

static int add_symbols(const Elf_Data *symbols, const Elf_Data *names, size_t n, struct symbol_table *t)
{
	/* Many symbols may share one long name in the file; here each has its own copy. */
	size_t budget = SECTION_BYTES_MAX, len;
	GElf_Sym symbol;

	for (size_t i = 0; i < n; i++) {
		const char *name;

		if (!gelf_getsym((Elf_Data *)symbols, (int)i, &symbol) || !is_function(&symbol))
			continue;
		name = name_at(names, symbol.st_name, &len);
		if (!name)
			continue;
		if (len + 1 > budget)
			return -EFBIG;
		budget -= len + 1;
		symbol_table_add(t, symbol.st_value, symbol.st_size, GELF_ST_BIND(symbol.st_info) == STB_LOCAL, name,
				 len);
	}
	return symbol_table_sort(t);
}

static int read_table(Elf *elf, struct elf_symbols *s)
{
	GElf_Shdr of_symbols, of_names;
	Elf_Data *symbols, *names;
	Elf_Scn *section = find_section(elf, SHT_SYMTAB, &of_symbols);
	Elf_Scn *name_section;

	if (!section)
		section = find_section(elf, SHT_DYNSYM, &of_symbols);
	name_section = section ? elf_getscn(elf, of_symbols.sh_link) : NULL;
	if (!name_section || !gelf_getshdr(name_section, &of_names) || of_names.sh_type != SHT_STRTAB ||
	    of_symbols.sh_entsize == 0)
		return -ENOENT;
	if (of_symbols.sh_size > SECTION_BYTES_MAX || of_names.sh_size > SECTION_BYTES_MAX)
		return -EFBIG;
	symbols = elf_getdata(section, NULL);
	names = elf_getdata(name_section, NULL);
	if (!symbols || !names)
		return -ENOENT;
	return add_symbols(symbols, names, of_symbols.sh_size / of_symbols.sh_entsize, &s->table);
}

int elf_symbols_read(int fd, struct elf_symbols **ret)
{
	struct elf_symbols *s cleanup(symbols_done) = NULL;
	Elf *elf cleanup(elf_done) = NULL;
	int r;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return -ENOENT;
	/* Not mapped: a file that shrinks meanwhile would be our own SIGBUS. */
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return -ENOENT;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	read_segments(elf, s);
	r = read_table(elf, s);
	if (r == 0 && (s->table.n == 0 || s->n_segments == 0))
		r = -ENOENT;
	if (r < 0)
		return r;
	*ret = take_ptr(s);
	return 0;
}

struct elf_symbols *elf_symbols_free(struct elf_symbols *s)
{
	if (s) {
		symbol_table_done(&s->table);
		free(s);
	}
	return NULL;
}

const char *elf_symbols_find(const struct elf_symbols *s, uint64_t file_offset, uint64_t *ret_offset)
{
	for (size_t i = 0; i < s->n_segments; i++) {
		const struct segment *segment = &s->segments[i];

		if (file_offset >= segment->offset && file_offset - segment->offset < segment->size)
			return symbol_table_find(&s->table, file_offset - segment->offset + segment->address,
						 ret_offset);
	}
	return NULL;
}

size_t elf_symbols_bytes(const struct elf_symbols *s)
{
	return sizeof(*s) + symbol_table_bytes(&s->table);
}
