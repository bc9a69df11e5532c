// SPDX-License-Identifier: Apache-2.0
// A master with blocks of several sizes and holes between them, and processes that write some of what they inherited, allocate
// and free. It knows which blocks each of them wrote, and prints how much anonymous memory all that live in the end take, each
// page counted once. Usage: group_known KIND BLOCKS WORKERS THREADS STAY-SECONDS WRITTEN-FILE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PROCESSES_MAX = 512,
    SIZES = 10,
    OWN_CALLS = 6000,
    THREAD_BLOCKS = 300,
    WRITTEN_PERCENT = 8,
    LINE = 96
};
static const unsigned size[SIZES] = {24, 56, 72, 120, 200, 328, 600, 1100, 3000, 9000};

// Nothing of what this program knows is on the heap.
struct known {
    _Atomic int processes, ready;
    pid_t pid[PROCESSES_MAX];  // of those that live in the end
};
static struct known *known;
static char **block;
static uint32_t *size_of, *number_of;
static size_t blocks;
static int workers, threads, written_fd = -1;
static unsigned long random_state = 7;
static const char *program_words[8];

static unsigned chance(unsigned below) {
    random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(random_state >> 33) % below;
}

static void *shared_memory(size_t bytes) {
    void *map = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) abort();
    return map;
}

static void make_blocks(void) {
    static uint32_t count[SIZES];
    block = shared_memory(blocks * sizeof *block);
    size_of = shared_memory(blocks * sizeof *size_of);
    number_of = shared_memory(blocks * sizeof *number_of);
    for (size_t i = 0; i < blocks; i++) {
        unsigned kind = chance(SIZES - (chance(8) != 0));
        if (kind >= 6 && chance(4)) kind = chance(6);
        size_of[i] = kind;
        block[i] = malloc(size[kind]);
        memset(block[i], 1, size[kind]);
    }
    for (size_t i = 0; i < blocks; i++)
        if (chance(100) < 25) {
            free(block[i]);
            block[i] = NULL;
        }
    for (size_t i = 0; i < blocks; i++)
        if (block[i]) number_of[i] = count[size_of[i]]++;
}

// In the order of sizes and numbers, without any call of malloc.
static void write_some(void) {
    static char text[LINE * 64];
    size_t held = 0;
    unsigned long begun = random_state;
    for (unsigned kind = 0; kind < SIZES; kind++) {
        random_state = begun;
        for (size_t i = 0; i < blocks; i++) {
            bool writes = chance(100) < WRITTEN_PERCENT;
            if (!block[i] || size_of[i] != kind || !writes) continue;
            block[i][0]++;
            held +=
                (size_t)snprintf(text + held, LINE, "%d %u %u 0\n", (int)getpid(), size[kind], number_of[i]);
            if (held < sizeof text - LINE) continue;
            if (written_fd >= 0 && write(written_fd, text, held) < 0) abort();
            held = 0;
        }
    }
    if (written_fd >= 0 && write(written_fd, text, held) < 0) abort();
}

static void *thread_work(void *argument) {
    unsigned mine = (unsigned)(uintptr_t)argument;
    char *own[THREAD_BLOCKS];
    if (!blocks) return NULL;
    for (unsigned i = 0; i < THREAD_BLOCKS; i++) {
        own[i] = malloc(60 + (i * 37 + mine) % 900);
        memset(own[i], 1, 60);
    }
    for (int i = 0; i < THREAD_BLOCKS; i += 2) free(own[i]);
    return NULL;
}

static void run_threads(void) {
    pthread_t thread[64];
    for (int i = 0; i < threads; i++) pthread_create(&thread[i], NULL, thread_work, (void *)(uintptr_t)i);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
}

// Without blocks a process does nothing, so that its memory beside the heap is known.
static void work(int number) {
    if (!blocks) return;
    random_state = 1000 + (unsigned)number;
    write_some();
    run_threads();
    for (int i = 0; i < OWN_CALLS; i++) {
        char *own = malloc(size[chance(6)]);
        own[0] = 1;
        if (i % 3) free(own);
    }
}

static _Noreturn void stay(void) {
    known->pid[known->processes++] = getpid();
    known->ready++;
    for (;;) pause();
}

