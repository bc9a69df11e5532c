// SPDX-License-Identifier: Apache-2.0
// The processes of a group: a program, and what descends from it.
#ifndef HEAPTAPE_GROUP_TREE_H
#define HEAPTAPE_GROUP_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_process {
    pid_t pid, parent;
    uint64_t start_ticks;              // since the machine began; with the pid, who it is
    uint64_t code_start, stack_start;  // as its parent has them, until it executes a program
    bool executed;
    char name[17];
};

struct group_tree {
    struct tree_process *process;  // the root first, each parent before its children
    size_t count, room;
};

// Looks for them again. A process that was there before stays in it while it lives, whoever its parent is by now. False where
// the root has ended, or for want of memory.
bool group_tree_find(struct group_tree *tree, pid_t root);
// Whether neither has executed a program since the one forked the other, or since that look.
bool tree_process_has_image_of(const struct tree_process *one, const struct tree_process *other);
// Whether a child that has its parent's memory, and has not executed a program, has lived for so long.
bool group_tree_has_lasting_child(const struct group_tree *tree, double seconds);
void group_tree_free(struct group_tree *tree);

#endif
