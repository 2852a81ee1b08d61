// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A server that forks its workers after it has built its tables. Each worker counts in a table of
 * its parent's, frees a block of its parent's, and uses one of its own in that place.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKERS 6
#define ROUNDS 10000

struct route {
	volatile long hits;
	long rest[13];
};

struct start_option {
	volatile long read;
	long rest[23];
};

struct visit {
	volatile long handled;
	long rest[23];
};

static void work(struct route *route, struct start_option *option)
{
	struct visit *visit;

	for (int i = 0; i < ROUNDS; i++)
		route->hits++;
	option->read++;
	free(option);
	visit = malloc(sizeof(*visit));
	for (int i = 0; i < ROUNDS; i++)
		visit->handled++;
	free(visit);
}

int main(void)
{
	struct route *route = calloc(1, sizeof(*route));
	struct start_option *option = calloc(1, sizeof(*option));

	/* One after the other: the kernel gives each the page tables of the one before. */
	for (int i = 0; i < WORKERS; i++) {
		pid_t worker = fork();

		if (worker == 0) {
			work(route, option);
			_exit(0);
		}
		if (worker < 0 || waitpid(worker, NULL, 0) != worker)
			return 1;
	}
	return (int)route->hits;
}
