// SPDX-License-Identifier: Apache-2.0
#include "trace_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "checksum.h"
#include "columns.h"
#include "event_section.h"
#include "grow.h"
#include "output_file.h"
#include "site_table.h"

enum { ROWS = HT_SECTION_ROWS_MAX, COLUMNS_MAX = 6 };

// Rows of a section of rare facts.
struct row_buffer {
    enum ht_section_kind kind;
    uint8_t columns;
    uint8_t optional;  // of the columns, the last ones: left out of a section where all their values are 0
    bool any_optional;
    uint32_t rows;
    uint64_t column[COLUMNS_MAX][ROWS];
};

struct ht_trace_writer {
    char *path;
    struct output_file file;
    bool lasting;  // the partial file is kept for its next writer
    atomic_bool failed;
    struct ht_error error;  // valid once failed
    uint32_t time_unit_ns;
    int time_shift;     // log2 of the unit where it is a power of two, else -1
    uint64_t offset;    // bytes written
    uint32_t features;  // that the header announces
    uint64_t next_event;
    uint32_t next_site;  // the call site of that event
    struct ht_section_coder *coder;
    struct ht_packer *packer;
    struct ht_payload payload;
    struct ht_section_place *places;
    size_t places_count, places_room;
    struct row_buffer samples, residency, steps;
    // Two sections of events: the caller fills one while a thread of our own packs and writes the other. That
    // thread owns coder, packer, payload, places, offset and file from the moment `busy` is set until it
    // clears it.
    struct ht_event_section *events, *packing;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool beside;        // the thread is there
    bool busy, ending;  // under the lock
};

static void fail(struct ht_trace_writer *writer, const char *what) {
    if (writer->failed) return;
    ht_error_system(&writer->error, writer->path, "%s", what);
    writer->failed = true;
}

// A division by a number known only here would cost more than everything else about an event.
static inline uint64_t in_units(const struct ht_trace_writer *writer, uint64_t time_ns) {
    return writer->time_shift >= 0 ? time_ns >> writer->time_shift : time_ns / writer->time_unit_ns;
}

static void write_all(struct ht_trace_writer *writer, const void *bytes, size_t count) {
    if (writer->failed) return;
    if (ht_write_all(writer->file.fd, bytes, count)) writer->offset += count;
    else fail(writer, "cannot write");
}

static void remember_place(struct ht_trace_writer *writer, const struct ht_section_header *header) {
    if (!ht_grow(&writer->places, &writer->places_room, writer->places_count + 1, sizeof *writer->places)) {
        errno = ENOMEM;
        fail(writer, "cannot grow the index");
        return;
    }
    writer->places[writer->places_count++] = (struct ht_section_place){.offset = writer->offset,
                                                                       .kind = header->kind,
                                                                       .rows = header->rows,
                                                                       .first_event = header->first_event,
                                                                       .first_time = header->first_time};
}

// Writes the payload that has been packed as one section.
static void put_section(struct ht_trace_writer *writer, enum ht_section_kind kind, uint32_t rows,
                        uint64_t first_event, uint64_t first_time) {
    const struct ht_payload *payload = &writer->payload;
    size_t directory_bytes = payload->columns * sizeof *payload->entry;
    assert(rows <= HT_SECTION_ROWS_MAX);
    assert(directory_bytes + payload->used <= HT_SECTION_PAYLOAD_BYTES_MAX);
    struct ht_section_header header = {.magic = HT_SECTION_MAGIC,
                                       .kind = (uint8_t)kind,
                                       .columns = (uint8_t)payload->columns,
                                       .rows = rows,
                                       .payload_bytes = (uint32_t)(directory_bytes + payload->used),
                                       .first_event = first_event,
                                       .first_time = first_time};
    XXH64_state_t hash;
    XXH64_reset(&hash, 0);
    XXH64_update(&hash, &header, offsetof(struct ht_section_header, checksum));
    XXH64_update(&hash, payload->entry, directory_bytes);
    if (payload->used) XXH64_update(&hash, payload->bytes, payload->used);
    header.checksum = XXH64_digest(&hash);
    if (kind != HT_SECTION_INDEX) remember_place(writer, &header);
    write_all(writer, &header, sizeof header);
    write_all(writer, payload->entry, directory_bytes);
    write_all(writer, payload->bytes, payload->used);
}

