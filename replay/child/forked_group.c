// SPDX-License-Identifier: Apache-2.0
// Who forks holds no lock of ours and is in no call of the allocator, and neither is any other thread: they run by turns, and
// it is this one's. So a child's allocator has the state that the recorded one's had, whatever it does at a fork.
#include "forked_group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "background_threads.h"
#include "group_plan.h"
#include "kernel_text.h"
#include "measured.h"
#include "raw_calls.h"
#include "replay_window.h"

struct ht_group_run {
    struct measured *run;
    struct ht_group_plan *plan;
    const char *slots;       // the file of slots
    uint32_t number;         // of this process
    uint32_t stops, writes;  // that it has behind it
};

static struct ht_group_part *this_part(const struct ht_group_run *group) {
    return ht_group_parts(group->plan) + group->number;
}

// Nothing of what is mapped here is the allocator's, and nothing is private: a fork copies nothing of it.
static void *map_shared(int fd, size_t bytes, int protection) {
    void *map = mmap(NULL, bytes, protection, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

static const void *map_file(int fd, int protection) {
    off_t bytes = lseek(fd, 0, SEEK_END);
    return bytes > 0 ? map_shared(fd, (size_t)bytes, protection) : NULL;
}

// By the process itself and by its parent: it may end before it comes to that.
static void begin_part(struct ht_group_part *part, pid_t pid) {
    uint32_t unborn = HT_GROUP_UNBORN;
    atomic_store(&part->pid, pid);
    atomic_compare_exchange_strong(&part->state, &unborn, HT_GROUP_RUNS);
}

// The launcher and all processes can be woken by it; whoever finds the launcher gone ends, too.
static void wait_while(const struct ht_group_plan *plan, _Atomic uint32_t *word, uint32_t value) {
    const struct timespec moment = {.tv_sec = 1};
    struct pollfd launcher = {.fd = plan->launcher_fd};
    ht_futex_wait_shared(word, value, &moment);
    bool gone = poll(&launcher, 1, 0) > 0 && launcher.revents & (POLLHUP | POLLERR | POLLNVAL);
    if (gone || atomic_load(&plan->broken)) _exit(1);
}

static void write_due(struct ht_group_run *group, uint32_t meeting) {
    const struct ht_group_part *part = this_part(group);
    const struct ht_group_write *write = ht_group_writes(group->plan, part);
    for (; group->writes < part->writes && write[group->writes].meeting <= meeting; group->writes++) {
        const struct ht_group_write *one = &write[group->writes];
        volatile char *block = group->run->table[one->slot];
        if (block && !group->run->replaying) block[one->offset] = 1;
    }
}

static void tell_launcher(struct ht_group_plan *plan) {
    atomic_fetch_add(&plan->changes, 1);
    ht_futex_wake_shared(&plan->changes);
}

static void meet(struct ht_group_run *group, uint32_t meeting) {
    struct ht_group_plan *plan = group->plan;
    uint32_t released;
    write_due(group, meeting);
    atomic_fetch_add(&plan->met, 1);
    tell_launcher(plan);
    while ((released = atomic_load(&plan->released)) <= meeting) wait_while(plan, &plan->released, released);
}

static void take_failures(struct ht_group_run *group) {
    struct ht_group_part *part = this_part(group);
    const struct measured *run = group->run;
    for (uint32_t i = 0; run->form && i <= run->lanes_count; i++) {
        const struct ht_lane *lane = &run->lanes[i];
        if (lane->failures && !part->failures)
            snprintf(part->message, sizeof part->message, "%s", lane->first_failure);
        part->failures += lane->failures;
    }
}

static void leave(struct ht_group_run *group) {
    atomic_store(&this_part(group)->state, HT_GROUP_ENDED);
    atomic_fetch_sub(&group->plan->alive, 1);
    ht_futex_wake_shared(&group->plan->alive);
    tell_launcher(group->plan);
}

static void stop(struct ht_group_run *group, struct ht_lane *lane);

// All calls, if there are any, and what comes after them.
static void run_to_end(struct ht_group_run *group) {
    const struct ht_group_part *part = this_part(group);
    struct ht_window *window = &group->run->window;
    if (group->run->form) ht_window_run(window);
    while (group->stops < part->stops) {
        uint64_t at_ns = part->base_ns + ht_group_stops(group->plan, part)[group->stops].time_ns;
        if (group->run->form) ht_pace_to_end(window, at_ns);
        stop(group, NULL);
    }
    if (group->run->form) ht_pace_to_end(window, part->base_ns + part->end_ns);
    take_failures(group);
}

// What the parent's lanes and window were is of no use here.
static _Noreturn void begin_process(struct ht_group_run *group, uint32_t number, void **table) {
    struct measured *run = group->run;
    group->number = number;
    group->stops = group->writes = 0;
    struct ht_group_part *part = this_part(group);
    begin_part(part, getpid());
    run->exchange = ht_group_exchange(group->plan, part);
    run->exchange->job = run->job;
    run->before = NULL;
    run->table = table;
    run->form = part->form_fd < 0 ? NULL : (struct ht_form *)map_file(part->form_fd, PROT_READ);
    if (part->form_fd >= 0 && (!run->form || run->form->magic != HT_FORM_MAGIC))
        ht_measured_refuse(&run->exchange->outcome, "no replay form from the launcher");
    ht_background_forked();
    if (run->form) {
        ht_measured_prepare(run);
        ht_window_go_on(&run->window, part->base_ns);
        atomic_store(&run->window.low_ns, part->base_ns);
    }
    run_to_end(group);
    leave(group);
    _exit(0);
}

// The table is filled here, before the fork: the child would read ours while we go on.
static void **table_of_child(const struct ht_group_run *group, const struct ht_group_part *child,
                             size_t bytes) {
    const uint32_t *parents = (const uint32_t *)(group->slots + child->parents_offset);
    void **table = ht_shared_table(bytes, &group->run->exchange->outcome);
    for (uint32_t i = 0; i < child->slots; i++)
        if (parents[i]) table[i] = group->run->table[parents[i]];
    return table;
}

static void fork_child(struct ht_group_run *group, uint32_t number) {
    struct ht_group_part *child = ht_group_parts(group->plan) + number;
    size_t bytes = (child->slots + 16) * sizeof(void *);
    void **table = table_of_child(group, child, bytes);
    const struct ht_server *server = &group->run->server;
    if (group->run->job.purge_at_fork && server->kind && server->kind->purge) server->kind->purge(server);
    atomic_fetch_add(&group->plan->alive, 1);
    pid_t pid = fork();
    if (pid == 0) begin_process(group, number, table);
    if (pid < 0)
        ht_measured_refuse(&group->run->exchange->outcome, "a process of the group cannot be forked");
    begin_part(child, pid);
    munmap(table, bytes);
}

static void stop(struct ht_group_run *group, struct ht_lane *lane) {
    const struct ht_group_stop *next = ht_group_stops(group->plan, this_part(group)) + group->stops++;
    if (lane) ht_lane_replaying(lane->window, false);
    if (next->kind == HT_GROUP_FORK) fork_child(group, next->number);
    else meet(group, next->number);
    if (lane) ht_lane_replaying(lane->window, true);
}

// The lane has come to the mark of that stop: what stands up to it happens, one after the other. A forked process never
// returns from this: it replays its own form, and ends.
static void stop_at(struct ht_group_run *group, struct ht_lane *lane, uint32_t last) {
    while (group->stops <= last) stop(group, lane);
}

struct ht_group_run *ht_group_open(struct measured *run) {
    static struct ht_group_run group;
    struct ht_outcome *outcome = &run->exchange->outcome;
    group.run = run;
    group.plan = (struct ht_group_plan *)map_file(run->job.group_plan_fd, PROT_READ | PROT_WRITE);
    if (!group.plan || group.plan->magic != HT_GROUP_MAGIC)
        ht_measured_refuse(outcome, "no plan of the group from the launcher");
    group.number = group.plan->root;
    group.slots = map_file(group.plan->slots_fd, PROT_READ);
    if (!group.slots) ht_measured_refuse(outcome, "no slots of the group from the launcher");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    begin_part(this_part(&group), getpid());
    run->stop_at = stop_at;
    return &group;
}

// What this code itself lies on and calls: the allocator is not called any more.
enum { SPARED_BYTES = 64 << 10, SMALL_BYTES = 64 << 10, SPARES = 3 };
struct span {
    uintptr_t from, until;
};

static void discard(uintptr_t from, uintptr_t until, const struct span spared[SPARES]) {
    while (from < until) {
        struct span next = {until, until};
        for (size_t i = 0; i < SPARES; i++)
            if (spared[i].until > from && spared[i].from < next.from) next = spared[i];
        if (next.from > from) madvise((void *)from, next.from - from, MADV_DONTNEED);
        from = next.until;
    }
}

static struct span pages_around(const void *first, size_t bytes, size_t more_bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)first;
    return (struct span){(at - more_bytes) / page * page, (at + bytes + more_bytes + page - 1) / page * page};
}

// A line of /proc/self/maps.
static void discard_mapping(const char *line, const struct span spared[SPARES]) {
    struct ht_kernel_mapping mapping;
    if (!ht_kernel_mapping(line, &mapping)) return;
    bool heap = !strcmp(mapping.name, "[heap]");
    // An allocator may name what it maps.
    bool anonymous = heap || !*mapping.name || !strncmp(mapping.name, "[anon:", 6);
    if (mapping.permissions[3] == 'p' && anonymous && (heap || mapping.end - mapping.start >= SMALL_BYTES))
        discard(mapping.start, mapping.end, spared);
}

// A root that ended before the others cannot leave them, as its end is the run's. Its memory is given back instead.
static void give_memory_back(const struct measured *run) {
    const struct span spared[SPARES] = {
        pages_around(run, sizeof *run, 0), pages_around(__builtin_frame_address(0), 0, SPARED_BYTES),
        pages_around((void *)pthread_self(), 0, SPARED_BYTES)};  // with what is thread-local
    char text[16384];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t held = 0;
    for (ssize_t got; fd >= 0 && (got = read(fd, text + held, sizeof text - 1 - held)) > 0;) {
        char *line = text;
        held += (size_t)got;
        text[held] = 0;
        for (char *end; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            discard_mapping(line, spared);
        }
        held = strlen(line);
        memmove(text, line, held);
    }
    if (fd >= 0) close(fd);
}

void ht_group_run_root(struct ht_group_run *group) {
    struct ht_group_plan *plan = group->plan;
    uint32_t alive;
    uint64_t base_ns = this_part(group)->base_ns;  // of what another program has become
    if (base_ns) ht_window_go_on(&group->run->window, base_ns);
    atomic_store(&group->run->window.low_ns, base_ns);
    run_to_end(group);
    if (!this_part(group)->lives && atomic_load(&plan->alive) > 1) give_memory_back(group->run);
    leave(group);
    while ((alive = atomic_load(&plan->alive))) wait_while(plan, &plan->alive, alive);
    // They have said that they end, and have yet to do it.
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) continue;
}
