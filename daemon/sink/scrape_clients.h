/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of one listening socket in the order of their deadlines, so that none of them can hold a place for
 * long: each has the same time for its next request, whatever it does meanwhile. Embedded, allocates nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scrape_client {
	struct scrape_client *prev, *next;
	uint64_t since_ns; /* when it began or finished its last request */
	int fd;            /* borrowed */
	bool closing;      /* was cut off; its end is still to be noticed */
};

struct scrape_clients {
	struct scrape_client *first, *last;
	size_t n_open;    /* without those that are closing */
	size_t n_closing; /* cut off, still to be removed */
};

void scrape_clients_add(struct scrape_clients *l, struct scrape_client *c, int fd, uint64_t now_ns);
void scrape_clients_remove(struct scrape_clients *l, struct scrape_client *c);
/* It finished a request: its time begins anew. */
void scrape_clients_renew(struct scrape_clients *l, struct scrape_client *c, uint64_t now_ns);
/* Cuts off those whose time is over. A connection that is cut off is shut down, so that its owner sees it end and
 * removes it. */
void scrape_clients_expire(struct scrape_clients *l, uint64_t now_ns, uint64_t deadline_ns);
/* Cuts off those that are due first until no more than `max` are open. */
void scrape_clients_make_room(struct scrape_clients *l, size_t max);
/* When the first one is due; UINT64_MAX if there is none. */
uint64_t scrape_clients_due(const struct scrape_clients *l, uint64_t deadline_ns);
