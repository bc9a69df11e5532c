// SPDX-License-Identifier: Apache-2.0
// The process that decides which runs are made and what they show: analysis/heaptape/judge. It asks for jobs, one JSON object a
// line, and gets one line of answer to each. It is a child of ours, or it has started us (analysis/heaptape/judge/attached.py).
#ifndef HEAPTAPE_JUDGE_H
#define HEAPTAPE_JUDGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "error.h"

struct ht_judge {
    pid_t pid;      // 0: there is none
    bool attached;  // it has started us
    int socket;     // -1: there is none
    char *line;     // what has come of the next line
    size_t line_bytes, line_room;
};

// Takes the socket that $HEAPTAPE_JUDGE_FD names, where it is set, so that no process that we start has it. Returns 0, or -1 with
// error where it is no such socket.
int ht_judge_attach(struct ht_judge *judge, struct ht_error *error);
// Starts it, and does not wait until it is ready. It ends when we do.
void ht_judge_start(struct ht_judge *judge);
// Its next line; NULL: it has ended, or says nothing although we were told to stop.
json_t *ht_judge_read(struct ht_judge *judge);
// Sends an object, which is dropped. What is lost because it has ended shows with the next line.
void ht_judge_write(struct ht_judge *judge, json_t *object);
// The processor time that it has used.
double ht_judge_cpu_s(const struct ht_judge *judge);
// Ends it, or only the talk with one that has started us: it has said its last word, or nobody waits for one.
void ht_judge_end(struct ht_judge *judge);

#endif
