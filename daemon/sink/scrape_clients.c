/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/scrape_clients.h"

#include <sys/socket.h>

static void unlink_client(struct scrape_clients *l, struct scrape_client *c)
{
	*(c->prev ? &c->prev->next : &l->first) = c->next;
	*(c->next ? &c->next->prev : &l->last) = c->prev;
	c->prev = c->next = NULL;
}

static void append_client(struct scrape_clients *l, struct scrape_client *c, uint64_t now_ns)
{
	c->since_ns = now_ns;
	c->prev = l->last;
	*(l->last ? &l->last->next : &l->first) = c;
	l->last = c;
}

static struct scrape_client *first_open(const struct scrape_clients *l)
{
	struct scrape_client *c = l->first;

	while (c && c->closing)
		c = c->next;
	return c;
}

static void cut_off(struct scrape_clients *l, struct scrape_client *c)
{
	c->closing = true;
	l->n_open--;
	l->n_closing++;
	(void)shutdown(c->fd, SHUT_RDWR);
}

void scrape_clients_add(struct scrape_clients *l, struct scrape_client *c, int fd, uint64_t now_ns)
{
	*c = (struct scrape_client){.fd = fd};
	append_client(l, c, now_ns);
	l->n_open++;
}

void scrape_clients_remove(struct scrape_clients *l, struct scrape_client *c)
{
	unlink_client(l, c);
	if (c->closing)
		l->n_closing--;
	else
		l->n_open--;
}

void scrape_clients_renew(struct scrape_clients *l, struct scrape_client *c, uint64_t now_ns)
{
	unlink_client(l, c);
	append_client(l, c, now_ns);
}

void scrape_clients_expire(struct scrape_clients *l, uint64_t now_ns, uint64_t deadline_ns)
{
	for (struct scrape_client *c = first_open(l); c && now_ns - c->since_ns >= deadline_ns; c = first_open(l))
		cut_off(l, c);
}

void scrape_clients_make_room(struct scrape_clients *l, size_t max)
{
	for (struct scrape_client *c = first_open(l); c && l->n_open > max; c = first_open(l))
		cut_off(l, c);
}

uint64_t scrape_clients_due(const struct scrape_clients *l, uint64_t deadline_ns)
{
	const struct scrape_client *c = first_open(l);

	return c ? c->since_ns + deadline_ns : UINT64_MAX;
}
