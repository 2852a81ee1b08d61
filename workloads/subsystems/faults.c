// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * faults - threads of one process that map, touch, protect and unmap memory.
 *
 * Each thread maps N pages, writes to every one, takes half of them back with MADV_DONTNEED, makes
 * them read-only, and unmaps them: page faults under per-area locks, changes of areas under
 * mmap_lock. With -f FILE all threads map that file shared instead, so faults go to one page cache.
 * With -p they are processes. It stands for allocators of threaded servers, for garbage collectors,
 * and for databases that map their files.
 *
 * Where it is weak: nobody computes between two calls, so mmap_lock is busier than in any program,
 * and all areas have one size.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common.h"

#define PAGE	4096L

static long workers = 8, pages = 64, rounds = 50;
static int file = -1;

static void touch(char *area)
{
	long i;

	for (i = 0; i < pages; i++)
		((volatile char *)area)[i * PAGE] = 1;
}

static void *work(void *unused)
{
	int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	long round;

	(void)unused;
	for (round = 0; round < rounds; round++) {
		char *area = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);

		if (area == MAP_FAILED)
			die("mmap: %s", strerror(errno));
		touch(area);
		if (madvise(area, pages / 2 * PAGE, MADV_DONTNEED))
			die("madvise: %s", strerror(errno));
		touch(area);
		if (mprotect(area, pages / 2 * PAGE, PROT_READ))
			die("mprotect: %s", strerror(errno));
		munmap(area, pages * PAGE);
	}
	return NULL;
}

static void open_file(const char *path)
{
	file = open(path, O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, pages * PAGE))
		die("%s: %s", path, strerror(errno));
}

static void run_threads(void)
{
	pthread_t threads[1024];
	long i;

	for (i = 0; i < workers; i++)
		check(pthread_create(&threads[i], NULL, work, NULL), "pthread_create");
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
			work(NULL);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	const char *path = NULL;
	bool processes = false;
	int option;

	while ((option = getopt(argc, argv, "w:n:l:f:p")) != -1) {
		switch (option) {
		case 'w':
			workers = parse_number("-w", optarg, 1, 1024);
			break;
		case 'n':
			pages = parse_number("-n", optarg, 2, 1000000);
			break;
		case 'l':
			rounds = parse_number("-l", optarg, 1, 100000000);
			break;
		case 'f':
			path = optarg;
			break;
		case 'p':
			processes = true;
			break;
		default:
			die("usage: faults [-w WORKERS] [-n PAGES] [-l ROUNDS] [-f FILE] [-p]");
		}
	}
	if (path)
		open_file(path);
	if (processes)
		run_processes();
	else
		run_threads();
	return EXIT_SUCCESS;
}
