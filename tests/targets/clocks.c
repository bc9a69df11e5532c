// Prints what the kernel says of time and of the process's own use, by every system call for it.
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

int main(void) {
    struct tms times_used;
    struct rusage used;
    struct timeval day;
    long ticks = (long)times(&times_used);
    getrusage(RUSAGE_SELF, &used);
    gettimeofday(&day, NULL);
    printf("%ld %ld %ld %ld ", syscall(SYS_time, NULL), (long)time(NULL), ticks, (long)times_used.tms_utime);
    printf("%ld %ld %ld ", (long)used.ru_utime.tv_usec, used.ru_maxrss, used.ru_minflt);
    printf("%ld.%06ld %ld\n", (long)day.tv_sec, (long)day.tv_usec, (long)clock());
    return 0;
}
