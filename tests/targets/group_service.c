// SPDX-License-Identifier: Apache-2.0
// A service with its workers, of which is known what they write. Usage: group_service KIND ADDRESSES
// Writes what it knows to ADDRESSES, a line each; says "ready" and waits for the end of its standard input where others are to
// look at its pages.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BLOCKS = 1000,
    SIZE_FIRST = 600,
    LARGE_BYTES = 4 << 20,
    WORKERS = 3,
    OWN_BYTES = 3 << 20,
    MADE_BYTES = 4000
};

static int known = -1;
static char *block[BLOCKS];

// Without any call of malloc.
static void tell(const char *format, ...) {
    char line[256];
    va_list list;
    va_start(list, format);
    int bytes = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (write(known, line, (size_t)bytes) != bytes) abort();
}

static size_t size_of(int which) {
    int bytes = SIZE_FIRST + which;
    return (size_t)bytes;
}

static void make_blocks(void) {
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(size_of(i));
        memset(block[i], i, size_of(i));
    }
    for (int i = 300; i < 400; i += 3) {
        free(block[i]);
        block[i] = NULL;
    }
    for (int i = 0; i < BLOCKS; i++)
        if (block[i]) tell("block %d %p\n", SIZE_FIRST + i, (void *)block[i]);
}

static void write_some(void) {
    for (int i = 0; i < BLOCKS; i += 10)
        if (block[i]) memset(block[i], 1, size_of(i));
}

static void call_some(void) {
    for (int i = 500; i < 560; i++) {
        tell("ended %d %p\n", SIZE_FIRST + i, (void *)block[i]);
        free(block[i]);
    }
    for (int i = 0; i < 20; i++) {
        char *made = malloc(MADE_BYTES);
        memset(made, 2, MADE_BYTES);
        tell("made %d %p\n", MADE_BYTES, (void *)made);
    }
}

static pid_t start_worker(int which) {
    pid_t pid = fork();
    if (pid) return pid;
    free(NULL);  // the recorder knows of the process from its first call on
    tell("worker %d %d\n", which, (int)getpid());
    if (which == 1) write_some();
    if (which == 2) call_some();
    tell("waits %d 0\n", which);
    for (;;) pause();
}

static void serve_known(void) {
    pid_t worker[WORKERS];
    char byte;
    make_blocks();
    char *large = malloc(LARGE_BYTES);
    memset(large, 3, LARGE_BYTES / 2);
    tell("large %d %p\n", LARGE_BYTES, (void *)large);
    char *own = mmap(NULL, OWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(own, 4, OWN_BYTES);
    tell("own %d %p\n", OWN_BYTES, (void *)own);
    for (int i = 0; i < WORKERS; i++) worker[i] = start_worker(i);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) abort();
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    for (int i = 0; i < WORKERS; i++) {
        kill(worker[i], SIGTERM);
        waitpid(worker[i], NULL, 0);
    }
}

// ---- who is whose child ----

static void use(int from, int to) {
    for (int i = from; i < to; i++) {
        free(block[i]);
        block[i] = malloc(size_of(i));
    }
}

static void wait_for(pid_t pid) {
    int status;
    if (waitpid(pid, &status, 0) != pid || status) abort();
}

static pid_t child_that(void (*does)(void)) {
    pid_t pid = fork();
    if (pid) return pid;
    does();
    exit(0);
}

static void grandchild(void) { use(0, 20); }

static void child(void) {
    use(10, 40);
    wait_for(child_that(grandchild));
    use(20, 30);
}

static void change_user(void) {
    use(0, 3);
    if (!getuid() && setuid(65534)) abort();
    use(3, 30);
}

static void exec_itself(void) {
    use(0, 10);
    execl("/proc/self/exe", "group_service", "exec", "/dev/null", (char *)NULL);
    abort();
}

static void serve_generations(void) {
    pid_t pid;
    make_blocks();
    wait_for(child_that(child));
    for (int i = 0; i < 3; i++) {  // one is replaced by the next
        use(i, i + 5);
        wait_for(child_that(grandchild));
    }
    wait_for(child_that(change_user));
    wait_for(child_that(exec_itself));
    char name[] = "group_service", kind[] = "exec", nothing[] = "/dev/null",
         *words[] = {name, kind, nothing, NULL};
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ)) abort();
    wait_for(pid);
    if (!(pid = vfork())) _exit(0);
    wait_for(pid);
}

// ---- forks beside calls ----

enum { THREADS = 4, FORKS = 50, KEPT = 300 };
static _Atomic int stop;

static void *churn(void *argument) {
    unsigned seed = (unsigned)(size_t)argument * 7919u + 1;
    char *kept[KEPT] = {0};
    for (unsigned calls = 0; !stop; calls++) {
        if (calls % 32 == 0) usleep(2000);  // whoever reads the trace must be done some day
        unsigned i = (unsigned)rand_r(&seed) % KEPT, size = (unsigned)rand_r(&seed) % 3000 + 1;
        if (seed % 4 == 0) {
            free(kept[i]);
            kept[i] = NULL;
        } else if (seed % 4 == 1 && kept[i]) kept[i] = realloc(kept[i], size);
        else if (!kept[i]) kept[i] = malloc(size);
    }
    return NULL;
}

static void use_a_few(void) { use(0, 5); }

static void serve_threads(void) {
    pthread_t thread[THREADS];
    make_blocks();
    for (size_t i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < FORKS; i++) {
        use(i, i + 3);
        wait_for(child_that(use_a_few));
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    known = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (!strcmp(argv[1], "known")) serve_known();
    else if (!strcmp(argv[1], "generations")) serve_generations();
    else if (!strcmp(argv[1], "threads")) serve_threads();
    else use(0, 20);
    return 0;
}
