// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * deferred - threads that leave work to RCU's callbacks, to its grace periods and to workqueues.
 *
 * Each opens and closes pipes (callbacks), replaces a socket's filter (callbacks), asks for memory
 * barriers on all CPUs (grace periods), and mounts and unmounts a tmpfs (grace periods and work).
 * It stands for what any server with many short-lived objects leaves behind.
 *
 * Where it is weak: grace periods are asked for far more often than by programs, and idle CPUs are
 * rare, so RCU sees few of them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common.h"

#define SHORT_LIVED	16

static long rounds = 20;

static void must(int well, const char *what)
{
	if (!well)
		die("%s: %s", what, strerror(errno));
}

static void replace_filter(int fd)
{
	struct sock_filter pass[] = { { BPF_RET | BPF_K, 0, 0, 0xffff } };
	struct sock_fprog program = { .len = 1, .filter = pass };

	must(!setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)),
	     "SO_ATTACH_FILTER");
}

static void work(long worker)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0), ends[2], i;
	char place[64];
	long round;

	must(fd >= 0, "socket");
	snprintf(place, sizeof(place), "/tmp/deferred.%ld", worker);
	must(!mkdir(place, 0700) || errno == EEXIST, place);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < SHORT_LIVED; i++) {
			must(!pipe(ends), "pipe");
			close(ends[0]);
			close(ends[1]);
			replace_filter(fd);
		}
		if (round % 4 == worker % 4)
			must(!syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0), "membarrier");
		if (round % 8 == worker % 8) {
			must(!mount("none", place, "tmpfs", 0, NULL), "mount");
			must(!umount2(place, MNT_DETACH), "umount");
		}
	}
}

int main(int argc, char **argv)
{
	long i, workers = 8;
	int option, status, failed = 0;

	while ((option = getopt(argc, argv, "w:l:")) != -1) {
		switch (option) {
		case 'w':
			workers = parse_number("-w", optarg, 1, 1024);
			break;
		case 'l':
			rounds = parse_number("-l", optarg, 1, 100000000);
			break;
		default:
			die("usage: deferred [-w WORKERS] [-l ROUNDS]");
		}
	}
	for (i = 0; i < workers; i++) {
		pid_t child = fork();

		must(child >= 0, "fork");
		if (!child) {
			work(i);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		die("a worker failed");
	return EXIT_SUCCESS;
}
