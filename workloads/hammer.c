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
 *   zero    reads each page of its own part of one anonymous mapping: faults without a page
 *   pread   reads one byte of its own page of one file
 *   pages   the same, the whole page (pread1 on one file)
 *   stat    stat of one file on /tmp with a short name
 *   named   the same with a name as long as those of will-it-scale's files
 *   copy    writes a file of its own on /tmp in blocks of 1 KiB, reads it again (UnixBench fstime)
 *   dup     close(dup(0)), getpid, getuid, umask (UnixBench syscall)
 *   switch  hands a byte to a partner and back, through two pipes (context_switch1)
 *   open    even workers open and close one file, odd ones read another
 *   filefault    reads each page of one file through a private mapping of its own (page_fault2)
 *   mapping      maps and unmaps a page that it does not touch (mmap1)
 *   protect      takes and gives the right to write to a page of its own (mprotect1)
 *   heap         moves the end of the heap up and down (brk1)
 *   seek         moves in an open file of its own, of one inode (lseek1)
 *   opening      opens and closes one file (open2)
 *   opening-own  the same with files of their own in one folder (open1)
 *   unlink       creates and removes a file of its own in one folder (unlink1)
 *   readdir      lists one folder (readdir1)
 *   allocate     allocates and frees a page of a file of its own (fallocate1)
 *   parent       asks for its parent (getppid1)
 *   timer        makes, sets and deletes a timer (posix_timers)
 *   semaphore    takes and gives a semaphore of its own in one set
 *   queue        sends to itself through a message queue of its own (msgqueue)
 *   event        adds to and takes from an eventfd of its own (eventfd1)
 *   flood        sends to the first worker's UDP socket more than it can hold
 *   wait         waits on its own futexes for values that they do not have (perf bench futex hash)
 *   wake         wakes nobody at a futex of its own (futex1)
 *   poll         asks for an eventfd of its own (poll1)
 *   epoll        the same through an epoll instance of its own (epoll_wait1)
 *   signal       sends itself a signal (signal1)
 *
 * With -c each worker of zero, pread, pages, stat and named computes between two operations, for
 * that many turns of a loop. With -d all workers sleep for that many milliseconds before they
 * begin, so that what the kernel does because they started is over.
 *
 * Where it is weak: without -c nobody computes between two operations, so the object is busier than
 * in any program.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "children.h"
#include "common.h"
#include "hammer.h"
#include "messages.h"

