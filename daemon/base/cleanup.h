/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership by scope: every local that owns something carries a cleanup attribute, every escape goes through a take.
 * A reader can then prove one function leak-free without opening the functions it calls.
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define cleanup(f) __attribute__((cleanup(f)))

/* Defines a cleanup handler `name` for locals of `type`, which calls `destroy(local)`; destroy must accept an empty
 * value. */
#define DEFINE_CLEANUP(name, type, destroy)  \
	static inline void name(type *local) \
	{                                    \
		destroy(*local);             \
	}

/* Hands the value of an owning local over and leaves the local empty. */
#define take_ptr(p)                         \
	__extension__({                     \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})

static inline void free_local(void *p)
{
	free(*(void **)p);
}

/* Closes a descriptor and returns the empty sentinel. Negative values are ignored; errno is kept. */
static inline int close_fd(int fd)
{
	if (fd >= 0) {
		int saved = errno;
		close(fd);
		errno = saved;
	}
	return -EBADF;
}

static inline int take_fd(int *fd)
{
	int taken = *fd;
	*fd = -EBADF;
	return taken;
}

static inline void close_local(int *fd)
{
	close_fd(*fd);
}

static inline void fclose_local(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define auto_free cleanup(free_local)
#define auto_fclose cleanup(fclose_local)
#define auto_close cleanup(close_local)
