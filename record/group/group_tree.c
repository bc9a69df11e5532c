// SPDX-License-Identifier: Apache-2.0
#include "group_tree.h"

#include <dirent.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "group_snapshot_layout.h"
#include "grow.h"
#include "kernel_text.h"

// Reads what a process says of itself. False if it has ended.
static bool read_process(pid_t pid, struct tree_process *process) {
    char path[64], text[1024], state;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int parent;
    ht_kernel_read(path, text, sizeof text);
    const char *name = strchr(text, '('), *behind = strrchr(text, ')');
    unsigned long long began, code, stack;
    if (!name || !behind ||
        sscanf(behind,
               ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu %*u %*d "
               "%*u %llu %*u %llu",
               &state, &parent, &began, &code, &stack) != 5)
        return false;
    *process = (struct tree_process){
        .pid = pid, .parent = parent, .start_ticks = began, .code_start = code, .stack_start = stack};
    snprintf(process->name, sizeof process->name, "%.*s", (int)(behind - name - 1), name + 1);
    return state != 'Z' && state != 'X' && code;  // on its way out it has no code any more
}

bool tree_process_has_image_of(const struct tree_process *one, const struct tree_process *other) {
    return one->code_start == other->code_start && one->stack_start == other->stack_start;
}

static struct tree_process *find(const struct group_tree *tree, size_t from, pid_t pid) {
    for (size_t i = from; i < tree->count; i++)
        if (tree->process[i].pid == pid) return &tree->process[i];
    return NULL;
}

// Until it executes a program, a child by vfork has the very memory of its parent.
static bool is_in_parents_memory(const struct tree_process *process) {
    return syscall(SYS_kcmp, process->pid, process->parent, KCMP_VM, 0, 0) == 0;
}

// The list is being made behind `old` processes, those of the look before.
static bool add(struct group_tree *tree, size_t old, const struct tree_process *process) {
    if (find(tree, old, process->pid) || tree->count - old >= HT_SNAPSHOT_MEMBERS_MAX) return true;
    if (!ht_grow(&tree->process, &tree->room, tree->count + 1, sizeof *process)) return false;
    tree->process[tree->count++] = *process;
    return true;
}

static bool add_child(struct group_tree *tree, size_t old, size_t parent, pid_t pid) {
    struct tree_process child;
    if (!read_process(pid, &child) || child.parent != tree->process[parent].pid) return true;
    child.executed = !tree_process_has_image_of(&child, &tree->process[parent]);
    if (!child.executed && is_in_parents_memory(&child)) return true;
    return add(tree, old, &child);
}

// Those of one of its threads.
static bool add_children_of(struct group_tree *tree, size_t old, size_t parent, const char *thread) {
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)tree->process[parent].pid, thread);
    FILE *children = fopen(path, "re");
    bool enough = true;
    while (children && enough && fscanf(children, "%d", &pid) == 1)
        enough = add_child(tree, old, parent, pid);
    if (children) fclose(children);
    return enough;
}

static bool add_children(struct group_tree *tree, size_t old, size_t parent) {
    char path[64];
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/task", (int)tree->process[parent].pid);
    DIR *threads = opendir(path);
    bool enough = true;
    while (threads && enough && (entry = readdir(threads)))
        if (*entry->d_name != '.') enough = add_children_of(tree, old, parent, entry->d_name);
    if (threads) closedir(threads);
    return enough;
}

// Each with what descends from it.
static bool add_all_from(struct group_tree *tree, size_t old, size_t first) {
    for (size_t i = first; i < tree->count; i++)
        if (!add_children(tree, old, i)) return false;
    return true;
}

// Processes of the look before whose parents have ended meanwhile.
static bool add_orphans(struct group_tree *tree, size_t old) {
    for (size_t i = 0; i < old; i++) {
        struct tree_process known = tree->process[i], now;
        size_t first = tree->count;
        if (find(tree, old, known.pid) || !read_process(known.pid, &now) ||
            now.start_ticks != known.start_ticks)
            continue;
        now.executed = known.executed || !tree_process_has_image_of(&now, &known);
        if (!add(tree, old, &now) || !add_all_from(tree, old, first)) return false;
    }
    return true;
}

bool group_tree_find(struct group_tree *tree, pid_t root) {
    size_t old = tree->count;
    struct tree_process first;
    bool found = read_process(root, &first) && add(tree, old, &first) && add_all_from(tree, old, old) &&
                 add_orphans(tree, old);
    if (!found) {
        tree->count = old;
        return false;
    }
    tree->count -= old;
    memmove(tree->process, tree->process + old, tree->count * sizeof *tree->process);
    return true;
}

bool group_tree_has_lasting_child(const struct group_tree *tree, double seconds) {
    struct timespec now;
    if (clock_gettime(CLOCK_BOOTTIME, &now)) return false;
    double now_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    for (size_t i = 1; i < tree->count; i++) {
        double began_s = (double)tree->process[i].start_ticks / (double)sysconf(_SC_CLK_TCK);
        if (!tree->process[i].executed && now_s - began_s > seconds) return true;
    }
    return false;
}

void group_tree_free(struct group_tree *tree) {
    free(tree->process);
    *tree = (struct group_tree){0};
}