static void check_packed(struct ht_trace_writer *writer, int result) {
    if (result == 0) return;
    errno = ENOMEM;
    fail(writer, "cannot pack a column");
}

static void pack_u64(struct ht_trace_writer *writer, uint8_t id, const uint64_t *values, size_t count,
                     int difference) {
    check_packed(writer, ht_pack_u64(writer->packer, &writer->payload, id, values, count, difference));
}

static struct ht_trace_header header_of(const struct ht_trace_writer *writer) {
    struct ht_trace_header header = {.version = HT_TRACE_VERSION,
                                     .min_reader = HT_TRACE_MIN_READER,
                                     .features = writer->features,
                                     .time_unit_ns = writer->time_unit_ns,
                                     .block_events_max = HT_SECTION_ROWS_MAX};
    memcpy(header.magic, HT_TRACE_MAGIC, sizeof header.magic);
    header.checksum = XXH64(&header, offsetof(struct ht_trace_header, checksum), 0);
    return header;
}

// ---- packing, beside the caller ----

// Older readers cannot read on from here. Of a file that is not ours alone, the start may lie elsewhere.
static void announce(struct ht_trace_writer *writer, uint32_t features) {
    writer->features |= features;
    const struct ht_trace_header header = header_of(writer);
    if (writer->file.partial_path && pwrite(writer->file.fd, &header, sizeof header, 0) != sizeof header)
        fail(writer, "cannot write");
}

// Packs and writes the section that was handed over.
static void write_events(struct ht_trace_writer *writer) {
    const struct ht_event_section *events = writer->packing;
    ht_payload_reset(&writer->payload);
    if (events->features & ~writer->features) announce(writer, events->features);
    check_packed(writer, ht_event_section_pack(events, writer->coder, writer->packer, &writer->payload));
    put_section(writer, HT_SECTION_EVENTS, events->rows + events->joined_queries, events->first_event,
                events->first_time);
}

static void *pack_sections(void *argument) {
    struct ht_trace_writer *writer = argument;
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (!writer->busy && !writer->ending) pthread_cond_wait(&writer->changed, &writer->lock);
        if (!writer->busy) break;
        pthread_mutex_unlock(&writer->lock);
        write_events(writer);
        pthread_mutex_lock(&writer->lock);
        writer->busy = false;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

// Where no thread can be had, the caller packs by itself.
static void start_packer(struct ht_trace_writer *writer) {
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, NULL);
    writer->beside = pthread_create(&writer->thread, NULL, pack_sections, writer) == 0;
}

// Waits until everything handed over is written: from then on, file and payload are the caller's.
static void wait_for_packer(struct ht_trace_writer *writer) {
    if (!writer->beside) return;
    pthread_mutex_lock(&writer->lock);
    while (writer->busy) pthread_cond_wait(&writer->changed, &writer->lock);
    pthread_mutex_unlock(&writer->lock);
}

static void stop_packer(struct ht_trace_writer *writer) {
    if (writer->beside) {
        pthread_mutex_lock(&writer->lock);
        writer->ending = true;
        pthread_cond_broadcast(&writer->changed);
        pthread_mutex_unlock(&writer->lock);
        pthread_join(writer->thread, NULL);
        writer->beside = false;
    }
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
}

