// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * read_only - all threads read one table that is written once, before they start.
 * A control: lines that nobody writes are in every core's cache.
 *
 * Where it is weak: the table fits every cache.
 */
#include "../threads.h"

#define ROUTES 64

struct route {
	long network;
	long mask;
	long gateway;
	int metric;
	int device;
};

static struct route *routes;
/* A line for each thread's. */
static _Alignas(128) long found[THREADS_MAX][16];

static void look_up(const struct work *work)
{
	const struct route *route;
	long round, sum = 0;

	for (round = 0; round < work->rounds; round++)
		for (route = routes; route < routes + ROUTES; route++)
			if ((round & route->mask) == route->network)
				sum += route->gateway + route->metric;
	found[work->thread][0] = sum;
}

int main(int argc, char **argv)
{
	struct work work = work_from(argc, argv, 200);
	int i;

	routes = calloc(ROUTES, sizeof(*routes));
	if (!routes)
		return 2;
	for (i = 0; i < ROUTES; i++)
		routes[i] = (struct route){ i, 63, i + 1, i % 7, i % 3 };
	work_in_threads(&work, look_up);
	free(routes);
	return found[0][0] == 0;
}
