// SPDX-License-Identifier: Apache-2.0
#include "write_extended.h"

#include <jansson.h>
#include <stdlib.h>

#include "event_copy.h"
#include "json_values.h"
#include "prelude.h"
#include "site_table.h"
#include "trace_json.h"

static int put_sites(struct event_copy *copy, struct ht_error *error) {
    struct ht_site_table sites;
    if (ht_trace_site_table(copy->reader, &sites, error)) return -1;
    if (sites.sites_count) ht_trace_put_site_table(copy->writer, &sites);
    ht_site_table_free(&sites);
    return 0;
}

static int put_all(struct event_copy *copy, struct ht_trace_facts *facts, json_t **totals,
                   struct ht_error *error) {
    if (ht_trace_facts(copy->reader, facts, error)) return -1;
    copy->facts = facts;
    if (event_copy_run(copy, error)) return -1;
    event_copy_put_facts(copy);
    if (put_sites(copy, error) || ht_prelude_copy(copy->reader, copy->writer, error)) return -1;
    // Those that the extension has before it is read.
    *totals = json_parsed(ht_trace_totals_json(copy->reader, error));
    if (!*totals)
        return ht_error_memory(error, ht_trace_path(copy->reader), "cannot count the extended trace");
    event_copy_put_totals(copy, *totals);
    return 0;
}

int write_extended(struct ht_trace_reader *reader, const char *output, bool quiet,
                   struct extended_totals *totals, struct ht_error *error) {
    struct event_copy copy = {.reader = reader, .quiet = quiet};
    struct ht_trace_facts facts = {0};
    json_t *json = NULL;
    char *context = ht_trace_context_json(reader, error);
    if (!context) return -1;
    copy.writer = ht_trace_create(output, ht_trace_time_unit_ns(reader), 3, error);
    if (!copy.writer) {
        free(context);
        return -1;
    }
    ht_trace_put_context(copy.writer, context);
    free(context);
    int status = put_all(&copy, &facts, &json, error);
    if (status) ht_trace_abandon(copy.writer);
    else
        status = trace_json_finish(copy.writer, facts.threads, facts.threads_count, json, &totals->file_bytes,
                                   error);
    totals->events = copy.totals.events;
    totals->end_live_bytes = copy.totals.end_live_bytes;
    totals->peak_live_bytes = copy.totals.peak_live_bytes;
    ht_trace_facts_free(&facts);
    return status;
}
