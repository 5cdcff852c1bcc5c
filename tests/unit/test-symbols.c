/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/symbol_table.h"
#include "daemon/ctl/symbols.h"
#include "daemon/ctl/symbols_elf.h"
#include "daemon/ctl/symbols_kernel.h"

#define SECOND UINT64_C(1000000000)

DEFINE_CLEANUP(symbols_done, struct symbols *, symbols_free)
DEFINE_CLEANUP(kernel_done, struct kernel_symbols *, kernel_symbols_free)
DEFINE_CLEANUP(elf_done, struct elf_symbols *, elf_symbols_free)

/* ---- a folder in the place of /proc ---- */

static char folder[] = "/tmp/test-symbols-XXXXXX";

static void write_file(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void write_maps(unsigned pid, const char *text)
{
	char name[64], path[256];

	snprintf(path, sizeof(path), "%s/%u", folder, pid);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%u/root", folder, pid);
	(void)!symlink("/", path);
	snprintf(name, sizeof(name), "%u/maps", pid);
	write_file(name, text);
}

static int make_folder(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static struct symbols *open_symbols(const char *proc)
{
	struct symbols *s = NULL;

	assert_int_equal(symbols_new(proc, &s), 0);
	return s;
}

/* ---- tables ---- */

static void assert_found(const struct symbol_table *t, uint64_t address, const char *want, uint64_t want_offset)
{
	uint64_t offset = 0;
	const char *name = symbol_table_find(t, address, &offset);

	if (!want != !name || (want && (strcmp(name, want) || offset != want_offset)))
		fail_msg("0x%llx: %s+0x%llx", (unsigned long long)address, name ? name : "none",
			 (unsigned long long)offset);
}

static void addresses_find_the_symbol_that_holds_them(void **state)
{
	struct symbol_table t cleanup(symbol_table_done) = {0};

	symbol_table_add(&t, 0x2000, 0x100, 0, "outer", 5);
	symbol_table_add(&t, 0x1000, 0x10, 0, "first", 5);
	symbol_table_add(&t, 0x2010, 0x10, 0, "inner", 5);
	symbol_table_add(&t, 0x3000, 0, 0, "open", 4);
	symbol_table_add(&t, 0x3010, 4, 1, "alias", 5);
	symbol_table_add(&t, 0x3010, 0, 0, "global", 6);
	symbol_table_add(&t, UINT64_MAX - 1, 100, 0, "top", 3);
	assert_int_equal(symbol_table_sort(&t), 0);

	assert_found(&t, 0, NULL, 0);
	assert_found(&t, 0xfff, NULL, 0);
	assert_found(&t, 0x1000, "first", 0);
	assert_found(&t, 0x100f, "first", 15);
	assert_found(&t, 0x1010, NULL, 0);
	assert_found(&t, 0x200f, "outer", 15);
	assert_found(&t, 0x201f, "inner", 15);
	assert_found(&t, 0x2020, "outer", 0x20);
	assert_found(&t, 0x2100, NULL, 0);
	assert_found(&t, 0x300f, "open", 15);
	assert_found(&t, 0x3013, "global", 3);
	assert_found(&t, 0x3014, NULL, 0);
	assert_found(&t, UINT64_MAX - 1, "top", 0);
}

static void a_symbol_without_size_does_not_reach_for_ever(void **state)
{
	struct symbol_table t cleanup(symbol_table_done) = {0};

	symbol_table_add(&t, 0x1000, 0, 0, "last", 4);
	assert_int_equal(symbol_table_sort(&t), 0);
	assert_found(&t, 0x1fff, "last", 0xfff);
	assert_found(&t, 0x40000000, NULL, 0);
}

static void an_empty_table_knows_nothing(void **state)
{
	struct symbol_table t cleanup(symbol_table_done) = {0};

	assert_int_equal(symbol_table_sort(&t), 0);
	assert_found(&t, 0x1000, NULL, 0);
}

/* ---- kernel ---- */

static void kernel_functions_by_kallsyms(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	struct symbol_place place;

	write_file("kallsyms", "0000000000000000 A fixed_percpu_data\n"
			       "ffffffff81000000 T _stext\n"
			       "ffffffff81000000 t local_alias\n"
			       "ffffffff81000040 t __put_user_8\n"
			       "ffffffff81000080 D some_data\n"
			       "ffffffff81000100 W weak_one\n"
			       "not a line\n"
			       "ffffffffc0000000 t ext4_readdir\t[ext4]\n"
			       "ffffffffc0000200 t btrfs_readdir\t[btrfs]\n");
	symbols_kernel(s, 0xffffffff8100000d, &place);
	assert_string_equal(place.symbol, "_stext");
	assert_int_equal(place.symbol_offset, 0xd);
	assert_string_equal(place.module, "[kernel]");
	symbols_kernel(s, 0xffffffff81000090, &place);
	assert_string_equal(place.symbol, "__put_user_8");
	assert_int_equal(place.symbol_offset, 0x50);
	symbols_kernel(s, 0xffffffff81000100, &place);
	assert_string_equal(place.symbol, "weak_one");
	symbols_kernel(s, 0xffffffffc00001ff, &place);
	assert_string_equal(place.symbol, "ext4_readdir");
	assert_string_equal(place.module, "[ext4]");
	symbols_kernel(s, 0xffffffff80ffffff, &place);
	assert_null(place.symbol);
	assert_string_equal(place.module, "[kernel]");
	assert_int_equal(symbols_kernel_error(s), 0);
}

static void hidden_kernel_addresses_are_no_symbols(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	struct symbol_place place;

	write_file("kallsyms", "0000000000000000 T _stext\n0000000000000000 T do_it\n");
	symbols_kernel(s, 0xffffffff81000000, &place);
	assert_null(place.symbol);
	assert_int_equal(symbols_kernel_error(s), -ENODATA);
}

static void a_missing_list_is_an_error(void **state)
{
	struct kernel_symbols *k cleanup(kernel_done) = NULL;

	assert_int_equal(kernel_symbols_read("/nonexistent/kallsyms", &k), -ENOENT);
}

/* ---- this process ---- */

static __attribute__((noinline, used)) int landmark(int x)
{
	return x * 3 + 1;
}

/* Offset in the file, by the dynamic linker's word on where the file begins. */
static uint64_t offset_in_module(const void *address)
{
	Dl_info info;

	assert_int_not_equal(dladdr(address, &info), 0);
	return (uint64_t)((uintptr_t)address - (uintptr_t)info.dli_fbase);
}

static void own_functions_are_named(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols("/proc");
	uint64_t ip = (uintptr_t)landmark + 2;
	struct symbol_place place;
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	assert_true(n > 0);
	exe[n] = '\0';
	symbols_user(s, (uint32_t)getpid(), ip, NULL, SECOND, &place);
	assert_non_null(place.symbol);
	assert_string_equal(place.symbol, "landmark");
	assert_int_equal(place.symbol_offset, 2);
	assert_string_equal(place.module, exe);
	assert_true(place.has_offset);
	assert_int_equal(place.module_offset, offset_in_module((void *)(uintptr_t)ip));
}

static void a_stripped_library_is_named_by_its_exports(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols("/proc");
	const char *const names[] = {"getpid", "strtoull", "qsort"};
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD); /* not a sanitizer's wrappers */
	struct symbol_place place;
	Dl_info info;

	assert_non_null(libc);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		void *address = dlsym(libc, names[i]);

		assert_non_null(address);
		assert_int_not_equal(dladdr(address, &info), 0);
		symbols_user(s, (uint32_t)getpid(), (uintptr_t)address + 1, NULL, SECOND, &place);
		assert_non_null(place.symbol);
		/* Of several names for one address any is right. */
		assert_ptr_equal(dlsym(libc, place.symbol), address);
		assert_int_equal(place.symbol_offset, 1);
		assert_non_null(strstr(place.module, "libc"));
	}
	dlclose(libc);
}