static pid_t start_worker(int number, bool stays) {
    pid_t pid = fork();
    if (pid) return pid;
    work(number);
    if (stays) stay();
    exit(0);  // which is recorded, unlike _exit
}

static void start_workers(void) {
    for (int i = 0; i < workers; i++) start_worker(i, true);
}

// ---- kinds ----

static void generations(void) {
    for (int i = 0; i < workers; i++) {
        if (fork()) continue;
        work(i);
        start_worker(100 + i, true);
        for (int k = 0; k < 500; k++) free(malloc(300));
        stay();
    }
}

static void replaced(void) {
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < workers; i++) {
            pid_t pid = start_worker(10 * round + i, false);
            if (waitpid(pid, NULL, 0) != pid) abort();
        }
    start_workers();
}

// One makes no call at all, and writes nothing.
static void silent(void) {
    if (!fork()) stay();
    start_workers();
}

static void *fork_from_thread(void *argument) {
    thread_work((void *)3);
    start_workers();
    return argument;
}

static void forking_thread(void) {
    pthread_t one, other;
    pthread_create(&one, NULL, thread_work, (void *)5);
    pthread_join(one, NULL);
    pthread_create(&other, NULL, fork_from_thread, NULL);
    pthread_join(other, NULL);
    run_threads();
}

// A small one of this kind, which shares nothing.
static void executed(void) {
    int ready[2];
    char number[16], byte;
    if (pipe(ready)) abort();
    snprintf(number, sizeof number, "%d", ready[1]);
    pid_t pid = fork();
    if (!pid) {
        execl("/proc/self/exe", program_words[0], "alone", blocks ? "3000" : "0", "0", "0", "0", "-", number,
              (char *)NULL);
        abort();
    }
    if (read(ready[0], &byte, 1) != 1) abort();
    known->pid[known->processes++] = pid;
    known->ready++;
    start_workers();
}

static void be_alone(const char *ready) {
    make_blocks();
    if (write(atoi(ready), "", 1) != 1) abort();
    for (;;) pause();
}

// ---- all ----

static long pss_anon_kb(pid_t pid) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    int fd = open(path, O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (got <= 0) abort();
    text[got] = 0;
    close(fd);
    const char *at = strstr(text, "Pss_Anon:");
    return at ? atol(at + strlen("Pss_Anon:")) : 0;
}

static void say_sum(unsigned seconds) {
    char line[32];
    long kb = 0;
    while (known->ready < known->processes) usleep(1000);
    sleep(seconds);
    for (int i = 0; i < known->processes; i++) kb += pss_anon_kb(known->pid[i]);
    int length = snprintf(line, sizeof line, "%ld\n", kb);
    if (write(STDOUT_FILENO, line, (size_t)length) != length) abort();
    for (int i = 0; i < known->processes; i++)
        if (known->pid[i] != getpid()) kill(known->pid[i], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*start)(void);
        int processes;  // beside the workers
    } kinds[] = {
        {"workers", start_workers, 0}, {"generations", generations, 0},       {"replaced", replaced, 0},
        {"silent", silent, 1},         {"forking-thread", forking_thread, 0}, {"executed", executed, 1},
        {"daemon", start_workers, 0}};
    if (argc < 7) return 2;
    for (int i = 0; i < 7; i++) program_words[i] = argv[i];
    blocks = (size_t)atol(argv[2]);
    workers = atoi(argv[3]);
    threads = atoi(argv[4]);
    if (!strcmp(argv[1], "alone")) be_alone(argv[7]);
    if (strcmp(argv[6], "-")) written_fd = open(argv[6], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    known = shared_memory(sizeof *known);
    make_blocks();
    // Its first process ends, and its child goes on.
    if (!strcmp(argv[1], "daemon") && fork()) return 0;
    free(NULL);  // the recorder knows of a process from its first call on
    known->pid[known->processes++] = getpid();
    known->ready++;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(argv[1], kinds[i].name)) continue;
        int all = 1 + workers * (kinds[i].start == generations ? 2 : 1) + kinds[i].processes;
        kinds[i].start();
        while (known->ready < all) usleep(1000);
        say_sum((unsigned)atoi(argv[5]));
    }
    return 0;
}
