// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Four threads use objects of types that the program itself tells: where each lies in the
 * guest's memory, by /proc/self/pagemap, and what it is. Whatever names their accesses must say
 * the same.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 200
/* Where Linux maps all physical memory on x86-64, without address randomisation. */
#define DIRECT_MAP 0xffff888000000000ull

struct stats {
	long hits;
	long misses;
	atomic_int refs;
};

struct conn {
	int fd;
	unsigned int flags : 3;
	long bytes_in;
	long bytes_out;
	struct stats st;
	struct conn *next;
	union {
		double rate;
		long limit;
	};
};

struct node {
	struct node *next;
	long key;
	char name[16];
	long (*weigh)(const struct node *n);
};

struct slot {
	long count;
	long sum;
};

struct pool {
	pthread_mutex_t lock;
	struct slot slots[THREADS];
	struct conn *first;
	struct node *list;
};

/* Written before what is on stacks is used, and afterwards: in between it is what is told. */
static volatile long window;

/* On main's stack: each thread writes its own, main reads them all. */
struct request {
	long id;
	struct stats st;
	long answer;
};

struct job {
	long id;
	struct request *request;
	struct conn *conn;
};

static struct pool pool = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct slot totals[THREADS];
/* On the heap, and no struct. */
static long *numbers;
struct stats everything;
__thread struct slot mine;

static uint64_t place(const void *p)
{
	static int fd = -1;
	uint64_t entry = 0;

	if (fd < 0)
		fd = open("/proc/self/pagemap", O_RDONLY);
	if (pread(fd, &entry, sizeof(entry), (uintptr_t)p / 4096 * 8) != sizeof(entry) ||
	    !(entry >> 63))
		abort();
	return DIRECT_MAP + (entry & ((1ull << 55) - 1)) * 4096 + (uintptr_t)p % 4096;
}

/* A number of a function's, which has its address taken: FUNCTION and VARIABLE. */
static void tell_number(const void *p, const char *function, const char *variable)
{
	printf("number %llx 8 %s %s\n", (unsigned long long)place(p), function, variable);
}

static void tell_as(const char *what, const void *p, size_t size, const char *type)
{
	/* What crosses a page is two places in memory. */
	if ((uintptr_t)p / 4096 == ((uintptr_t)p + size - 1) / 4096)
		printf("%s %llx %zu %s\n", what, (unsigned long long)place(p), size, type);
}

static void tell(const void *p, size_t size, const char *type)
{
	tell_as("object", p, size, type);
}

/* Objects of two types come from one place. */
static void *get(size_t size)
{
	void *p = malloc(size);

	if (!p)
		abort();
	return memset(p, 0, size);
}

static struct conn *new_conn(int fd)
{
	struct conn *c = get(sizeof(*c));

	c->fd = fd;
	c->flags = 1;
	return c;
}

static long weigh(const struct node *n)
{
	return n->key;
}

static struct node *new_node(long key)
{
	struct node *n = get(sizeof(*n));

	n->weigh = weigh;
	n->key = key;
	strcpy(n->name, "node");
	return n;
}

static __attribute__((noinline)) void use_conn(struct conn *c, long n)
{
	c->bytes_in += n;
	c->st.hits++;
	atomic_fetch_add(&c->st.refs, 1);
	if (c->next)
		c->next->bytes_out -= n;
	c->limit = n;
}

static __attribute__((noinline)) long walk(struct node *n)
{
	long sum = 0;

	for (; n; n = n->next) {
		sum += n->weigh(n) + n->name[0];
		n->key ^= 1;
	}
	return sum;
}

static __attribute__((noinline)) void answer(struct request *r, long *last)
{
	r->answer += r->id + *last;
	r->st.misses++;
	*last = r->answer;
}

static void *thread(void *p)
{
	struct job *job = p;
	long last = 0, id = job->id;
	struct conn *c;

	tell_number(&last, "thread", "last");
	for (long i = 0; i < ROUNDS; i++) {
		for (c = pool.first; c; c = c->next)
			use_conn(c, i);
		use_conn(job->conn, i);
		answer(job->request, &last);
		last ^= 1;
		mine.sum += walk(pool.list);
		mine.count++;
		pool.slots[id].count++;
		totals[id].sum += mine.sum;
		everything.misses++;
		numbers[(id * ROUNDS + i) % 64]++;
		if (i % 16 == 0) {
			pthread_mutex_lock(&pool.lock);
			everything.hits++;
			pthread_mutex_unlock(&pool.lock);
		}
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	struct request requests[THREADS];
	struct conn shared = { .fd = -1 };
	struct job jobs[THREADS];
	long sum = 0;
	struct conn *c;
	struct node *n;

	numbers = get(64 * sizeof(*numbers));
	for (int i = 0; i < 6; i++) {
		c = new_conn(i);
		c->next = pool.first;
		pool.first = c;
		n = new_node(i);
		n->next = pool.list;
		pool.list = n;
	}
	memset(requests, 0, sizeof(requests));
	window = 1;
	for (long i = 0; i < THREADS; i++) {
		requests[i].id = i;
		jobs[i] = (struct job){ i, &requests[i], &shared };
		pthread_create(&threads[i], NULL, thread, &jobs[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		answer(&requests[i], &sum);
	window = 2;
	for (int i = 0; i < THREADS; i++) {
		tell_as("stack", &requests[i], sizeof(requests[i]), "request");
		tell_as("stack", &jobs[i], sizeof(jobs[i]), "job");
	}
	tell_as("stack", &shared, sizeof(shared), "conn");
	tell_as("window", (void *)&window, sizeof(window), "long");
	tell_number(&sum, "main", "sum");
	for (c = pool.first; c; c = c->next)
		tell(c, sizeof(*c), "conn");
	for (n = pool.list; n; n = n->next)
		tell(n, sizeof(*n), "node");
	tell(&pool, sizeof(pool), "pool");
	tell(totals, sizeof(totals), "slot");
	tell(&everything, sizeof(everything), "stats");
	return 0;
}
