/* headers - structs that others wrote: compiled with all that the headers declare, used or not. */

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <wchar.h>

#include <linux/bpf.h>
#include <linux/btrfs.h>
#include <linux/cdrom.h>
#include <linux/ethtool.h>
#include <linux/fb.h>
#include <linux/fuse.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/input.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <linux/netlink.h>
#include <linux/nl80211.h>
#include <linux/perf_event.h>
#include <linux/rtnetlink.h>
#include <linux/taskstats.h>
#include <linux/userfaultfd.h>
#include <linux/videodev2.h>
#include <linux/virtio_net.h>

int main(void)
{
	return 0;
}
