/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What all operations of hammer.c use. */
#ifndef LINEMATE_WORKLOADS_HAMMER_H
#define LINEMATE_WORKLOADS_HAMMER_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>

#include "common.h"

#define PAGE		4096L
#define WORKERS_MAX	1024
#define SHARED_FILE	"/tmp/hammer"
#define NAMED_FILE	"/tmp/willitscale.hammer"

/* Lives in memory that all workers share. */
struct shared {
	pthread_barrier_t start;
	int pipes[WORKERS_MAX][2];
	struct sockaddr_in flooded;
};

static struct shared *shared;
static long workers = 8, rounds = 100, turns, delay_ms;
static char *area;
static int file;

static void must(bool well, const char *what)
{
	if (!well)
		die("%s: %s", what, strerror(errno));
}

#endif