static void an_address_in_no_mapping_is_nowhere(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols("/proc");
	struct symbol_place place;

	symbols_user(s, (uint32_t)getpid(), 0x10, NULL, SECOND, &place);
	assert_null(place.symbol);
	assert_null(place.module);
}

/* ---- hints, and processes that change ---- */

static void the_kernels_word_counts_more_than_old_maps(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	const struct symbol_hint right = {"prog", 0x1100}, other = {"next", 0x1100}, moved = {"prog", 0x2100};
	struct symbol_place place;

	write_maps(100, "400000-500000 r-xp 00001000 00:99 77 /opt/prog\n7ff000-800000 r-xp 00000000 00:00 0 [vdso]\n");
	symbols_user(s, 100, 0x400100, &right, SECOND, &place);
	assert_string_equal(place.module, "/opt/prog");
	assert_int_equal(place.module_offset, 0x1100);
	/* The process has called exec since, and its maps were read just now. */
	symbols_user(s, 100, 0x400100, &other, SECOND + 1, &place);
	assert_string_equal(place.module, "next");
	assert_int_equal(place.module_offset, 0x1100);
	symbols_user(s, 100, 0x400100, &moved, SECOND + 1, &place);
	assert_string_equal(place.module, "prog");
	assert_int_equal(place.module_offset, 0x2100);
	/* Later they are read again. */
	write_maps(100, "400000-500000 r-xp 00001000 00:99 78 /opt/next\n");
	symbols_user(s, 100, 0x400100, &other, 2 * SECOND, &place);
	assert_string_equal(place.module, "/opt/next");
}