// Hands the section over and goes on with the other one.
static void flush_events(struct ht_trace_writer *writer) {
    if (!writer->events->rows) return;
    wait_for_packer(writer);
    struct ht_event_section *full = writer->events;
    writer->events = writer->packing;
    writer->packing = full;
    writer->events->rows = writer->events->sizes = writer->events->extras = writer->events->runs = 0;
    writer->events->joined_queries = writer->events->sites = 0;
    writer->events->any_site = false;
    writer->events->features = 0;
    writer->events->lone_query = false;
    if (!writer->beside) {
        write_events(writer);
        return;
    }
    pthread_mutex_lock(&writer->lock);
    writer->busy = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
}

// ---- other sections ----

static void flush_rows(struct ht_trace_writer *writer, struct row_buffer *buffer) {
    if (!buffer->rows) return;
    wait_for_packer(writer);
    ht_payload_reset(&writer->payload);
    uint8_t columns = buffer->columns;
    if (!buffer->any_optional) columns = (uint8_t)(columns - buffer->optional);
    for (uint8_t i = 0; i < columns; i++) pack_u64(writer, i + 1, buffer->column[i], buffer->rows, 1);
    put_section(writer, buffer->kind, buffer->rows, 0, 0);
    buffer->rows = 0;
    buffer->any_optional = false;
}

static void put_row(struct ht_trace_writer *writer, struct row_buffer *buffer, const uint64_t *values) {
    if (buffer->rows == ROWS) flush_rows(writer, buffer);
    for (uint8_t i = 0; i < buffer->columns; i++) buffer->column[i][buffer->rows] = values[i];
    for (unsigned i = buffer->columns - buffer->optional; i < buffer->columns; i++)
        buffer->any_optional |= values[i] != 0;
    buffer->rows++;
}

static void put_text_section(struct ht_trace_writer *writer, enum ht_section_kind kind, const char *text) {
    ht_payload_reset(&writer->payload);
    check_packed(writer, ht_pack_bytes(writer->packer, &writer->payload, 1, text, strlen(text)));
    put_section(writer, kind, 0, 0, 0);
}

// A writer with everything but its file. NULL with error.
static struct ht_trace_writer *new_writer(const char *path, uint32_t time_unit_ns, int level,
                                          struct ht_error *error) {
    assert(time_unit_ns > 0);
    struct ht_trace_writer *writer = calloc(1, sizeof *writer);
    if (!writer) {
        ht_error_memory(error, path, "cannot create");
        return NULL;
    }
    writer->file.fd = -1;
    writer->samples.kind = HT_SECTION_SAMPLES;
    writer->samples.columns = 6;
    writer->residency.kind = HT_SECTION_RESIDENCY;
    writer->residency.columns = 4;
    writer->residency.optional = 1;
    writer->steps.kind = HT_SECTION_RESIDENCY_STEPS;
    writer->steps.columns = 5;
    writer->steps.optional = 2;
    writer->time_unit_ns = time_unit_ns;
    writer->time_shift = time_unit_ns & (time_unit_ns - 1) ? -1 : __builtin_ctz(time_unit_ns);
    start_packer(writer);
    writer->path = strdup(path);
    writer->packer = ht_packer_new(level);
    writer->coder = calloc(1, sizeof *writer->coder);
    writer->events = calloc(1, sizeof *writer->events);
    writer->packing = calloc(1, sizeof *writer->packing);
    if (writer->path && writer->packer && writer->coder && writer->events && writer->packing) {
        ht_section_coder_init(writer->coder);
        return writer;
    }
    ht_error_memory(error, path, "cannot create");
    ht_trace_abandon(writer);
    return NULL;
}

static void write_header(struct ht_trace_writer *writer) {
    const struct ht_trace_header header = header_of(writer);
    write_all(writer, &header, sizeof header);
}

static struct ht_trace_writer *create(const char *path, uint32_t time_unit_ns, int level, uint32_t features,
                                      struct ht_error *error) {
    struct ht_trace_writer *writer = new_writer(path, time_unit_ns, level, error);
    if (!writer) return NULL;
    writer->features = features;
    if (output_file_open_private(&writer->file, path)) {
        ht_error_system(error, path, "cannot create");
        ht_trace_abandon(writer);
        return NULL;
    }
    write_header(writer);
    return writer;
}

