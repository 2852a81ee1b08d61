// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * blocks - threads that read or write blocks of one device, past the page cache.
 *
 * Each thread has one request under way: 4 KiB at a place that its own random numbers choose, in
 * the first 4 MiB. With -W MOD every MOD-th request is a write. With -b it also writes through the
 * page cache and syncs after each 64 requests, which is what writeback throttling watches. With -p
 * they are processes. It represents databases on fast devices.
 *
 * Where it is weak: a thread waits for each request, and nobody computes between two. null_blk
 * completes requests by a timer on the CPU that sent them, which a device with fewer queues than
 * CPUs does not.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "../children.h"
#include "../common.h"

#define BLOCK	4096L
#define PLACES	1024L
#define SYNCED	64L

static long workers = 8, rounds = 400, write_each;
static bool buffered;
static const char *path = "/dev/nullb0";

static int open_device(int flags)
{
	int device = open(path, flags);

	if (device < 0)
		die("%s: %s", path, strerror(errno));
	return device;
}

static void *work(void *number)
{
	unsigned int seed = (unsigned int)(long)number;
	int direct = open_device(O_DIRECT | (write_each ? O_RDWR : O_RDONLY));
	int cached = buffered ? open_device(O_WRONLY) : -1;
	void *block = aligned_alloc(BLOCK, BLOCK);
	long round;

	if (!block)
		die("no memory");
	memset(block, 0, BLOCK);
	for (round = 1; round <= rounds; round++) {
		off_t place = rand_r(&seed) % PLACES * BLOCK;
		bool writes = write_each && round % write_each == 0;
		ssize_t done;

		done = writes ? pwrite(direct, block, BLOCK, place)
			      : pread(direct, block, BLOCK, place);
		if (done != BLOCK)
			die("%s: %s", path, done < 0 ? strerror(errno) : "too short");
		if (!buffered)
			continue;
		if (pwrite(cached, block, BLOCK, place + PLACES * BLOCK) != BLOCK)
			die("%s: %s", path, strerror(errno));
		if (round % SYNCED == 0 && fsync(cached))
			die("fsync: %s", strerror(errno));
	}
	free(block);
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[1024];
	long i;

	for (i = 0; i < workers; i++)
		check(pthread_create(&threads[i], NULL, work, (void *)i), "pthread_create");
	for (i = 0; i < workers; i++)
		check(pthread_join(threads[i], NULL), "pthread_join");
}

static void run_processes(void)
{
	long i;

	for (i = 0; i < workers; i++) {
		pid_t child = fork();

		if (child < 0)
			die("fork: %s", strerror(errno));
		if (!child) {
			work((void *)i);
			_exit(0);
		}
	}
	if (collect_children(workers))
		exit(EXIT_ERROR);
}

int main(int argc, char **argv)
{
	bool processes = false;
	int option;

	while ((option = getopt(argc, argv, "d:w:l:W:bp")) != -1) {
		switch (option) {
		case 'd':
			path = optarg;
			break;
		case 'w':
			workers = parse_number("-w", optarg, 1, 1024);
			break;
		case 'l':
			rounds = parse_number("-l", optarg, 1, 100000000);
			break;
		case 'W':
			write_each = parse_number("-W", optarg, 1, 1000000);
			break;
		case 'b':
			buffered = true;
			break;
		case 'p':
			processes = true;
			break;
		default:
			die("usage: blocks [-d DEVICE] [-w WORKERS] [-l ROUNDS] "
			    "[-W EACH] [-b] [-p]");
		}
	}
	if (processes)
		run_processes();
	else
		run_threads();
	return EXIT_SUCCESS;
}