static void mappings_without_a_file_have_no_offset(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	const struct symbol_hint anonymous = {"", 0};
	struct symbol_place place;

	write_maps(101, "400000-500000 r-xp 00000000 00:00 0 \n7ff000-800000 r-xp 00000000 00:00 0 [vdso]\n"
			"900000-a00000 r-xp 00000000 08:01 5 /opt/prog\n");
	symbols_user(s, 101, 0x7ff123, &anonymous, SECOND, &place);
	assert_string_equal(place.module, "[vdso]");
	assert_false(place.has_offset);
	symbols_user(s, 101, 0x400000, &anonymous, SECOND, &place);
	assert_string_equal(place.module, "[anon]");
	/* Data is not kept: instructions are elsewhere. */
	write_maps(107,
		   "400000-500000 r-xp 00000000 08:01 5 /opt/prog\n500000-600000 rw-p 00100000 08:01 5 /opt/prog\n");
	symbols_user(s, 107, 0x500000, NULL, SECOND, &place);
	assert_null(place.module);
	/* Anonymous now, whatever is there later. */
	symbols_user(s, 101, 0x900000, &anonymous, SECOND, &place);
	assert_string_equal(place.module, "[anon]");
	assert_false(place.has_offset);
}

static void a_process_that_is_gone_leaves_the_hint(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	const struct symbol_hint hint = {"crashed", 0x1136};
	struct symbol_place place;

	symbols_user(s, 4000000, 0x401136, &hint, SECOND, &place);
	assert_string_equal(place.module, "crashed");
	assert_int_equal(place.module_offset, 0x1136);
	assert_null(place.symbol);
	symbols_user(s, 4000000, 0x401136, NULL, SECOND, &place);
	assert_null(place.module);
}

static void maps_without_a_hint_are_believed_for_a_second(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	struct symbol_place place;

	write_maps(102, "400000-500000 r-xp 00000000 00:99 77 /opt/old\n");
	symbols_user(s, 102, 0x400000, NULL, 10 * SECOND, &place);
	write_maps(102, "400000-500000 r-xp 00000000 00:99 77 /opt/new\n");
	symbols_user(s, 102, 0x400000, NULL, 10 * SECOND + SECOND / 2, &place);
	assert_string_equal(place.module, "/opt/old");
	symbols_user(s, 102, 0x400000, NULL, 11 * SECOND, &place);
	assert_string_equal(place.module, "/opt/new");
}

/* ---- what processes may have mapped ---- */

/* Device numbers are hexadecimal here and decimal in mountinfo: 0:98. */
static void map_of(unsigned pid, const char *path)
{
	char text[512];
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	snprintf(text, sizeof(text), "400000-500000 r-xp 00000000 00:62 %llu %s\n", (unsigned long long)st.st_ino,
		 path);
	write_maps(pid, text);
}

