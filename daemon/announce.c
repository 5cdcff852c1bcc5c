/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/announce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/sink/journal.h"

struct announce {
	sd_event *event;
	struct control_handlers handlers;
	struct self_stats *self;
	enum crash_disclosure disclosure;
	struct journal *journal; /* NULL: none */
	struct control *control; /* NULL: none */
	char *socket, *group;    /* of the control socket as it was asked for */
};

enum crash_disclosure announce_disclosure(const struct config *config)
{
	switch (config->bad_access.addresses) {
	case CONFIG_ADDRESSES_NONE:
		return CRASH_ADDRESSES_NONE;
	case CONFIG_ADDRESSES_LOCAL:
		return CRASH_ADDRESSES_LOCAL;
	case CONFIG_ADDRESSES_ALL:
		return CRASH_ADDRESSES_ALL;
	}
	return CRASH_ADDRESSES_NONE;
}

/* ---- journal ---- */

static void open_journal(struct announce *a, const struct config *config)
{
	int r;

	if (!config->bad_access.journal) {
		a->journal = journal_free(a->journal);
		return;
	}
	if (a->journal)
		return;
	r = journal_new(NULL, &a->journal);
	if (r == -ENOENT || r == -ECONNREFUSED)
		log_info("there is no journal here: crash records go without");
	else if (r < 0)
		log_warning_errno(r, "the journal cannot be reached (%s), ignoring: crash records go without",
				  strerror(-r));
}

/* ---- control socket ---- */

/* /run/faultd is made by systemd where that starts us; else by us, and no folder above it. */
static void make_folder(const char *socket)
{
	auto_free char *folder = strdup(socket);
	char *slash = folder ? strrchr(folder, '/') : NULL;

	if (slash && slash != folder) {
		*slash = '\0';
		(void)mkdir(folder, 0755);
	}
}

static void open_control(struct announce *a, const struct config *config)
{
	int r;

	if (a->control && strcmp(a->socket, config->control.socket) == 0 &&
	    strcmp(a->group, config->control.group) == 0) {
		control_set_disclosure(a->control, a->disclosure);
		return;
	}
	a->control = control_free(a->control);
	free(a->socket);
	free(a->group);
	a->socket = strdup(config->control.socket);
	a->group = strdup(config->control.group);
	if (!*config->control.socket)
		return;
	make_folder(config->control.socket);
	r = a->socket && a->group ? control_new(a->event, config->control.socket, config->control.group, a->disclosure,
						&a->handlers, &a->control)
				  : -ENOMEM;
	if (r == -EADDRINUSE)
		log_warning_errno(r,
				  "control.socket: %s is taken (another program listens there, or it is no socket), "
				  "ignoring: faultctl cannot reach this daemon",
				  config->control.socket);
	else if (r < 0)
		log_warning_errno(
		    r, "control.socket: cannot listen at %s (%s), ignoring: faultctl cannot reach this daemon",
		    config->control.socket, strerror(-r));
}

/* ---- the object ---- */

void announce_configure(struct announce *a, const struct config *config)
{
	a->disclosure = announce_disclosure(config);
	open_journal(a, config);
	open_control(a, config);
}

int announce_new(sd_event *event, const struct config *config, const struct control_handlers *handlers,
		 struct self_stats *self, struct announce **ret)
{
	struct announce *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->event = event;
	a->handlers = *handlers;
	a->self = self;
	announce_configure(a, config);
	*ret = a;
	return 0;
}

struct announce *announce_free(struct announce *a)
{
	if (a) {
		journal_free(a->journal);
		control_free(a->control);
		free(a->socket);
		free(a->group);
		free(a);
	}
	return NULL;
}

void announce_crash(struct announce *a, const struct crash *crash)
{
	if (a->journal) {
		if (journal_crash(a->journal, crash, a->disclosure == CRASH_ADDRESSES_ALL) == 0)
			a->self->journal_written++;
		else
			a->self->journal_lost++;
	}
	if (a->control)
		control_crash_added(a->control);
}