struct ht_trace_writer *ht_trace_create(const char *path, uint32_t time_unit_ns, int level,
                                        struct ht_error *error) {
    return create(path, time_unit_ns, level, 0, error);
}

struct ht_trace_writer *ht_trace_create_group(const char *path, uint32_t time_unit_ns, int level,
                                              struct ht_error *error) {
    return create(path, time_unit_ns, level, HT_TRACE_FEATURE_GROUP, error);
}

struct ht_trace_writer *ht_trace_create_in(int fd, const char *name, uint32_t time_unit_ns, int level,
                                           struct ht_error *error) {
    struct ht_trace_writer *writer = new_writer(name, time_unit_ns, level, error);
    if (!writer) return NULL;
    writer->file = (struct output_file){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    if (writer->file.fd < 0) {
        ht_error_system(error, name, "cannot create");
        ht_trace_abandon(writer);
        return NULL;
    }
    write_header(writer);
    return writer;
}

int ht_trace_put_context(struct ht_trace_writer *writer, const char *context_json) {
    put_text_section(writer, HT_SECTION_CONTEXT, context_json);
    return writer->failed ? -1 : 0;
}

void ht_trace_put_event(struct ht_trace_writer *writer, uint8_t op, uint32_t thread, uint64_t time_ns,
                        uint32_t slot, bool own_slot, uint64_t size, uint64_t extra) {
    uint64_t time = in_units(writer, time_ns);
    if (!ht_event_section_takes(writer->events, time)) flush_events(writer);
    if (writer->events->rows == 0) writer->events->first_event = writer->next_event;
    ht_event_section_put(writer->events, writer->coder->shape[op], op, thread, time, slot, own_slot, size,
                         extra, writer->next_site);
    writer->next_event++;
    writer->next_site = 0;
}

void ht_trace_put_site(struct ht_trace_writer *writer, uint32_t site) { writer->next_site = site; }

uint64_t ht_trace_next_event(const struct ht_trace_writer *writer) { return writer->next_event; }

uint64_t ht_trace_bytes(const struct ht_trace_writer *writer) { return writer->offset; }

bool ht_trace_failed(const struct ht_trace_writer *writer) { return writer->failed; }

void ht_trace_put_sample(struct ht_trace_writer *writer, const struct ht_sample *sample) {
    put_row(writer, &writer->samples,
            (const uint64_t[]){sample->time_ns / writer->time_unit_ns, sample->event, sample->rss_anon_bytes,
                               sample->own_rss_bytes, sample->cpu_ns, sample->own_fresh});
}

void ht_trace_put_residency(struct ht_trace_writer *writer, const struct ht_residency *entry) {
    put_row(writer, &writer->residency,
            (const uint64_t[]){entry->event, entry->pages_before, entry->pages_after, entry->pages_spared});
}

void ht_trace_put_residency_step(struct ht_trace_writer *writer, const struct ht_residency_step *step) {
    put_row(writer, &writer->steps,
            (const uint64_t[]){step->event, step->time_ns / writer->time_unit_ns, step->pages,
                               step->first_page, step->run_pages});
}

// Writes one row of a table.
typedef void site_row(const struct ht_site_table *table, size_t row, uint64_t values[COLUMNS_MAX]);

static void location_row(const struct ht_site_table *table, size_t row, uint64_t values[COLUMNS_MAX]) {
    values[0] = table->locations[row].module;
    values[1] = table->locations[row].offset;
}

static void caller_row(const struct ht_site_table *table, size_t row, uint64_t values[COLUMNS_MAX]) {
    values[0] = table->callers[row].parent;
    values[1] = table->callers[row].location;
}

static void site_row_of(const struct ht_site_table *table, size_t row, uint64_t values[COLUMNS_MAX]) {
    values[0] = table->sites[row].caller;
    values[1] = table->sites[row].flags;
}

static void name_row(const struct ht_site_table *table, size_t row, uint64_t values[COLUMNS_MAX]) {
    values[0] = table->names[row].location;
    values[1] = table->names[row].function;
    values[2] = table->names[row].file;
    values[3] = table->names[row].line;
}

static void put_rows(struct ht_trace_writer *writer, enum ht_section_kind kind, uint8_t columns,
                     const struct ht_site_table *table, size_t rows, site_row *fill) {
    struct row_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) {
        errno = ENOMEM;
        fail(writer, "cannot pack the call sites");
        return;
    }
    buffer->kind = kind;
    buffer->columns = columns;
    for (size_t row = 0; row < rows; row++) {
        uint64_t values[COLUMNS_MAX] = {0};
        fill(table, row, values);
        put_row(writer, buffer, values);
    }
    flush_rows(writer, buffer);
    free(buffer);
}

