// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * files - processes or threads that work on files in one folder.
 *
 * -o churn: each creates a file, writes, renames, reads its folder's names, opens and removes it.
 * -o same: all open, stat, read and close one file. -o read: all read one file at offsets of their
 * own. -o write: each writes at its own offsets of one file. -o lock: all lock and unlock ranges of
 * one file. With -y files are synced. It stands for mail and build servers (churn), web servers and
 * libraries (same), databases (read, write, lock).
 *
 * Where it is weak: files are small and in memory or on a RAM disk, so nobody waits for a device;
 * the same names come back, so the dentry cache is warmer than a server's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common.h"

#define BLOCK	4096
#define BLOCKS	256

static long workers = 8, rounds = 100;
static bool sync_files;
static int shared;

static void must(bool well, const char *what)
{
	if (!well)
		die("%s: %s", what, strerror(errno));
}

static void churn(long worker, long round)
{
	char name[64], other[64], block[BLOCK] = { 1 };
	struct stat status;
	DIR *folder;
	int fd;

	snprintf(name, sizeof(name), "file.%ld.%ld", worker, round % 16);
	snprintf(other, sizeof(other), "renamed.%ld", worker);
	fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
	must(fd >= 0, "creating");
	must(write(fd, block, sizeof(block)) == sizeof(block), "writing");
	if (sync_files)
		must(!fsync(fd), "fsync");
	close(fd);
	must(!rename(name, other), "renaming");
	must(!stat(other, &status), "stat");
	if (round % 8 == 0) {
		folder = opendir(".");
		must(folder, "opendir");
		while (readdir(folder))
			;
		closedir(folder);
	}
	must(!unlink(other), "unlinking");
}

static void same(void)
{
	struct stat status;
	char block[64];
	int fd = open("shared", O_RDONLY);

	must(fd >= 0, "opening");
	must(!fstat(fd, &status), "fstat");
	must(!stat("shared", &status), "stat");
	must(read(fd, block, sizeof(block)) > 0, "reading");
	close(fd);
}

static void transfer(long worker, long round, bool writes)
{
	off_t at = (worker * 37 + round * 7) % BLOCKS * BLOCK;
	char block[BLOCK] = { 2 };

	if (writes)
		must(pwrite(shared, block, sizeof(block), at) > 0, "writing");
	else
		must(pread(shared, block, sizeof(block), at) > 0, "reading");
	if (writes && sync_files && round % 8 == 0)
		must(!fdatasync(shared), "fdatasync");
}

static void lock(long worker, long round)
{
	struct flock range = { .l_type = round % 4 ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };

	range.l_start = (worker + round) % BLOCKS * BLOCK;
	range.l_len = BLOCK;
	must(!fcntl(shared, F_OFD_SETLKW, &range), "locking");
	range.l_type = F_UNLCK;
	must(!fcntl(shared, F_OFD_SETLK, &range), "unlocking");
}

static char operation;

static void *work(void *given)
{
	long round, worker = (long)given;

	for (round = 0; round < rounds; round++) {
		switch (operation) {
		case 'c':
			churn(worker, round);
			break;
		case 's':
			same();
			break;
		case 'l':
			lock(worker, round);
			break;
		default:
			transfer(worker, round, operation == 'w');
		}
	}
	return NULL;
}

static void fill(void)
{
	char block[BLOCK] = { 3 };
	int i;

	shared = open("shared", O_CREAT | O_RDWR, 0600);
	must(shared >= 0, "creating");
	for (i = 0; i < BLOCKS; i++)
		must(write(shared, block, sizeof(block)) == sizeof(block), "writing");
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
	int status, failed = 0;
	long i;

	for (i = 0; i < workers; i++) {
		pid_t child = fork();

		must(child >= 0, "fork");
		if (!child) {
			/* Locks of an open file description are no obstacle to its own. */
			shared = open("shared", O_RDWR);
			must(shared >= 0, "opening");
			work((void *)i);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		die("a worker failed");
}

int main(int argc, char **argv)
{
	bool processes = false;
	int option;

	while ((option = getopt(argc, argv, "o:d:w:l:py")) != -1) {
		switch (option) {
		case 'o':
			operation = optarg[0];
			break;
		case 'd':
			if (chdir(optarg))
				die("%s: %s", optarg, strerror(errno));
			break;
		case 'w':
			workers = parse_number("-w", optarg, 1, 1024);
			break;
		case 'l':
			rounds = parse_number("-l", optarg, 1, 100000000);
			break;
		case 'p':
			processes = true;
			break;
		case 'y':
			sync_files = true;
			break;
		default:
			operation = 0;
		}
	}
	if (!operation || !strchr("csrwl", operation))
		die("usage: files -o churn|same|read|write|lock [-d FOLDER] [-w WORKERS] "
		    "[-l ROUNDS] [-p] [-y]");
	fill();
	if (processes)
		run_processes();
	else
		run_threads();
	return EXIT_SUCCESS;
}
