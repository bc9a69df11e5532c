// SPDX-License-Identifier: Apache-2.0
#include "log_list.h"

#include <errno.h>
#include <string.h>

#include "found_logs.h"
#include "json_values.h"
#include "print.h"
#include "record_talk.h"
#include "talk.h"

static const char verb[] = "heaptape record";

// CPU time and RssAnon are null where no sample shows them.
static json_t *log_json(const struct found_log *log) {
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:b, s:b, s:o, s:o, s:I, s:i, s:o, s:o}", "log",
                     json_text(log->path), "pid", (json_int_t)log->header.pid, "sequence",
                     (json_int_t)log->header.sequence, "parent_pid", (json_int_t)log->header.parent_pid,
                     "parent_sequence", (json_int_t)log->header.parent_sequence, "started", log->started,
                     "shell", log->shell != NULL, "executable", json_text(log->executable), "command",
                     json_text(log->command), "calls", (json_int_t)log->calls, "threads", (int)log->threads,
                     "cpu_ns", json_count(log->cpu_ns ? log->cpu_ns : UINT64_MAX), "rss_anon_peak_bytes",
                     json_count(log->share.anon_bytes ? log->share.anon_bytes : UINT64_MAX));
}

static void print_json(const struct found_logs *found) {
    json_t *list = json_array();
    for (size_t i = 0; i < found->count; i++) json_array_append_new(list, log_json(&found->log[i]));
    json_t *all = json_pack("{s:o}", "processes", list);
    json_dumpf(all, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(all);
}

int log_list_print(const char *folder, bool as_json) {
    struct found_logs found;
    if (!found_logs_in(&found, folder)) {
        ht_print(stderr, "%s: %s: cannot read the folder: %s\n", verb, folder, strerror(errno));
        return HT_EXIT_INPUT;
    }
    int status = found.count ? HT_EXIT_DONE : HT_EXIT_INPUT;
    if (!found.count)
        ht_print(stderr, "%s: %s: expected raw logs (malloc-footprint.PID.mraw), found none\n", verb, folder);
    else if (as_json) print_json(&found);
    else record_write_processes(stdout, &found, found.count);
    found_logs_free(&found);
    return ht_stdout_status(verb, status);
}