static void put_strings(struct ht_trace_writer *writer, const char *strings, size_t bytes) {
    while (bytes) {
        // A string that fits no section is not made: HT_STRING_BYTES_MAX.
        size_t end = bytes < HT_TEXT_BYTES_MAX ? bytes : HT_TEXT_BYTES_MAX;
        while (strings[end - 1]) end--;
        ht_payload_reset(&writer->payload);
        check_packed(writer, ht_pack_bytes(writer->packer, &writer->payload, 1, strings, end));
        put_section(writer, HT_SECTION_STRINGS, 0, 0, 0);
        strings += end;
        bytes -= end;
    }
}

static void put_site_table(struct ht_trace_writer *writer, const struct ht_site_table *table) {
    if (table->modules_json) put_text_section(writer, HT_SECTION_MODULES, table->modules_json);
    put_rows(writer, HT_SECTION_LOCATIONS, 2, table, table->locations_count, location_row);
    put_rows(writer, HT_SECTION_CALLERS, 2, table, table->callers_count, caller_row);
    put_rows(writer, HT_SECTION_SITES, 2, table, table->sites_count, site_row_of);
    put_rows(writer, HT_SECTION_NAMES, 4, table, table->names_count, name_row);
    put_strings(writer, table->strings, table->strings_bytes);
}

void ht_trace_put_site_table(struct ht_trace_writer *writer, const struct ht_site_table *table) {
    struct ht_site_table fitted;
    flush_events(writer);
    wait_for_packer(writer);
    if (!table->modules_json || strlen(table->modules_json) <= HT_TEXT_BYTES_MAX) {
        put_site_table(writer, table);
    } else if (ht_site_modules_fit(table, HT_TEXT_BYTES_MAX, &fitted)) {
        put_site_table(writer, &fitted);
        free(fitted.modules_json);
        free(fitted.locations);
    } else {
        errno = ENOMEM;
        fail(writer, "cannot pack the call sites");
    }
}

static void put_threads(struct ht_trace_writer *writer, const struct ht_thread *threads, size_t count) {
    enum { COLUMNS = 8 };
    for (size_t first = 0; first < count; first += ROWS) {
        size_t rows = count - first < ROWS ? count - first : ROWS;
        uint64_t *values = calloc(rows * COLUMNS, sizeof *values);
        if (!values) {
            errno = ENOMEM;
            fail(writer, "cannot pack the threads");
            return;
        }
        for (size_t i = 0; i < rows; i++) {
            const struct ht_thread *thread = &threads[first + i];
            char name[16] = {0};
            memcpy(name, thread->name, sizeof name);
            uint64_t row[COLUMNS] = {thread->tid,
                                     thread->first_event,
                                     thread->start_ns / writer->time_unit_ns,
                                     thread->calls,
                                     thread->end_ns / writer->time_unit_ns,
                                     thread->ended};
            memcpy(&row[6], name, sizeof name);
            for (size_t column = 0; column < COLUMNS; column++) values[column * rows + i] = row[column];
        }
        ht_payload_reset(&writer->payload);
        for (size_t column = 0; column < COLUMNS; column++)
            pack_u64(writer, (uint8_t)(column + 1), values + column * rows, rows, 0);
        free(values);
        put_section(writer, HT_SECTION_THREADS, (uint32_t)rows, 0, 0);
    }
}