static void compute(void)
{
	volatile long turn;

	for (turn = 0; turn < turns; turn++)
		;
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

/* A kernel without huge pages refuses the advice, and needs none. */
static void small_pages(void *start, long pages)
{
	must(!madvise(start, pages * PAGE, MADV_NOHUGEPAGE) || errno == EINVAL, "madvise");
}

static void fault_prepare(void)
{
	area = map_pages(workers * rounds, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	small_pages(area, workers * rounds);
}

static void zero(long worker)
{
	char *start = area + worker * rounds * PAGE;
	long i;

	for (i = 0; i < rounds; i++) {
		compute();
		(void)((volatile char *)start)[i * PAGE];
	}
}

static void map(long worker)
{
	(void)worker;
	char *own = map_pages(rounds, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	small_pages(own, rounds);
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

static void pread_some(long worker, size_t size)
{
	char bytes[PAGE];
	long i;

	for (i = 0; i < rounds; i++) {
		compute();
		must(pread(file, bytes, size, worker * PAGE) == (ssize_t)size, "pread");
	}
}

static void pread_byte(long worker)
{
	pread_some(worker, 1);
}

static void pread_page(long worker)
{
	pread_some(worker, PAGE);
}

static void stat_file(const char *name)
{
	struct stat found;
	long i;

	for (i = 0; i < rounds; i++) {
		compute();
		must(!stat(name, &found), "stat");
	}
}

static void stat_one(long worker)
{
	(void)worker;
	stat_file(SHARED_FILE);
}

static void named_prepare(void)
{
	close(make_file(NAMED_FILE, 1));
}

static void stat_named(long worker)
{
	(void)worker;
	stat_file(NAMED_FILE);
}

static void copy_own(long worker)
{
	char path[64], block[1024] = "";
	long i;
	int own;

	snprintf(path, sizeof(path), SHARED_FILE "-%ld", worker);
	own = make_file(path, 0);
	for (i = 0; i < rounds; i++)
		must(write(own, block, sizeof(block)) == sizeof(block), "write");
	must(!lseek(own, 0, SEEK_SET), "lseek");
	for (i = 0; i < rounds; i++)
		must(read(own, block, sizeof(block)) == sizeof(block), "read");
	close(own);
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

static void file_fault(long worker)
{
	volatile char *pages = mmap(NULL, workers * PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	long i;

	(void)worker;
	must(pages != MAP_FAILED, "mmap");
	for (i = 0; i < rounds; i++) {
		(void)pages[(i % workers) * PAGE];
		if (i % workers == workers - 1)
			must(!madvise((void *)pages, workers * PAGE, MADV_DONTNEED), "madvise");
	}
}

static void map_only(long worker)
{
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++)
		munmap(map_pages(1, MAP_PRIVATE | MAP_ANONYMOUS, -1), PAGE);
}

static void protect(long worker)
{
	char *own = map_pages(1, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++) {
		must(!mprotect(own, PAGE, PROT_READ), "mprotect");
		must(!mprotect(own, PAGE, PROT_READ | PROT_WRITE), "mprotect");
	}
}

/* By the system call: the library's own note of the heap's end is not for several threads. */
static void heap(long worker)
{
	long end = syscall(SYS_brk, 0), i;

	for (i = 0; i < rounds; i++) {
		syscall(SYS_brk, end + (1 + worker) * PAGE);
		syscall(SYS_brk, end);
	}
}

static void seek(long worker)
{
	int own = open(SHARED_FILE, O_RDONLY);
	long i;

	(void)worker;
	must(own >= 0, SHARED_FILE);
	for (i = 0; i < rounds; i++)
		must(lseek(own, i % 2, SEEK_SET) == i % 2, "lseek");
}

static void open_same(long worker)
{
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++)
		close(open(SHARED_FILE, O_RDONLY));
}

static void open_own(long worker)
{
	char path[64];
	long i;

	snprintf(path, sizeof(path), SHARED_FILE "-%ld", worker);
	close(make_file(path, 1));
	for (i = 0; i < rounds; i++)
		close(open(path, O_RDONLY));
}

static void remove_own(long worker)
{
	char path[64];
	long i;

	snprintf(path, sizeof(path), SHARED_FILE "-%ld", worker);
	for (i = 0; i < rounds; i++) {
		close(make_file(path, 0));
		must(!unlink(path), path);
	}
}

static void list_folder(long worker)
{
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++) {
		DIR *folder = opendir("/tmp");

		must(folder, "/tmp");
		while (readdir(folder))
			;
		closedir(folder);
	}
}

static void allocate(long worker)
{
	char path[64];
	long i;
	int own;

	snprintf(path, sizeof(path), SHARED_FILE "-%ld", worker);
	own = make_file(path, 0);
	for (i = 0; i < rounds; i++) {
		must(!fallocate(own, 0, 0, PAGE), "fallocate");
		must(!ftruncate(own, 0), "ftruncate");
	}
}

static void parent(long worker)
{
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++)
		syscall(SYS_getppid);
}

static void timer(long worker)
{
	struct sigevent quiet = { .sigev_notify = SIGEV_NONE };
	struct itimerspec later = { .it_value.tv_sec = 1000 };
	timer_t own;
	long i;

	(void)worker;
	for (i = 0; i < rounds; i++) {
		must(!timer_create(CLOCK_MONOTONIC, &quiet, &own), "timer_create");
		must(!timer_settime(own, 0, &later, NULL), "timer_settime");
		must(!timer_delete(own), "timer_delete");
	}
}

static const struct operation {
	const char *name;
	void (*prepare)(void);
	void (*work)(long worker);
	void (*end)(void);
} operations[] = {
	{ "fault", fault_prepare, fault, NULL },
	{ "map", NULL, map, NULL },
	{ "shared", NULL, map_shared, NULL },
	{ "zero", fault_prepare, zero, NULL },
	{ "pread", file_prepare, pread_byte, NULL },
	{ "pages", file_prepare, pread_page, NULL },
	{ "stat", file_prepare, stat_one, NULL },
	{ "named", named_prepare, stat_named, NULL },
	{ "copy", NULL, copy_own, NULL },
	{ "dup", NULL, dup_stdin, NULL },
	{ "switch", pipes_prepare, switch_pair, NULL },
	{ "open", file_prepare, open_or_read, NULL },
	{ "filefault", file_prepare, file_fault, NULL },
	{ "mapping", NULL, map_only, NULL },
	{ "protect", NULL, protect, NULL },
	{ "heap", NULL, heap, NULL },
	{ "seek", file_prepare, seek, NULL },
	{ "opening", file_prepare, open_same, NULL },
	{ "opening-own", NULL, open_own, NULL },
	{ "unlink", NULL, remove_own, NULL },
	{ "readdir", file_prepare, list_folder, NULL },
	{ "allocate", NULL, allocate, NULL },
	{ "parent", NULL, parent, NULL },
	{ "timer", NULL, timer, NULL },
	{ "semaphore", semaphores_prepare, semaphore, semaphores_end },
	{ "queue", NULL, queue, NULL },
	{ "event", NULL, event, NULL },
	{ "flood", flood_prepare, flood, NULL },
	{ "wait", NULL, wait_for_others, NULL },
	{ "wake", NULL, wake, NULL },
	{ "poll", NULL, poll_one, NULL },
	{ "epoll", NULL, epoll_one, NULL },
	{ "signal", signal_prepare, signal_itself, NULL },
};

static const struct operation *operation;

static const struct operation *named(const char *name)
{
	const size_t count = sizeof(operations) / sizeof(*operations);
	char names[1024] = "";
	size_t i;

	for (i = 0; i < count; i++) {
		if (!strcmp(operations[i].name, name))
			return &operations[i];
		strcat(strcat(names, i ? " " : ""), operations[i].name);
	}
	die("-o %s: give one of %s", name, names);
}

static void *work(void *number)
{
	long worker = (long)number;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(worker % sysconf(_SC_NPROCESSORS_ONLN), &cpus);
	must(!sched_setaffinity(0, sizeof(cpus), &cpus), "sched_setaffinity");
	pthread_barrier_wait(&shared->start);
	if (delay_ms) {
		usleep(delay_ms * 1000);
		pthread_barrier_wait(&shared->start);
	}
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

static const char usage[] =
	"usage: hammer -o OPERATION [-w WORKERS] [-l ROUNDS] [-c TURNS] [-d MS] [-p]";

int main(int argc, char **argv)
{
	bool processes = false;
	int option;

	while ((option = getopt(argc, argv, "o:w:l:c:d:p")) != -1) {
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
		case 'c':
			turns = parse_number("-c", optarg, 0, 100000000);
			break;
		case 'd':
			delay_ms = parse_number("-d", optarg, 0, 10000);
			break;
		case 'p':
			processes = true;
			break;
		default:
			die("%s", usage);
		}
	}
	if (!operation || optind != argc)
		die("%s", usage);
	prepare();
	if (processes)
		run_processes();
	else
		run_threads();
	if (operation->end)
		operation->end();
	return EXIT_SUCCESS;
}
