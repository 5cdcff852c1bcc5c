/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a cgroup's path says about it: systemd unit and slice, container runtime and id, pod. Pure text work.
 */
#pragma once

#include <stddef.h>

/* Label of what has no series of its own, and of cgroups whose path could not be found. Paths begin with '/'. */
#define IDENTITY_OTHER "other"
#define IDENTITY_UNKNOWN "unknown"

struct identity {
	char *path;    /* raw bytes as the kernel has them, NUL-terminated: no path holds a NUL */
	char *label;   /* the path as valid UTF-8: each invalid sequence became U+FFFD */
	char *unit;    /* innermost systemd service or scope (socket, mount, swap too), escapes decoded; "" if none */
	char *slice;   /* innermost systemd slice; "" if none */
	char *runtime; /* docker, containerd, cri-o, podman, nspawn, lxc, ecs; "" if no container */
	char *container_id; /* "" if none; for nspawn and lxc the machine's name */
	char *pod_uid;      /* Kubernetes pod uid with '-', "" if none */
};

/* Parses `path` (`len` bytes without NUL, "/" is the root). The caller owns *ret; all strings are valid UTF-8 but `path`.
 * -ENOMEM, -EINVAL if the path is empty. *ret is untouched on failure. */
int identity_parse(const char *path, size_t len, struct identity **ret);

/* An identity that is only a label: IDENTITY_OTHER or IDENTITY_UNKNOWN. -ENOMEM. */
int identity_pseudo(const char *label, struct identity **ret);

/* Accepts NULL and half-built objects, returns NULL. */
struct identity *identity_free(struct identity *id);

/* ---- which cgroups get a series of their own ---- */

struct filter;

/* Copies the patterns. A cgroup passes if an include matches and no exclude does. Globs: `*` and `?` stay within one
 * component, `**` crosses '/', `[a-z]` and `\` as in fnmatch(3); a pattern matches the whole path, and one that
 * ends in a component `**` matches the folder itself too.
 * -ENOMEM; -EINVAL for a pattern that glob_check() refuses (config reports those with their position before). */
int filter_new(char *const *include, size_t n_include, char *const *exclude, size_t n_exclude, struct filter **ret);
struct filter *filter_free(struct filter *f);
/* 1 passes, 0 does not. */
int filter_pass(const struct filter *f, const char *path);