// The index lists the sections before it, in as many rows as there are; it alone may hold more than 65,536.
static void put_index_and_footer(struct ht_trace_writer *writer) {
    size_t rows = writer->places_count;
    uint64_t *values = malloc(5 * (rows + 1) * sizeof *values);
    if (!values) {
        errno = ENOMEM;
        fail(writer, "cannot pack the index");
        return;
    }
    for (size_t i = 0; i < rows; i++) {
        const struct ht_section_place *place = &writer->places[i];
        const uint64_t row[5] = {place->offset, place->kind, place->rows, place->first_event,
                                 place->first_time};
        for (size_t column = 0; column < 5; column++) values[column * rows + i] = row[column];
    }
    ht_payload_reset(&writer->payload);
    for (size_t column = 0; column < 5; column++)
        pack_u64(writer, (uint8_t)(column + 1), values + column * rows, rows, column != 1);
    free(values);
    struct ht_trace_footer footer = {.index_offset = writer->offset};
    memcpy(footer.magic, HT_TRACE_END_MAGIC, sizeof footer.magic);
    put_section(writer, HT_SECTION_INDEX, 0, 0, 0);
    footer.file_bytes = writer->offset + sizeof footer;
    footer.checksum = XXH64(&footer, offsetof(struct ht_trace_footer, checksum), 0);
    write_all(writer, &footer, sizeof footer);
}

// Puts the finished file under its final name, and only then.
static void put_in_place(struct ht_trace_writer *writer) {
    const char *wrong = writer->failed ? NULL : output_file_finish(&writer->file);
    if (wrong) fail(writer, wrong);
}

// Frees the writer. Returns 0 or -1 with error.
static int end_file(struct ht_trace_writer *writer, uint64_t *file_bytes, struct ht_error *error) {
    put_index_and_footer(writer);
    put_in_place(writer);
    if (file_bytes) *file_bytes = writer->offset;
    int result = writer->failed ? -1 : 0;
    if (writer->failed) *error = writer->error;
    ht_trace_abandon(writer);
    return result;
}

int ht_trace_finish(struct ht_trace_writer *writer, const struct ht_thread *threads, size_t threads_count,
                    const char *totals_json, uint64_t *file_bytes, struct ht_error *error) {
    flush_events(writer);
    wait_for_packer(writer);
    flush_rows(writer, &writer->samples);
    flush_rows(writer, &writer->residency);
    flush_rows(writer, &writer->steps);
    put_threads(writer, threads, threads_count);
    put_text_section(writer, HT_SECTION_TOTALS, totals_json);
    return end_file(writer, file_bytes, error);
}

int ht_trace_finish_group(struct ht_trace_writer *writer, uint64_t *file_bytes, struct ht_error *error) {
    return end_file(writer, file_bytes, error);
}

static void put_stored(struct ht_trace_writer *writer, const struct ht_section_header *header,
                       const void *payload) {
    remember_place(writer, header);
    write_all(writer, header, sizeof *header);
    write_all(writer, payload, header->payload_bytes);
}

void ht_trace_put_stored(struct ht_trace_writer *writer, const struct ht_section_header *header,
                         const void *payload) {
    flush_events(writer);
    wait_for_packer(writer);
    put_stored(writer, header, payload);
}

void ht_trace_put_columns(struct ht_trace_writer *writer, enum ht_section_kind kind, uint32_t rows,
                          uint64_t first, uint64_t second, const struct ht_put_column *column,
                          unsigned columns) {
    flush_events(writer);
    wait_for_packer(writer);
    ht_payload_reset(&writer->payload);
    for (unsigned i = 0; i < columns; i++) {
        const struct ht_put_column *put = &column[i];
        if (put->values) pack_u64(writer, put->id, put->values, put->count, 1);
        else
            check_packed(writer,
                         ht_pack_bytes(writer->packer, &writer->payload, put->id, put->bytes, put->count));
    }
    put_section(writer, kind, rows, first, second);
}

