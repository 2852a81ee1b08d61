// SPDX-License-Identifier: MIT OR Apache-2.0
/* Asks for what a guest does not have, and fails if it is given an argument. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sockaddr_in nobody = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_in elsewhere = { .sin_family = AF_INET, .sin_port = htons(80) };
	struct stat about;
	int fd;

	(void)argv;
	stat("/etc/made-up.d", &about);
	open("/no/such/folder/hosts.made-up", O_RDONLY);
	fd = open("/tmp/hosts.made-up", O_RDWR | O_CREAT, 0600);
	close(fd);
	open("/etc/made-up.conf", O_RDONLY);
	nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&nobody, sizeof(nobody));
	inet_pton(AF_INET, "192.0.2.1", &elsewhere.sin_addr);
	connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&elsewhere, sizeof(elsewhere));
	return argc > 1;
}
