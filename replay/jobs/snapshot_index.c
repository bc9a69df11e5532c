// SPDX-License-Identifier: Apache-2.0
#include "snapshot_index.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "json_values.h"
#include "results_line.h"

static json_t *whole_numbers(const uint64_t *values, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) json_array_append_new(list, json_integer((json_int_t)values[i]));
    return list;
}

static json_t *curve_json(const struct ht_runner *r, const struct ht_snapshot_index *index) {
    const struct ht_built_form *built = r->built;
    json_t *time = json_array(), *live = json_array();
    for (uint32_t i = 0; i < built->form->samples; i++) {
        json_array_append_new(time, json_integer((json_int_t)built->points[i].time_ns));
        json_array_append_new(live, json_integer((json_int_t)built->points[i].live_bytes));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "time_ns", time, "live_bytes", live, "rss_bytes",
                     whole_numbers(index->rss_bytes, built->form->samples), "high_bytes",
                     whole_numbers(index->high_bytes, built->form->samples));
}

// A list for each round.
static json_t *costs_json(const struct ht_stretch_costs *costs, uint32_t stretches) {
    json_t *calls = json_array(), *ns = json_array();
    for (uint32_t round = 0; round < costs->rounds; round++) {
        json_t *list = json_array();
        json_array_append_new(calls, whole_numbers(costs->calls[round], stretches));
        for (uint32_t i = 0; i < stretches; i++) json_array_append_new(list, json_real(costs->ns[round][i]));
        json_array_append_new(ns, list);
    }
    return json_pack("{s:o, s:o}", "calls", calls, "ns", ns);
}

static json_t *stretches_json(const struct ht_runner *r, const struct ht_snapshot_index *index) {
    static const char *const names[] = {"sample",
                                        "time_ns",
                                        "event",
                                        "null_rss_bytes",
                                        "rss_bytes",
                                        "live",
                                        "rounding",
                                        "headers",
                                        "holes",
                                        "free_pages",
                                        "tables",
                                        "untouched",
                                        "not_resident_bytes"};
    enum { COLUMNS = sizeof names / sizeof *names };
    json_t *whole = json_object(), *columns[COLUMNS];
    for (size_t i = 0; i < COLUMNS; i++) columns[i] = json_array();
    for (uint32_t i = 0; i < index->stretches; i++) {
        uint32_t sample = index->stretch_sample[i];
        const struct ht_sample_point *point = &r->built->points[sample];
        const struct ht_stretch_accounts *of = &index->accounts[i];
        const uint64_t row[COLUMNS] = {sample,
                                       point->time_ns,
                                       point->event,
                                       index->null_bytes[sample],
                                       of->rss_bytes,
                                       of->live_bytes,
                                       of->rounding_bytes,
                                       of->headers_bytes,
                                       of->holes_bytes,
                                       of->free_pages_bytes,
                                       of->tables_bytes,
                                       of->untouched_bytes,
                                       of->not_resident_bytes};
        for (size_t k = 0; k < COLUMNS; k++)
            json_array_append_new(columns[k], json_integer((json_int_t)row[k]));
    }
    for (size_t i = 0; i < COLUMNS; i++) json_object_set_new(whole, names[i], columns[i]);
    json_object_set_new(whole, "timed", costs_json(index->costs, index->stretches));
    json_object_set_new(whole, "null_timed", costs_json(index->null_costs, index->stretches));
    return whole;
}

// Which of the moments that have none yet it is of; index->moments: of none. Threads come to theirs in any order.
static uint32_t moment_of(const struct ht_snapshot_index *index, const struct ht_snapshot_head *head,
                          const json_t *all) {
    uint32_t number = 0;
    while (number < index->moments &&
           (index->moment[number].sample != head->sample || !json_is_null(json_array_get(all, number))))
        number++;
    return number;
}

// One snapshot, whose head the child wrote at the offset. NULL: it is not one.
static json_t *snapshot_json(const struct ht_runner *r, const struct ht_snapshot_index *index,
                             uint32_t number, const struct ht_snapshot_head *head, uint64_t offset,
                             uint64_t file_bytes) {
    if (head->magic != HT_SNAPSHOT_MAGIC || number == index->moments) return NULL;
    const struct ht_snapshot_moment *moment = &index->moment[number];
    const struct ht_sample_point *point = &r->built->points[moment->sample];
    uint64_t left = file_bytes - offset - sizeof *head;
    if (head->blocks > left / sizeof(struct ht_snapshot_block) ||
        head->runs >
            (left - head->blocks * sizeof(struct ht_snapshot_block)) / sizeof(struct ht_snapshot_run))
        return NULL;
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "why", moment->why, "sample",
                     (int)moment->sample, "time_ns", (json_int_t)point->time_ns, "event",
                     (json_int_t)point->event, "live_bytes", (json_int_t)point->live_bytes, "rss_bytes",
                     (json_int_t)head->rss_bytes, "null_rss_bytes",
                     (json_int_t)index->null_bytes[moment->sample], "offset", (json_int_t)offset, "blocks",
                     (json_int_t)head->blocks, "runs", (json_int_t)head->runs);
}