int ht_trace_copy(struct ht_trace_reader *reader, const char *path, const struct ht_site_table *table,
                  uint64_t *file_bytes, struct ht_error *error) {
    enum { LEVEL = 3 };
    struct ht_trace_writer *writer = new_writer(path, ht_trace_time_unit_ns(reader), LEVEL, error);
    if (!writer) return -1;
    writer->features = ht_trace_features(reader);
    int status =
        output_file_open_private(&writer->file, path) ? ht_error_system(error, path, "cannot create") : 0;
    if (!status) write_header(writer);
    for (size_t i = 0; i < ht_trace_sections(reader) && !status; i++) {
        uint32_t kind = ht_trace_section(reader, i)->kind;
        const struct ht_section_header *header;
        const void *payload;
        if (kind == HT_SECTION_MODULES) ht_trace_put_site_table(writer, table);
        if (kind >= HT_SECTION_MODULES && kind <= HT_SECTION_STRINGS) continue;
        if (!(status = ht_trace_stored(reader, i, &header, &payload, error)))
            put_stored(writer, header, payload);
    }
    if (status) {
        ht_trace_abandon(writer);
        return -1;
    }
    return end_file(writer, file_bytes, error);
}

void ht_trace_abandon(struct ht_trace_writer *writer) {
    if (!writer) return;
    stop_packer(writer);
    if (writer->lasting) {
        if (writer->file.fd >= 0) close(writer->file.fd);
        free(writer->file.partial_path);
        free(writer->file.final_path);
    } else {
        output_file_abandon(&writer->file);
    }
    ht_payload_free(&writer->payload);
    ht_packer_free(writer->packer);
    free(writer->coder);
    free(writer->events);
    free(writer->packing);
    free(writer->places);
    free(writer->path);
    free(writer);
}

const char *ht_trace_partial_path(const struct ht_trace_writer *writer) { return writer->file.partial_path; }

// ---- traces that are written for long, by several processes one after another ----

// A file that is there already may be one to go on with, or another process's. One that somebody else has put
// there, or a second name of another file of ours, is neither.
static int open_partial(const char *partial, bool create) {
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = create ? open(partial, flags | O_CREAT | O_EXCL, HT_PRIVATE_MODE) : -1;
    if (fd >= 0 || (create && errno != EEXIST)) return fd;
    fd = open(partial, flags);
    if (fd < 0 || output_file_is_own(fd)) return fd;
    close(fd);
    errno = EEXIST;
    return -1;
}

// Opens PATH.partial, which no other process may be writing.
static int open_lasting(struct ht_trace_writer *writer, bool create, struct ht_error *error) {
    writer->lasting = true;
    writer->file.final_path = strdup(writer->path);
    if (asprintf(&writer->file.partial_path, "%s.partial", writer->path) < 0)
        writer->file.partial_path = NULL;
    const char *partial = writer->file.partial_path;
    if (writer->file.final_path && partial) writer->file.fd = open_partial(partial, create);
    if (writer->file.fd < 0 && errno == EEXIST)
        return ht_error_system(error, partial, "expected a file of this user with a single name");
    if (writer->file.fd < 0) return ht_error_system(error, writer->path, "cannot open its partial file");
    if (flock(writer->file.fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK) errno = EBUSY;
        return ht_error_system(error, partial, "another process writes it");
    }
    // Finished between our opening and locking it: what we have is the complete trace by now.
    struct stat ours, named;
    if (!fstat(writer->file.fd, &ours) && !stat(partial, &named) && ours.st_ino == named.st_ino) return 0;
    errno = EBUSY;
    return ht_error_system(error, partial, "another process has finished it");
}

