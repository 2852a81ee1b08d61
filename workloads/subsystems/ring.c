// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * ring - threads with an io_uring each that read one file, pass messages and hand work to workers.
 *
 * Each submits batches of no-ops, reads of one file and, one in eight, reads that are to be done by
 * io-wq's workers, and sends a message to the next thread's ring. It stands for storage servers and
 * runtimes on io_uring.
 *
 * Where it is weak: the file is in memory, so reads end at once where no worker does them; no
 * polling thread of the kernel, no registered buffers and no network.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common.h"

#define ENTRIES	32
#define BATCH	8
#define BLOCK	4096
#define THREADS_MAX	256

struct ring {
	int fd;
	unsigned int *sq_tail, *sq_array, *cq_head, *cq_tail, sq_mask;
	struct io_uring_sqe *sqes;
};

static struct ring rings[THREADS_MAX];
static long threads = 8, rounds = 100;
static pthread_barrier_t start;
static int file;

static void *map(int fd, size_t size, off_t at)
{
	void *got = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, at);

	if (got == MAP_FAILED)
		die("mmap of a ring: %s", strerror(errno));
	return got;
}

static void ring_create(struct ring *ring)
{
	struct io_uring_params about = { .flags = IORING_SETUP_CQSIZE, .cq_entries = 4096 };
	char *sq, *cq;

	ring->fd = syscall(SYS_io_uring_setup, ENTRIES, &about);
	if (ring->fd < 0)
		die("io_uring_setup: %s", strerror(errno));
	sq = map(ring->fd, about.sq_off.array + about.sq_entries * sizeof(unsigned int),
		 IORING_OFF_SQ_RING);
	cq = map(ring->fd, about.cq_off.cqes + about.cq_entries * sizeof(struct io_uring_cqe),
		 IORING_OFF_CQ_RING);
	ring->sqes = map(ring->fd, about.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring->sq_tail = (unsigned int *)(sq + about.sq_off.tail);
	ring->sq_array = (unsigned int *)(sq + about.sq_off.array);
	ring->sq_mask = *(unsigned int *)(sq + about.sq_off.ring_mask);
	ring->cq_head = (unsigned int *)(cq + about.cq_off.head);
	ring->cq_tail = (unsigned int *)(cq + about.cq_off.tail);
}

static struct io_uring_sqe *next_entry(struct ring *ring)
{
	unsigned int tail = *ring->sq_tail, index = tail & ring->sq_mask;

	memset(&ring->sqes[index], 0, sizeof(ring->sqes[index]));
	ring->sq_array[index] = index;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
	return &ring->sqes[index];
}

static void add_read(struct ring *ring, char *block, long at, int flags)
{
	struct io_uring_sqe *entry = next_entry(ring);

	entry->opcode = IORING_OP_READ;
	entry->fd = file;
	entry->addr = (uintptr_t)block;
	entry->len = BLOCK;
	entry->off = at % 64 * BLOCK;
	entry->flags = flags;
}

static void *work(void *given)
{
	long thread = (long)given, round;
	struct ring *ring = &rings[thread];
	static __thread char block[BLOCK];

	pthread_barrier_wait(&start);
	for (round = 0; round < rounds; round++) {
		struct io_uring_sqe *message;
		int i;

		for (i = 0; i < BATCH; i++) {
			if (i % 2)
				next_entry(ring)->opcode = IORING_OP_NOP;
			else
				add_read(ring, block, thread + round + i,
					 round % 4 || i ? 0 : IOSQE_ASYNC);
		}
		message = next_entry(ring);
		message->opcode = IORING_OP_MSG_RING;
		message->fd = rings[(thread + 1) % threads].fd;
		message->len = 1;
		if (syscall(SYS_io_uring_enter, ring->fd, BATCH + 1, BATCH + 1,
			    IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			die("io_uring_enter: %s", strerror(errno));
		__atomic_store_n(ring->cq_head, __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	}
	/* A ring stays as long as somebody may send to it. */
	pthread_barrier_wait(&start);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *path = "/tmp/ring";
	pthread_t ids[THREADS_MAX];
	int option;
	long i;

	while ((option = getopt(argc, argv, "t:l:f:")) != -1) {
		switch (option) {
		case 't':
			threads = parse_number("-t", optarg, 1, THREADS_MAX);
			break;
		case 'l':
			rounds = parse_number("-l", optarg, 1, 100000000);
			break;
		case 'f':
			path = optarg;
			break;
		default:
			die("usage: ring [-t THREADS] [-l ROUNDS] [-f FILE]");
		}
	}
	file = open(path, O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, 64 * BLOCK))
		die("%s: %s", path, strerror(errno));
	check(pthread_barrier_init(&start, NULL, threads), "pthread_barrier_init");
	for (i = 0; i < threads; i++)
		ring_create(&rings[i]);
	for (i = 0; i < threads; i++)
		check(pthread_create(&ids[i], NULL, work, (void *)i), "pthread_create");
	for (i = 0; i < threads; i++)
		check(pthread_join(ids[i], NULL), "pthread_join");
	return EXIT_SUCCESS;
}
