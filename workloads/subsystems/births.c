// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * births - workers that make processes and threads and wait for their end.
 *
 * -o fork: each child writes to a page and ends. -o exec: each child runs PROGRAM. -o thread: each
 * worker starts a thread and joins it. It stands for shells, build servers, pre-forking servers
 * and runtimes: the paths of process ids, address spaces, credentials, accounting and exit.
 *
 * Where it is weak: the parent is small, so copying its tables costs little; nobody computes.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common.h"

static long workers = 8, rounds = 20;
static const char *program = "/bin/busybox";
static volatile long written;

static void *nothing(void *given)
{
	return given;
}

static void born(char operation)
{
	char *words[] = { (char *)program, "true", NULL }, *none[] = { NULL };
	pthread_t thread;
	pid_t child = 0;

	switch (operation) {
	case 't':
		check(pthread_create(&thread, NULL, nothing, NULL), "pthread_create");
		check(pthread_join(thread, NULL), "pthread_join");
		return;
	case 'e':
		check(posix_spawn(&child, program, NULL, NULL, words, none), program);
		break;
	default:
		child = fork();
		if (child < 0)
			die("fork: %s", strerror(errno));
		if (!child) {
			written++;
			_exit(0);
		}
	}
	if (waitpid(child, NULL, 0) != child)
		die("waitpid: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	char operation = 0;
	int option;
	long i, round;

	while ((option = getopt(argc, argv, "o:w:l:x:")) != -1) {
		switch (option) {
		case 'o':
			operation = optarg[0];
			break;
		case 'w':
			workers = parse_number("-w", optarg, 1, 1024);
			break;
		case 'l':
			rounds = parse_number("-l", optarg, 1, 100000000);
			break;
		case 'x':
			program = optarg;
			break;
		default:
			operation = 0;
		}
	}
	if (!operation || !strchr("fet", operation))
		die("usage: births -o fork|exec|thread [-w WORKERS] [-l ROUNDS] [-x PROGRAM]");
	for (i = 0; i < workers; i++) {
		pid_t child = fork();

		if (child < 0)
			die("fork: %s", strerror(errno));
		if (child)
			continue;
		for (round = 0; round < rounds; round++)
			born(operation);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	return EXIT_SUCCESS;
}
