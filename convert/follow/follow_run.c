// SPDX-License-Identifier: Apache-2.0
#include "follow_run.h"

#include <signal.h>
#include <stdio.h>

#include "follow.h"
#include "print.h"
#include "talk.h"

static const int stopping[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOPPING = sizeof stopping / sizeof *stopping };

// A handler has no other way to report.
static volatile sig_atomic_t stopped_by;

static void stop(int number) { stopped_by = number; }

static void heed_signals(void) {
    struct sigaction old, stops = {.sa_handler = stop};
    for (int i = 0; i < STOPPING; i++)
        if (!sigaction(stopping[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(stopping[i], &stops, NULL);
    // The kernel sends this one when a process opens the log for writing while we check for writers.
    signal(SIGIO, SIG_IGN);
}

int follow_run(const struct convert_request *request) {
    struct follow_ending ending;
    struct ht_error error;
    char count[HT_NUMBER_OF_BYTES];
    heed_signals();
    if (follow_log(request, &stopped_by, &ending, &error)) return ht_complain("heaptape convert", &error);
    if (!ending.complete) {
        if (!request->quiet)
            fprintf(stderr, "%s.partial: %s so far\nnext: heaptape convert --follow %s -o %s\n",
                    request->output, ht_number_of(count, ending.events, "event"), request->input,
                    request->output);
        return 128 + stopped_by;
    }
    if (ending.late_records && !request->quiet)
        ht_print(stderr, "heaptape convert: %s came late: the trace has them in the order of arrival\n",
                 ht_number_of(count, ending.late_records, "record"));
    return HT_EXIT_DONE;
}
