// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * sqlite - four threads with a connection each write and read one table.
 *
 * The database is in WAL mode on the guest's RAM disk; a thread inserts a row
 * and looks a range up, sixty times. To be linked with SQLite's amalgamation.
 *
 * Where it is weak: nobody else uses the machine, and a RAM disk does not wait.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "sqlite3.h"

#define THREADS	4
#define ROUNDS	60

static const char path[] = "/run/test.db";

static void must(sqlite3 *db, int result, const char *what)
{
	if (result == SQLITE_OK || result == SQLITE_ROW || result == SQLITE_DONE)
		return;
	fprintf(stderr, "sqlite: %s: %s\n", what, sqlite3_errmsg(db));
	exit(2);
}

static sqlite3_stmt *prepared(sqlite3 *db, const char *text)
{
	sqlite3_stmt *statement;

	must(db, sqlite3_prepare_v2(db, text, -1, &statement, NULL), text);
	return statement;
}

static void *run(void *argument)
{
	long id = (long)argument;
	sqlite3_stmt *put, *get;
	sqlite3 *db;
	int i;

	must(NULL, sqlite3_open(path, &db), "open");
	sqlite3_busy_timeout(db, 10000);
	put = prepared(db, "INSERT INTO t(k, v) VALUES(?, randomblob(64))");
	get = prepared(db, "SELECT count(*), max(length(v)) FROM t WHERE k BETWEEN ? AND ?");
	for (i = 0; i < ROUNDS; i++) {
		sqlite3_bind_int(put, 1, i * THREADS + id);
		must(db, sqlite3_step(put), "insert");
		sqlite3_reset(put);
		sqlite3_bind_int(get, 1, i);
		sqlite3_bind_int(get, 2, i + 20);
		must(db, sqlite3_step(get), "select");
		sqlite3_reset(get);
	}
	sqlite3_finalize(put);
	sqlite3_finalize(get);
	sqlite3_close(db);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	sqlite3 *db;
	long i;

	must(NULL, sqlite3_open(path, &db), "open");
	must(db, sqlite3_exec(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(k INTEGER, v BLOB);"
				  "CREATE INDEX tk ON t(k)", NULL, NULL, NULL), "create");
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			exit(2);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	sqlite3_close(db);
	return 0;
}