static json_t *snapshots_json(const struct ht_runner *r, const struct ht_snapshot_index *index, int fd,
                              uint64_t file_bytes, char *problem, size_t room) {
    json_t *all = json_array();
    uint64_t offset = 0;
    for (uint32_t i = 0; i < index->moments; i++) json_array_append_new(all, json_null());
    for (uint32_t i = 0; i < index->moments; i++) {
        struct ht_snapshot_head head;
        json_t *one = NULL;
        uint32_t number = index->moments;
        if (pread(fd, &head, sizeof head, (off_t)offset) == sizeof head) {
            number = moment_of(index, &head, all);
            one = snapshot_json(r, index, number, &head, offset, file_bytes);
        }
        if (one && head.problem) {
            snprintf(problem, room, "/proc/self/pagemap: %s", strerror((int)head.problem));
            json_decref(one);
            one = NULL;
        } else if (!one) {
            snprintf(problem, room, "snapshot %u of %u is not whole", i + 1, index->moments);
        }
        if (!one) {
            json_decref(all);
            return NULL;
        }
        json_array_set_new(all, number, one);
        offset += sizeof head + head.blocks * sizeof(struct ht_snapshot_block) +
                  head.runs * sizeof(struct ht_snapshot_run);
    }
    return all;
}

static json_t *check_json(const struct ht_runner *r, const struct ht_snapshot_index *index) {
    uint32_t samples = r->built->form->samples;
    if (!samples || !ht_recorded_served(r->program, index->choice->name, index->choice->version))
        return json_null();
    const uint64_t *rss_bytes = index->rss_bytes;
    uint64_t peak_bytes = rss_bytes[ht_peak_sample(r->built, rss_bytes, samples)];
    struct ht_baseline_check check = ht_baseline_check(r->program, r->built, rss_bytes, (double)peak_bytes,
                                                       (double)rss_bytes[samples - 1]);
    return ht_baseline_json(&check, r->program, r->built, index->choice->version, r->huge_pages.mode);
}

static json_t *known_number(uint64_t value) {
    return value < INT64_MAX ? json_integer((json_int_t)value) : json_null();
}

static json_t *spacing_json(const struct ht_block_spacing *spacing) {
    return json_pack("{s:I, s:o, s:o}", "header_bytes", (json_int_t)spacing->header_bytes,
                     "own_pages_from_bytes", known_number(spacing->own_pages_from_bytes), "own_pages_offset",
                     known_number(spacing->own_pages_offset));
}

static json_t *index_json(const struct ht_runner *r, const struct ht_snapshot_index *index,
                          json_t *snapshots) {
    const struct ht_choice *choice = index->choice;
    return json_pack(
        "{s:i, s:{s:o, s:s}, s:{s:o, s:o, s:o, s:o, s:o}, s:b, s:o, s:o, s:o, s:o, s:o}", "schema", 1,
        "trace", "path", json_text(r->plan->trace_path), "sha256", r->trace_sha256, "allocator", "name",
        json_known_text(choice->name), "version", json_known_text(choice->version), "kind",
        json_known_text(choice->kind ? choice->kind->name : ""), "settings", ht_settings_json(choice),
        "left_out", ht_left_out_json(choice), "one_thread", r->plan->one_thread, "spacing",
        spacing_json(&index->spacing), "snapshots", snapshots, "baseline_check", check_json(r, index),
        "curve", curve_json(r, index), "stretches", stretches_json(r, index));
}

bool ht_snapshot_index_write(const struct ht_runner *r, const struct ht_snapshot_index *index, int fd,
                             char *problem, size_t room) {
    char path[64], *text = NULL;
    struct stat status;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int reading = open(path, O_RDONLY | O_CLOEXEC);
    json_t *snapshots = NULL, *whole = NULL;
    if (reading < 0 || fstat(reading, &status))
        snprintf(problem, room, "second reading: %s", strerror(errno));
    else snapshots = snapshots_json(r, index, reading, (uint64_t)status.st_size, problem, room);
    if (reading >= 0) close(reading);
    if (!snapshots) return false;
    whole = index_json(r, index, snapshots);
    text = whole ? json_dumps(whole, JSON_COMPACT | HT_JSON_REALS) : NULL;
    json_decref(whole);
    uint64_t tail[2] = {text ? strlen(text) : 0, HT_SNAPSHOT_MAGIC};
    bool done = text && ht_write_all(fd, text, tail[0]) && ht_write_all(fd, tail, sizeof tail);
    if (!done)
        snprintf(problem, room, "the index cannot be written: %s", text ? strerror(errno) : "no memory");
    free(text);
    return done;
}
