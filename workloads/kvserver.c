// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * kvserver - a small in-memory key-value server and its clients, in one program.
 *
 * Each worker thread serves one client over a pair of sockets. A request asks
 * for 256 keys; the worker looks each up in a hash table that all workers
 * share and that nobody changes, counts it, and answers with the values.
 *
 * It is the program of docs/guide/programs.md, with two mistakes that servers make:
 * the table's head, which every look-up reads, shares a line with counters
 * that every look-up changes; and the workers' own counters are neighbours in
 * one array. -DMENDED is the same program without them.
 *
 * Where it is weak: the table is never written, clients do nothing between two
 * requests, and each has a worker of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#define KEYS_PER_REQUEST	256
#define KEYS			4096
#define BUCKETS			1024
#define WORKERS_MAX		1024
#define REQUESTS_MAX		10000000
#define LINE			64
/* Knuth's linear congruential generator (MMIX). */
#define MULTIPLIER		6364136223846793005ULL
#define INCREMENT		1442695040888963407ULL

#ifdef MENDED
#define OWN_LINE	__attribute__((aligned(LINE)))
#else
#define OWN_LINE
#endif

struct entry {
	struct entry *next;
	uint64_t key;
	uint64_t value;
};

/* One for the whole server. */
struct store {
	struct entry **buckets;
	uint64_t mask;
	uint64_t lookups OWN_LINE;	/* of all workers */
	uint64_t hits;
};

/* One for each worker, in an array. */
struct worker {
	uint64_t requests OWN_LINE;
	uint64_t bytes;
	struct store *store;
	int socket;
};

struct client {
	int socket;
	long requests;
	uint64_t seed;
};

struct request {
	uint64_t keys[KEYS_PER_REQUEST];
};

struct answer {
	uint64_t values[KEYS_PER_REQUEST];
};

/* A multiplicative hash (Knuth): the high bits are the well mixed ones. */
static uint64_t hash(uint64_t key)
{
	return (key * 0x9e3779b97f4a7c15ULL) >> 32;
}

static struct store *store_create(void)
{
	struct store *store = aligned_alloc(LINE, (sizeof(*store) + LINE - 1) / LINE * LINE);
	uint64_t key;

	if (!store)
		die("out of memory");
	memset(store, 0, sizeof(*store));
	store->mask = BUCKETS - 1;
	store->buckets = calloc(BUCKETS, sizeof(*store->buckets));
	if (!store->buckets)
		die("out of memory");
	for (key = 0; key < KEYS; key++) {
		struct entry *entry = malloc(sizeof(*entry));
		struct entry **bucket = &store->buckets[hash(key) & store->mask];

		if (!entry)
			die("out of memory");
		entry->key = key;
		entry->value = key * key;
		entry->next = *bucket;
		*bucket = entry;
	}
	return store;
}

static uint64_t store_get(struct store *store, uint64_t key)
{
	struct entry *entry = store->buckets[hash(key) & store->mask];

	__atomic_fetch_add(&store->lookups, 1, __ATOMIC_RELAXED);
	while (entry && entry->key != key)
		entry = entry->next;
	if (!entry)
		return 0;
	__atomic_fetch_add(&store->hits, 1, __ATOMIC_RELAXED);
	return entry->value;
}

/* Reads all of a message; false at the connection's end. */
static bool receive(int socket, void *message, size_t size)
{
	ssize_t got = recv(socket, message, size, MSG_WAITALL);

	if (got < 0)
		die("recv: %s", strerror(errno));
	return (size_t)got == size;
}

static void transmit(int socket, const void *message, size_t size)
{
	if (send(socket, message, size, MSG_NOSIGNAL) != (ssize_t)size)
		die("send: %s", strerror(errno));
}

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	struct request request;
	struct answer answer;
	int i;

	while (receive(worker->socket, &request, sizeof(request))) {
		for (i = 0; i < KEYS_PER_REQUEST; i++) {
			answer.values[i] = store_get(worker->store, request.keys[i]);
			worker->bytes += sizeof(answer.values[i]);
		}
		worker->requests++;
		transmit(worker->socket, &answer, sizeof(answer));
	}
	return NULL;
}

static void *client_run(void *argument)
{
	struct client *client = argument;
	struct request request;
	struct answer answer;
	int i;

	while (client->requests--) {
		for (i = 0; i < KEYS_PER_REQUEST; i++) {
			client->seed = client->seed * MULTIPLIER + INCREMENT;
			request.keys[i] = (client->seed >> 33) % KEYS;
		}
		transmit(client->socket, &request, sizeof(request));
		if (!receive(client->socket, &answer, sizeof(answer)))
			die("the server closed the connection");
		for (i = 0; i < KEYS_PER_REQUEST; i++)
			if (answer.values[i] != request.keys[i] * request.keys[i])
				die("a wrong value came back");
	}
	shutdown(client->socket, SHUT_RDWR);
	return NULL;
}

/* A worker and its client, each in a thread. */
static void pair_start(struct worker *worker, struct client *client, pthread_t threads[2])
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair: %s", strerror(errno));
	worker->socket = pair[0];
	client->socket = pair[1];
	check(pthread_create(&threads[0], NULL, worker_run, worker), "pthread_create");
	check(pthread_create(&threads[1], NULL, client_run, client), "pthread_create");
}

static void usage(void)
{
	puts("usage: kvserver [-w WORKERS] [-n REQUESTS]\n"
	     "  -w N  workers, and as many clients (4)\n"
	     "  -n N  requests of each client, of sixteen keys (200)");
}

int main(int argc, char **argv)
{
	long workers = 4, requests = 200, served = 0, i;
	struct worker *worker;
	struct client *client;
	struct store *store;
	pthread_t *threads;
	int option;

	while ((option = getopt(argc, argv, "w:n:h")) != -1) {
		switch (option) {
		case 'w':
			workers = parse_number("-w", optarg, 1, WORKERS_MAX);
			break;
		case 'n':
			requests = parse_number("-n", optarg, 1, REQUESTS_MAX);
			break;
		case 'h':
			usage();
			return EXIT_SUCCESS;
		default:
			usage();
			return EXIT_ERROR;
		}
	}

	store = store_create();
	worker = aligned_alloc(LINE, (workers * sizeof(*worker) + LINE - 1) / LINE * LINE);
	client = calloc(workers, sizeof(*client));
	threads = calloc(2 * workers, sizeof(*threads));
	if (!worker || !client || !threads)
		die("out of memory");
	memset(worker, 0, workers * sizeof(*worker));

	for (i = 0; i < workers; i++) {
		worker[i].store = store;
		client[i].requests = requests;
		client[i].seed = i + 1;
		pair_start(&worker[i], &client[i], &threads[2 * i]);
	}
	for (i = 0; i < 2 * workers; i++)
		check(pthread_join(threads[i], NULL), "pthread_join");
	for (i = 0; i < workers; i++)
		served += worker[i].requests;
	printf("%ld requests, %llu look-ups, %llu hits\n", served,
	       (unsigned long long)store->lookups, (unsigned long long)store->hits);
	return served == workers * requests ? EXIT_SUCCESS : EXIT_FAILURE;
}