struct ht_trace_writer *ht_trace_create_lasting(const char *path, uint32_t time_unit_ns, int level,
                                                struct ht_error *error) {
    struct ht_trace_writer *writer = new_writer(path, time_unit_ns, level, error);
    if (!writer) return NULL;
    if (open_lasting(writer, true, error) || ftruncate(writer->file.fd, 0)) {
        if (writer->file.fd >= 0 && errno != EBUSY) ht_error_system(error, path, "cannot create");
        ht_trace_abandon(writer);
        return NULL;
    }
    write_header(writer);
    return writer;
}

// Is it a section that comes while the trace grows, not with its end?
static bool is_written_along(unsigned kind) {
    return (kind >= HT_SECTION_CONTEXT && kind <= HT_SECTION_RESIDENCY) || kind == HT_SECTION_RESIDENCY_STEPS;
}

// Walks the sections up to the position and remembers where they lie. Returns 0 or -1 with error.
static int find_places(struct ht_trace_writer *writer, const struct ht_trace_position *position,
                       struct ht_error *error) {
    struct ht_trace_header head;
    const char *path = writer->file.partial_path;
    uint64_t next_event = 0;
    if (!ht_read_at(writer->file.fd, &head, sizeof head, 0) ||
        memcmp(head.magic, HT_TRACE_MAGIC, sizeof head.magic) || head.version != HT_TRACE_VERSION ||
        head.time_unit_ns != writer->time_unit_ns)
        return ht_error_input(error, path, 0, "expected the trace of this state, found another");
    for (writer->offset = sizeof head; writer->offset < position->offset;) {
        struct ht_section_header section;
        if (!ht_read_at(writer->file.fd, &section, sizeof section, writer->offset) ||
            section.magic != HT_SECTION_MAGIC || section.payload_bytes > HT_SECTION_PAYLOAD_BYTES_MAX ||
            !is_written_along(section.kind) ||
            (section.kind == HT_SECTION_EVENTS && section.first_event != next_event))
            return ht_error_input(error, path, writer->offset,
                                  "expected a section (HTBK) with event %" PRIu64 ", found 0x%08" PRIx32,
                                  next_event, section.magic);
        if (section.kind == HT_SECTION_EVENTS) next_event += section.rows;
        remember_place(writer, &section);
        writer->offset += sizeof section + section.payload_bytes;
    }
    if (writer->offset != position->offset || next_event != position->next_event)
        return ht_error_input(error, path, position->offset,
                              "expected %" PRIu64 " events up to the end of a section, found %" PRIu64,
                              position->next_event, next_event);
    writer->next_event = next_event;
    return 0;
}

struct ht_trace_writer *ht_trace_resume(const char *path, uint32_t time_unit_ns, int level,
                                        const struct ht_trace_position *position, struct ht_error *error) {
    struct ht_trace_writer *writer = new_writer(path, time_unit_ns, level, error);
    if (!writer) return NULL;
    int status = open_lasting(writer, false, error);
    if (!status) status = find_places(writer, position, error);
    if (!status && (ftruncate(writer->file.fd, (off_t)position->offset) ||
                    lseek(writer->file.fd, (off_t)position->offset, SEEK_SET) < 0))
        status = ht_error_system(error, path, "cannot resume its partial file");
    if (!status) return writer;
    ht_trace_abandon(writer);
    return NULL;
}

int ht_trace_checkpoint(struct ht_trace_writer *writer, struct ht_trace_position *position,
                        struct ht_error *error) {
    flush_events(writer);
    wait_for_packer(writer);
    flush_rows(writer, &writer->samples);
    flush_rows(writer, &writer->residency);
    flush_rows(writer, &writer->steps);
    if (!writer->failed && fdatasync(writer->file.fd)) fail(writer, "cannot sync");
    *position = (struct ht_trace_position){writer->offset, writer->next_event};
    if (writer->failed) *error = writer->error;
    return writer->failed ? -1 : 0;
}
