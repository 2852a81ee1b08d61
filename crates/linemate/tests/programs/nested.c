/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A socket of a protocol begins with what all sockets have: its own order of members moves that as
 * a whole. One thread counts what it drops next to what the others read.
 */
#define _GNU_SOURCE
#include "start.h"

enum { THREADS = 4, ROUNDS = 4000 };

struct sock {
	long state;
	long filter;
	long drops;
	long protocol;
	long bound[8];
};

struct packet_sock {
	struct sock sk;
	long ring[8];
};

static struct packet_sock *sock;
static volatile long sink[16 * THREADS];

static void *work(void *arg)
{
	volatile struct packet_sock *s = sock;
	long me = (long)arg;

	start(me, THREADS);
	for (int i = 0; i < ROUNDS; i++) {
		if (me == 0)
			s->sk.drops++;
		else
			sink[16 * me] = s->sk.filter + s->sk.protocol;
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	sock = aligned_alloc(64, 192);
	*sock = (struct packet_sock){ .sk = { .protocol = 17 } };
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return sock->sk.drops == ROUNDS ? EXIT_SUCCESS : EXIT_FAILURE;
}