/* A tracer that opened it would wait for a writer for ever; alarm() ends the test then. */
static void a_fifo_is_not_opened(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	struct symbol_place place;
	char path[128];

	snprintf(path, sizeof(path), "%s/fifo", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	map_of(103, path);
	alarm(20);
	symbols_user(s, 103, 0x400100, NULL, SECOND, &place);
	alarm(0);
	assert_string_equal(place.module, path);
	assert_null(place.symbol);
}

static void copy_exe(const char *to)
{
	char from[256] = "", command[512];

	/* By its path: under user-mode emulation /proc/PID/exe is the emulator. */
	assert_true(readlink("/proc/self/exe", from, sizeof(from) - 1) > 0);
	snprintf(command, sizeof(command), "cp '%s' %s", from, to);
	assert_int_equal(system(command), 0);
}

static void files_of_other_hosts_are_not_opened(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	uint64_t ip = 0x400000 + offset_in_module((void *)landmark);
	struct symbol_place place;
	char path[128];

	snprintf(path, sizeof(path), "%s/copy", folder);
	copy_exe(path);
	map_of(104, path);
	write_file("104/mountinfo", "20 1 0:98 / /opt rw - nfs4 host:/opt rw\n");
	symbols_user(s, 104, ip, NULL, SECOND, &place);
	assert_string_equal(place.module, path);
	assert_null(place.symbol);

	map_of(105, path);
	write_file("105/mountinfo",
		   "20 1 0:97 / /nfs rw - nfs4 host:/opt rw\n21 1 0:98 / /opt rw shared:1 - ext4 /dev/x rw\n");
	symbols_user(s, 105, ip, NULL, SECOND, &place);
	assert_non_null(place.symbol);
	assert_string_equal(place.symbol, "landmark");
}

static void another_file_under_the_same_name_is_not_taken(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	struct symbol_place place;
	char path[128], text[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/copy", folder);
	copy_exe(path);
	assert_int_equal(stat(path, &st), 0);
	snprintf(text, sizeof(text), "400000-500000 r-xp 00000000 00:96 %llu %s\n", (unsigned long long)st.st_ino + 1,
		 path);
	write_maps(106, text);
	symbols_user(s, 106, 0x400000 + offset_in_module((void *)landmark), NULL, SECOND, &place);
	assert_string_equal(place.module, path);
	assert_null(place.symbol);
}

/* More of both than are kept; each answer must be right all the same. */
static void many_processes_and_files_fit_in_bounded_memory(void **state)
{
	struct symbols *s cleanup(symbols_done) = open_symbols(folder);
	uint64_t ip = 0x400000 + offset_in_module((void *)landmark);
	struct symbol_place place;
	char path[128];

	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 150; i++) {
			snprintf(path, sizeof(path), "%s/copy%u", folder, i);
			if (round == 0) {
				copy_exe(path);
				map_of(1000 + i, path);
			}
			symbols_user(s, 1000 + i, ip + i % 2, NULL, SECOND, &place);
			assert_string_equal(place.module, path);
			assert_non_null(place.symbol);
			assert_string_equal(place.symbol, "landmark");
			assert_int_equal(place.symbol_offset, i % 2);
			if (round == 1)
				unlink(path);
		}
}

/* ---- files that lie ---- */

struct image {
	unsigned char *data;
	size_t size;
};

static struct image read_exe(void)
{
	int fd auto_close = open("/proc/self/exe", O_RDONLY);
	struct image image;
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	image.size = (size_t)st.st_size;
	image.data = malloc(image.size);
	assert_non_null(image.data);
	assert_int_equal(pread(fd, image.data, image.size, 0), image.size);
	return image;
}

static int read_image(const void *data, size_t size, struct elf_symbols **ret)
{
	int fd auto_close = memfd_create("image", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, data, size, 0), size);
	return elf_symbols_read(fd, ret);
}

