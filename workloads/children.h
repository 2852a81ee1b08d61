/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What workloads of many processes need: the end of each is waited for. */
#ifndef LINEMATE_WORKLOADS_CHILDREN_H
#define LINEMATE_WORKLOADS_CHILDREN_H

#include <sys/wait.h>

#include "common.h"

/* Waits for that many children; how many of them did not end with success. */
static inline long collect_children(long children)
{
	long failed = 0;
	int status;

	while (children > 0) {
		if (wait(&status) < 0) {
			if (errno == EINTR)
				continue;
			die("wait: %s", strerror(errno));
		}
		children--;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
			failed++;
	}
	return failed;
}

#endif
