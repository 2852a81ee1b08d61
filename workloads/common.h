/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What every workload needs: one-line errors, checked calls, numbers with bounds. */
#ifndef LINEMATE_WORKLOADS_COMMON_H
#define LINEMATE_WORKLOADS_COMMON_H

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_ERROR 2

/* Says what is wrong on stderr, with the program's name, and ends the program. */
static inline void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(EXIT_ERROR);
}

/* For the pthread family, whose functions return the error instead of setting errno. */
static inline void check(int error, const char *what)
{
	if (error)
		die("%s: %s", what, strerror(error));
}

/* A whole decimal number from minimum to maximum, or the end of the program. */
static inline long parse_number(const char *option, const char *text, long minimum, long maximum)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < minimum || value > maximum)
		die("%s %s: give a number from %ld to %ld", option, text, minimum, maximum);
	return value;
}

#endif