static void no_elf_file_has_no_symbols(void **state)
{
	static const char script[] = "#!/bin/sh\nexit 0\n";
	struct elf_symbols *s cleanup(elf_done) = NULL;

	assert_int_equal(read_image("", 0, &s), -ENOENT);
	assert_int_equal(read_image("\177ELF", 4, &s), -ENOENT);
	assert_int_equal(read_image(script, sizeof(script), &s), -ENOENT);
	assert_null(s);
}

static void a_table_that_is_too_large_is_refused(void **state)
{
	struct image image = read_exe();
	struct elf_symbols *s cleanup(elf_done) = NULL;
	Elf64_Ehdr *header = (Elf64_Ehdr *)image.data;
	Elf64_Shdr *sections = (Elf64_Shdr *)(image.data + header->e_shoff);
	int fd auto_close = memfd_create("image", MFD_CLOEXEC);

	for (unsigned i = 0; i < header->e_shnum; i++)
		if (sections[i].sh_type == SHT_SYMTAB)
			sections[i].sh_size = UINT64_C(24) << 26;
	assert_int_equal(pwrite(fd, image.data, image.size, 0), image.size);
	/* There is as much in the file, as holes. */
	assert_int_equal(ftruncate(fd, (off_t)8 << 30), 0);
	assert_int_equal(elf_symbols_read(fd, &s), -EFBIG);
	free(image.data);
}

/* Whatever the bytes of headers and symbols say: an answer or none, no access beyond what was read (the sanitizers
 * watch). */
static void damaged_files_do_no_harm(void **state)
{
	struct image good = read_exe();
	unsigned char *bad = malloc(good.size);
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)good.data;
	unsigned usable = 0;

	srand(7);
	for (int round = 0; round < 400; round++) {
		struct elf_symbols *s cleanup(elf_done) = NULL;
		size_t size = round % 4 == 3 ? (size_t)rand() % good.size : good.size;
		uint64_t offset;

		memcpy(bad, good.data, good.size);
		for (int n = 1 + rand() % 4; n > 0; n--) {
			size_t in_sections = header->e_shoff + (size_t)rand() % (header->e_shnum * sizeof(Elf64_Shdr));
			size_t at = rand() % 3 == 0 ? (size_t)rand() % 512
				    : rand() % 2    ? in_sections
						    : (size_t)rand() % good.size;

			bad[at] = (unsigned char)rand();
		}
		if (read_image(bad, size, &s) < 0)
			continue;
		usable++;
		for (uint64_t at = 0; at < good.size; at += 97) {
			const char *name = elf_symbols_find(s, at, &offset);

			assert_true(!name || strlen(name) > 0);
		}
	}
	assert_true(usable > 20);
	free(bad);
	free(good.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(addresses_find_the_symbol_that_holds_them),
	    cmocka_unit_test(a_symbol_without_size_does_not_reach_for_ever),
	    cmocka_unit_test(an_empty_table_knows_nothing),
	    cmocka_unit_test(kernel_functions_by_kallsyms),
	    cmocka_unit_test(hidden_kernel_addresses_are_no_symbols),
	    cmocka_unit_test(a_missing_list_is_an_error),
	    cmocka_unit_test(own_functions_are_named),
	    cmocka_unit_test(a_stripped_library_is_named_by_its_exports),
	    cmocka_unit_test(an_address_in_no_mapping_is_nowhere),
	    cmocka_unit_test(the_kernels_word_counts_more_than_old_maps),
	    cmocka_unit_test(mappings_without_a_file_have_no_offset),
	    cmocka_unit_test(a_process_that_is_gone_leaves_the_hint),
	    cmocka_unit_test(maps_without_a_hint_are_believed_for_a_second),
	    cmocka_unit_test(a_fifo_is_not_opened),
	    cmocka_unit_test(files_of_other_hosts_are_not_opened),
	    cmocka_unit_test(another_file_under_the_same_name_is_not_taken),
	    cmocka_unit_test(many_processes_and_files_fit_in_bounded_memory),
	    cmocka_unit_test(no_elf_file_has_no_symbols),
	    cmocka_unit_test(a_table_that_is_too_large_is_refused),
	    cmocka_unit_test(damaged_files_do_no_harm),
	};
	return cmocka_run_group_tests_name("symbols", tests, make_folder, remove_folder);
}
