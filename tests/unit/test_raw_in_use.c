// SPDX-License-Identifier: Apache-2.0
// Asking whether a log is still written to does no harm to who asks: here another process opens the file at
// the one moment at which that is answered by a signal.
#include "unit_support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "raw_state.h"

static struct {
    char path[256];
    int leases;         // that were granted
    bool others_write;  // another process opens the file while one is held
    bool refused;       // by the kernel, because of the lease: it has sent the signal
    int why;            // there was no lease
} world;

// The kernel does not let it wait for the lease's end, but tells the holder at once.
static void open_in_another_process(void) {
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        int fd = open(world.path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        _exit(fd < 0 && errno == EWOULDBLOCK ? 3 : 4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    world.refused = WIFEXITED(status) && WEXITSTATUS(status) == 3;
}

// In the C library's place, for the code under test: its calls take one number behind the command.
static int lease_noticed(int fd, int command, long argument) {
    long result = syscall(SYS_fcntl, fd, command, argument);
    if (command == F_SETLEASE && (int)argument == F_RDLCK) {
        if (result < 0) world.why = errno;
        else world.leases++;
        if (result >= 0 && world.others_write) open_in_another_process();
    }
    return (int)result;
}
int __wrap_fcntl(int fd, int command, long argument);
int __wrap_fcntl64(int fd, int command, long argument);
int __wrap_fcntl(int fd, int command, long argument) { return lease_noticed(fd, command, argument); }
int __wrap_fcntl64(int fd, int command, long argument) { return lease_noticed(fd, command, argument); }

static struct ht_raw_log make_log(void) {
    world.leases = world.why = 0;
    world.refused = world.others_write = false;
    int fd = open(unit_path(world.path, "leased.mraw"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    struct ht_raw_log log = {.path = world.path, .fd = open(world.path, O_RDONLY | O_CLOEXEC)};
    assert_true(log.fd >= 0);
    log.header.pid = (uint32_t)getpid();
    return log;
}

static void remove_log(struct ht_raw_log *log) {
    close(log->fd);
    unlink(world.path);
}

static void need_leases(struct ht_raw_log *log) {
    if (world.leases) return;
    int why = world.why;
    remove_log(log);
    print_message("no leases on files of this folder: %s\n", strerror(why));
    skip();
}

static void whoever_opens_it_meanwhile_does_not_end_us(void **state) {
    (void)state;
    struct ht_raw_log log = make_log();
    // As a program is started that nobody prepared; SIGIO would end it.
    signal(SIGIO, SIG_DFL);
    signal(SIGURG, SIG_DFL);
    world.others_write = true;
    bool in_use = ht_raw_in_use(&log);
    need_leases(&log);
    assert_true(world.refused);
    assert_false(in_use);
    remove_log(&log);
}

static void a_file_open_for_writing_is_in_use(void **state) {
    (void)state;
    struct ht_raw_log log = make_log();
    assert_false(ht_raw_in_use(&log));
    need_leases(&log);
    int fd = open(world.path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(ht_raw_in_use(&log));
    assert_int_equal(world.why, EAGAIN);
    close(fd);
    assert_false(ht_raw_in_use(&log));
    remove_log(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whoever_opens_it_meanwhile_does_not_end_us),
                                       cmocka_unit_test(a_file_open_for_writing_is_in_use)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
