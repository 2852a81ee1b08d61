// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * measure - runs a command and writes what it cost: seconds and peak memory.
 *
 * usage: measure FILE COMMAND...
 *
 * FILE gets one line: wall-clock seconds, then the resident set's peak in KiB of
 * the largest of the command's processes. Its exit status is the command's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec start, end;
	struct rusage usage;
	FILE *file;
	pid_t pid;
	int status;

	if (argc < 3) {
		fputs("usage: measure FILE COMMAND...\n", stderr);
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		fprintf(stderr, "measure: %s: %s\n", argv[2], strerror(errno));
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, NULL) < 0) {
		fprintf(stderr, "measure: %s: %s\n", argv[2], strerror(errno));
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	getrusage(RUSAGE_CHILDREN, &usage);

	file = fopen(argv[1], "w");
	if (!file || fprintf(file, "%.2f %ld\n", (double)(end.tv_sec - start.tv_sec) +
			     (double)(end.tv_nsec - start.tv_nsec) / 1e9, usage.ru_maxrss) < 0 ||
	    fclose(file)) {
		fprintf(stderr, "measure: %s: %s\n", argv[1], strerror(errno));
		return 2;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
