/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those who are connected to the local socket: each asks once and is answered piece by piece, as it reads.
 */
#pragma once

#include "daemon/sink/control.h"

struct control_peer;

struct control_peers {
	sd_event *event; /* borrowed */
	struct control_handlers handlers;
	bool addresses;
	uint64_t patience_ns;
	struct control_peer *peers[CONTROL_PEERS_MAX]; /* NULL where none is */
};

/* Takes over the connected, non-blocking socket, always. When there are too many the peer is told so and its
 * connection ends. */
void control_peers_add(struct control_peers *p, int fd);
/* Gives those that follow what the history has for them. */
void control_peers_wake(struct control_peers *p);
/* Ends all connections. */
void control_peers_done(struct control_peers *p);
