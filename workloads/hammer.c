// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * hammer - workers that all do one thing to one object of the kernel, each pinned to a CPU.
 *
 * The shape of the small benchmarks (will-it-scale, pft, UnixBench) that changes of kernel structs
 * are measured with: N threads, or with -p processes, start together and repeat one operation.
 *
 *   fault   writes to each page of its own part of one anonymous mapping (pft)
 *   map     maps, writes to and unmaps pages of its own (page_fault1)
 *   shared  the same with a file of its own on /tmp, mapped shared (page_fault3)
 *   pread   reads one byte of its own page of one file (pread1 on one file)
 *   stat    stat of one file on /tmp
 *   dup     close(dup(0)), getpid, getuid, umask (UnixBench syscall)
 *   switch  hands a byte to a partner and back, through two pipes (context_switch1)
 *   open    even workers open and close one file, odd ones read another
 *
 * Where it is weak: nobody computes between two operations, so the object is busier than in any
 * program.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "children.h"
#include "common.h"

#define PAGE		4096L
#define WORKERS_MAX	1024
#define SHARED_FILE	"/tmp/hammer"

/* Lives in memory that all workers share. */
struct shared {
	pthread_barrier_t start;
	int pipes[WORKERS_MAX][2];
};

static struct shared *shared;
static long workers = 8, rounds = 100;
static char *area;
static int file;

static void must(bool well, const char *what)
{
	if (!well)
		die("%s: %s", what, strerror(errno));
}

static void *map_pages(long pages, int flags, int fd)
{
	void *start = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

	must(start != MAP_FAILED, "mmap");
	return start;
}

static int make_file(const char *path, long pages)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	must(fd >= 0 && !ftruncate(fd, pages * PAGE), path);
	return fd;
}

static void touch(char *start, long pages)
{
	long i;

	for (i = 0; i < pages; i++)
		((volatile char *)start)[i * PAGE] = 1;
}

/* The pages lie beside each other, so that faults of one worker share their page tables. */
static void fault(long worker)
{
	touch(area + worker * rounds * PAGE, rounds);
}

static void fault_prepare(void)
{
	area = map_pages(workers * rounds, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	must(!madvise(area, workers * rounds * PAGE, MADV_NOHUGEPAGE), "madvise");
}

static void map(long worker)
{
	(void)worker;
	char *own = map_pages(rounds, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	must(!madvise(own, rounds * PAGE, MADV_NOHUGEPAGE), "madvise");
	touch(own, rounds);
	munmap(own, rounds * PAGE);
}

static void map_shared(long worker)
{
	char path[64];
	char *own;
	int fd;

	snprintf(path, sizeof(path), SHARED_FILE "-%ld", worker);
	fd = make_file(path, rounds);
	own = map_pages(rounds, MAP_SHARED, fd);
	touch(own, rounds);
	munmap(own, rounds * PAGE);
	touch(map_pages(rounds, MAP_SHARED, fd), rounds);
}

static void file_prepare(void)
{
	long i;

	file = make_file(SHARED_FILE, workers);
	for (i = 0; i < workers; i++)
		must(pwrite(file, "x", 1, i * PAGE) == 1, "pwrite");
}

static void pread_own(long worker)
{
	char byte;
	long i;

	for (i = 0; i < rounds; i++)
		must(pread(file, &byte, 1, worker * PAGE) == 1, "pread");
}

static void stat_one(long worker)
{
	struct stat found;
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++)
		must(!stat(SHARED_FILE, &found), "stat");
}

static void dup_stdin(long worker)
{
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++) {
		close(dup(0));
		syscall(SYS_getpid);
		syscall(SYS_getuid);
		umask(022);
	}
}

static void pipes_prepare(void)
{
	long i;

	if (workers % 2)
		die("switch needs an even number of workers");
	for (i = 0; i < workers; i++)
		must(!pipe(shared->pipes[i]), "pipe");
}

static void switch_pair(long worker)
{
	int in = shared->pipes[worker][0], out = shared->pipes[worker ^ 1][1];
	char byte = 0;
	long i;

	for (i = 0; i < rounds; i++) {
		if (worker % 2)
			must(read(in, &byte, 1) == 1, "read");
		must(write(out, &byte, 1) == 1, "write");
		if (worker % 2 == 0)
			must(read(in, &byte, 1) == 1, "read");
	}
}

static void open_or_read(long worker)
{
	char byte;
	long i;

	for (i = 0; i < rounds; i++) {
		if (worker % 2)
			must(pread(file, &byte, 1, 0) == 1, "pread");
		else
			close(open("/tmp/hammer-opened", O_RDONLY | O_CREAT, 0600));
	}
}

static const struct operation {
	const char *name;
	void (*prepare)(void);
	void (*work)(long worker);
} operations[] = {
	{ "fault", fault_prepare, fault },
	{ "map", NULL, map },
	{ "shared", NULL, map_shared },
	{ "pread", file_prepare, pread_own },
	{ "stat", file_prepare, stat_one },
	{ "dup", NULL, dup_stdin },
	{ "switch", pipes_prepare, switch_pair },
	{ "open", file_prepare, open_or_read },
};

static const struct operation *operation;

static const struct operation *named(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(operations) / sizeof(*operations); i++)
		if (!strcmp(operations[i].name, name))
			return &operations[i];
	die("%s: fault, map, shared, pread, stat, dup, switch or open", name);
}

static void *work(void *number)
{
	long worker = (long)number;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(worker % sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	must(!sched_setaffinity(0, sizeof(cpus), &cpus), "sched_setaffinity");
	pthread_barrier_wait(&shared->start);
	operation->work(worker);
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[WORKERS_MAX];
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

		must(child >= 0, "fork");
		if (!child) {
			work((void *)i);
			_exit(EXIT_SUCCESS);
		}
	}
	if (collect_children(workers))
		die("a worker did not finish");
}

static void prepare(void)
{
	pthread_barrierattr_t attributes;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	must(shared != MAP_FAILED, "mmap");
	check(pthread_barrierattr_init(&attributes), "pthread_barrierattr_init");
	check(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED),
	      "pthread_barrierattr_setpshared");
	check(pthread_barrier_init(&shared->start, &attributes, workers), "pthread_barrier_init");
	if (operation->prepare)
		operation->prepare();
}

int main(int argc, char **argv)
{
	bool processes = false;
	int option;

	while ((option = getopt(argc, argv, "o:w:l:p")) != -1) {
		switch (option) {
		case 'o':
			operation = named(optarg);
			break;
		case 'w':
			workers = parse_number("-w", optarg, 1, WORKERS_MAX);
			break;
		case 'l':
			rounds = parse_number("-l", optarg, 1, 100000000);
			break;
		case 'p':
			processes = true;
			break;
		default:
			die("usage: hammer -o OPERATION [-w WORKERS] [-l ROUNDS] [-p]");
		}
	}
	if (!operation || optind != argc)
		die("usage: hammer -o OPERATION [-w WORKERS] [-l ROUNDS] [-p]");
	prepare();
	if (processes)
		run_processes();
	else
		run_threads();
	return EXIT_SUCCESS;
}
