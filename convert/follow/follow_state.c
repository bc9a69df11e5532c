// SPDX-License-Identifier: Apache-2.0
#include "follow_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "grow.h"
#include "output_file.h"
#include "site_collector.h"

#define STATE_MAGIC "HTAPEFST"
enum { VERSION = 12, NAME_BYTES = 16, BUFFER_BYTES = 1 << 20 };

// The file is these structs one behind another, and a checksum of them all.
struct head {
    char magic[8];
    uint32_t version, has_holes;
    // The log.
    uint32_t pid, sequence;
    uint64_t start_realtime_ns;
    struct ht_clock_pair first_pair;
    // The trace.
    uint32_t time_unit_ns, level;
    struct ht_clock_pair clock_pair;
    uint64_t offset, next_event;
    uint64_t fork_file_bytes;
    // The merge.
    uint64_t horizon, last_sample_ns, late_records;
    uint64_t last_time_ns, order_events;
    uint64_t live_peak, peak_live_bytes;
    uint64_t inherited_objects, inherited_bytes;
    uint64_t repairs, anomalies, foreign_frees, foreign_queries, unfinished;
    uint64_t rss_peak_bytes, own_peak_bytes, heap_rss_peak_bytes, cpu_ns;
    uint64_t heap_rss_low_bytes, heap_rss_high_bytes;
    uint64_t allocated_bytes, samples, heap_rss_first_bytes;
    uint64_t op_count[256];
    // How many of what follows, in this order.
    uint64_t threads, slots, named, births, held_samples, streams;
    struct ht_raw_damage damage;
    struct ht_control_counts controls;
    struct ht_control_settings settings;
    struct heap_pieces pieces;
    uint64_t held;                    // places where blocks lie or lay
    uint64_t slot_sites, site_bytes;  // numbers of call sites by slot, and what they mean; 0: none
};

struct thread {
    uint64_t first_event, start_ns, calls, end_ns;
    uint32_t tid, ended;
    char name[NAME_BYTES];
    uint32_t fresh, fresh_end, slots_ended;
    uint32_t own, remote;  // free slots of its own, which follow: oldest first
    uint32_t zero;
};

struct live_slot {
    uint64_t address, bytes, birth;
    uint32_t slot, owner;
};

struct birth {
    uint64_t slot, value, seen;
    uint64_t left;  // plus one, 0: nothing was given back
};

struct sample {
    uint64_t time_ns, event, rss_anon_bytes, own_rss_bytes, cpu_ns, own_fresh;
    uint64_t live_bytes, allocated_bytes, filled_bytes;
    uint64_t heap_bytes, mapped_bytes, looked, late;
};

struct stream_state {
    uint32_t known, over, outer, tid;
    uint64_t first_stamp;
    uint32_t index, chunk_bytes;
    uint64_t chunk, stamp, address;
    uint64_t calls, lost_calls;
    struct ht_raw_spread spread;
    uint32_t at, thread;
    uint32_t site, zero;
    // A realloc between its records: 1, or 2 if it was overtaken; the block of a slot that is not 0 lives.
    uint32_t open, function;
    uint64_t size, count;
    struct live_slot old;
};

static int no_memory(const char *path, struct ht_error *error) {
    return ht_error_memory(error, path, "cannot keep the state");
}

// ---- writing ----

struct output {
    FILE *file;
    XXH64_state_t hash;
    bool failed;
    uint64_t bytes;
};

// Not inlined: the hash is large, and is called from many places.
static __attribute__((noinline)) void put(struct output *output, const void *from, size_t bytes) {
    if (!bytes) return;
    XXH64_update(&output->hash, from, bytes);
    output->bytes += bytes;
    output->failed |= fwrite(from, bytes, 1, output->file) != 1;
}

static void put_list(struct output *output, const struct slots *slots, const struct slot_list *list) {
    for (uint32_t slot = list->tail, n = 0; n < list->count; n++, slot = slots->state[slot].link.newer)
        put(output, &slot, sizeof slot);
}

static void put_threads(struct output *output, const struct heap_model *heap) {
    for (uint32_t i = 0; i < heap->threads_count; i++) {
        const struct ht_thread *thread = &heap->threads[i];
        const struct slot_thread *slots = &heap->slots.thread[i];
        struct thread entry = {.first_event = thread->first_event,
                               .start_ns = thread->start_ns,
                               .calls = thread->calls,
                               .end_ns = thread->end_ns,
                               .tid = thread->tid,
                               .ended = thread->ended,
                               .fresh = slots->fresh,
                               .fresh_end = slots->fresh_end,
                               .slots_ended = slots->ended,
                               .own = slots->own.count,
                               .remote = slots->remote.count};
        memcpy(entry.name, thread->name, sizeof entry.name);
        put(output, &entry, sizeof entry);
        put_list(output, &heap->slots, &slots->own);
        put_list(output, &heap->slots, &slots->remote);
    }
    put(output, &heap->slots.pool.count, sizeof heap->slots.pool.count);
    put_list(output, &heap->slots, &heap->slots.pool);
}

static struct live_slot live_slot(const struct heap_model *heap, uint64_t address, uint32_t slot) {
    return (struct live_slot){.address = address,
                              .bytes = heap->slots.state[slot].size,
                              .birth = heap->last_event[slot],
                              .slot = slot,
                              .owner = heap->slots.state[slot].owner};
}

static void put_named(struct output *output, const struct heap_model *heap) {
    const struct map64 *map = &heap->addresses;
    for (size_t i = 0; i < map->room; i++) {
        if (!map64_has(map, i)) continue;
        struct live_slot entry = live_slot(heap, map->entry[i].key, (uint32_t)map->entry[i].value);
        put(output, &entry, sizeof entry);
    }
    map = &heap->births;
    for (size_t i = 0; i < map->room; i++) {
        if (!map64_has(map, i)) continue;
        size_t seen = map64_find(&heap->seen, map->entry[i].key);
        size_t left = map64_find(&heap->left, map->entry[i].key);
        struct birth entry = {map->entry[i].key, map->entry[i].value, heap->seen.entry[seen].value,
                              map64_has(&heap->left, left) ? heap->left.entry[left].value + 1 : 0};
        put(output, &entry, sizeof entry);
    }
}

static void put_held(struct output *output, const struct map64 *held) {
    for (size_t i = 0; i < held->room; i++)
        if (map64_has(held, i)) put(output, &held->entry[i].key, sizeof held->entry[i].key);
}

// By slot, as far as one was known, and what they mean.
static void put_sites(struct output *output, const struct heap_model *heap, const struct head *head,
                      const struct site_store *sites) {
    put(output, heap->last_site, (size_t)head->slot_sites * sizeof *heap->last_site);
    put(output, sites->bytes, sites->count);
}

static struct sample packed(const struct line_sample *from) {
    const struct ht_sample *sample = &from->sample;
    return (struct sample){
        sample->time_ns,    sample->event,     sample->rss_anon_bytes, sample->own_rss_bytes,
        sample->cpu_ns,     sample->own_fresh, from->live_bytes,       from->allocated_bytes,
        from->filled_bytes, from->heap_bytes,  from->mapped_bytes,     from->looked,
        from->late};
}

// The last that was measured, and those held since.
static void put_samples(struct output *output, const struct sample_line *line) {
    const uint64_t known[] = {line->any_fresh, line->any_look, (uint64_t)line->missed_bytes,
                              line->unplaced_bytes};
    struct sample entry = packed(&line->last_fresh);
    put(output, known, sizeof known);
    put(output, &line->allocated_bytes, sizeof line->allocated_bytes);
    put(output, &entry, sizeof entry);
    for (size_t i = 0; i < line->held_count; i++) {
        entry = packed(&line->held[i]);
        put(output, &entry, sizeof entry);
    }
}

// Those of the batch that are to come will be decoded again.
static uint64_t calls_until_merge(const struct stream *stream) {
    uint64_t calls = stream->calls;
    for (uint32_t i = stream->batch_at; i < stream->batch_end; i++) calls -= ht_raw_counts(&stream->batch[i]);
    return calls;
}

static int put_streams(struct output *output, const struct merge *m, const struct live_streams *live,
                       struct ht_error *error) {
    for (uint32_t i = 0; i < m->inputs; i++) {
        const struct input *input = &m->input[i];
        const struct live_stream *known = &live->stream[i];
        const struct open_realloc *open = &input->realloc;
        struct stream_place place = {0};
        if (known->known && live_stream_place(live, i, &place, error)) return -1;
        uint32_t index = known->index, chunk_bytes = known->chunk_bytes;
        // The merge may be in a chunk before the newest, which the next follower finds again.
        if (place.chunk != known->trusted.chunk &&
            live_chunk_at(live, place.chunk, &index, &chunk_bytes, error))
            return -1;
        struct stream_state entry = {.known = known->known,
                                     .over = known->over,
                                     .outer = input->stream->outer,
                                     .tid = input->stream->tid,
                                     .first_stamp = input->stream->first_stamp,
                                     .index = index,
                                     .chunk_bytes = chunk_bytes,
                                     .chunk = place.chunk,
                                     .stamp = place.stamp,
                                     .address = place.address,
                                     .calls = calls_until_merge(input->stream),
                                     .lost_calls = input->stream->lost_calls,
                                     .spread = place.spread,
                                     .at = place.at,
                                     .thread = input->thread,
                                     .site = place.site,
                                     .open = open->overtaken ? 2 : open->open,
                                     .function = open->function,
                                     .size = open->size,
                                     .count = open->count};
        if (open->open && open->slot) entry.old = live_slot(&m->heap, open->address, open->slot);
        else entry.old.address = open->address;
        put(output, &entry, sizeof entry);
    }
    return 0;
}

// What the next holes held is nowhere else: the state's name must be on the disk by then. Where a folder
// cannot be synced there is no better way.
static bool sync_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash + 1 - path)) : strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool failed = fd >= 0 && fsync(fd) && errno != EINVAL;
    int why = errno;
    if (fd >= 0) close(fd);
    free(folder);
    errno = why;
    return !failed;
}

// Syncs the file and puts it in place.
static int settle(struct output *output, const char *partial, const char *path, struct ht_error *error) {
    bool failed = output->failed || fflush(output->file) || fsync(fileno(output->file));
    failed |= fclose(output->file) != 0;
    output->file = NULL;
    if (!failed && !rename(partial, path) && sync_folder(path)) return 0;
    ht_error_system(error, path, "cannot keep the state");
    unlink(partial);
    return -1;
}

static struct head head_of(const struct ht_raw_log *log, const struct follow_position *position,
                           const struct merge *m, const struct site_store *sites) {
    const struct heap_model *heap = &m->heap;
    const struct merge_totals *totals = &heap->totals;
    struct head head = {.version = VERSION,
                        .pid = log->header.pid,
                        .sequence = log->header.sequence,
                        .start_realtime_ns = log->header.start_realtime_ns,
                        .first_pair = log->header.first_pair,
                        .time_unit_ns = position->time_unit_ns,
                        .level = (uint32_t)position->level,
                        .clock_pair = position->clock_pair,
                        .offset = position->trace.offset,
                        .next_event = position->trace.next_event,
                        .fork_file_bytes = position->fork_file_bytes,
                        .has_holes = position->has_holes,
                        .horizon = position->horizon,
                        .last_sample_ns = m->last_sample_ns,
                        .late_records = m->late_records,
                        .last_time_ns = heap->last_time_ns,
                        .order_events = heap->unwritten_events,
                        .live_peak = heap->slots.live_peak,
                        .peak_live_bytes = totals->peak_live_bytes,
                        .inherited_objects = totals->inherited_objects,
                        .inherited_bytes = totals->inherited_bytes,
                        .repairs = totals->repairs,
                        .anomalies = totals->anomalies,
                        .foreign_frees = totals->foreign_frees,
                        .foreign_queries = totals->foreign_queries,
                        .unfinished = totals->unfinished,
                        .rss_peak_bytes = totals->rss_peak_bytes,
                        .own_peak_bytes = totals->own_peak_bytes,
                        .heap_rss_peak_bytes = totals->heap_rss_peak_bytes,
                        .heap_rss_low_bytes = totals->heap_rss_low_bytes,
                        .heap_rss_high_bytes = totals->heap_rss_high_bytes,
                        .cpu_ns = totals->cpu_ns,
                        .allocated_bytes = totals->allocated_bytes,
                        .samples = totals->samples,
                        .heap_rss_first_bytes = totals->heap_rss_first_bytes,
                        .threads = heap->threads_count,
                        .slots = heap->slots.total,
                        .named = heap->addresses.count,
                        .births = heap->births.count,
                        .held_samples = m->samples.held_count,
                        .streams = m->inputs,
                        .damage = m->streams.damage,
                        .controls = totals->controls,
                        .settings = heap->settings,
                        .pieces = m->pieces,
                        .held = heap->held.count,
                        .site_bytes = sites->count};
    if (sites->count)
        head.slot_sites = heap->last_site_room < head.slots + 1 ? heap->last_site_room : head.slots + 1;
    memcpy(head.magic, STATE_MAGIC, sizeof head.magic);
    memcpy(head.op_count, heap->op_count, sizeof head.op_count);
    return head;
}

int follow_state_save(const char *path, const struct ht_raw_log *log, const struct follow_position *position,
                      const struct merge *m, const struct live_streams *live, uint64_t *bytes,
                      struct ht_error *error) {
    char partial[4096 + 16];
    struct output output = {0};
    struct site_store sites;
    if (snprintf(partial, sizeof partial, "%s.new", path) >= (int)sizeof partial) {
        errno = ENAMETOOLONG;
        return ht_error_system(error, path, "cannot keep the state");
    }
    unlink(partial);
    int fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, HT_PRIVATE_MODE);
    output.file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!output.file) return ht_error_system(error, path, "cannot keep the state");
    setvbuf(output.file, NULL, _IOFBF, BUFFER_BYTES);
    XXH64_reset(&output.hash, 0);
    if (!site_store_make(&sites, &m->heap.sites)) {
        fclose(output.file);
        unlink(partial);
        return no_memory(path, error);
    }
    struct head head = head_of(log, position, m, &sites);
    put(&output, &head, sizeof head);
    put_threads(&output, &m->heap);
    put_named(&output, &m->heap);
    put_held(&output, &m->heap.held);
    put_sites(&output, &m->heap, &head, &sites);
    site_store_free(&sites);
    put_samples(&output, &m->samples);
    int status = put_streams(&output, m, live, error);
    put(&output, &m->overtaken, sizeof m->overtaken);
    uint64_t checksum = XXH64_digest(&output.hash);
    put(&output, &checksum, sizeof checksum);
    *bytes = output.bytes;
    if (!status) return settle(&output, partial, path, error);
    fclose(output.file);
    unlink(partial);
    return -1;
}

// ---- reading ----

struct follow_state {
    char *path;
    FILE *file;
    uint64_t left;  // bytes that have not been read, without the checksum
    struct head head;
    uint8_t *taken;  // a bit for each slot that has been met
};

static bool get(struct follow_state *state, void *to, size_t bytes) {
    if (bytes > state->left) return false;
    state->left -= bytes;
    return !bytes || fread(to, bytes, 1, state->file) == 1;
}

// Every slot is met once: live, in a list, or not yet used.
static bool take_slot(struct follow_state *state, uint32_t slot) {
    if (slot == 0 || slot > state->head.slots) return false;
    uint8_t bit = (uint8_t)(1u << slot % 8), *byte = &state->taken[slot / 8];
    if (*byte & bit) return false;
    *byte |= bit;
    return true;
}

static bool get_list(struct follow_state *state, struct slots *slots, struct slot_list *list,
                     uint32_t count) {
    uint32_t slot;
    for (uint32_t n = 0; n < count; n++) {
        if (!get(state, &slot, sizeof slot) || !take_slot(state, slot)) return false;
        slots_put_free(slots, list, slot);
    }
    return true;
}

static bool get_thread(struct follow_state *state, struct heap_model *heap) {
    struct thread entry;
    if (!get(state, &entry, sizeof entry)) return false;
    uint32_t number = heap_model_add_thread(heap, entry.tid, 0);
    if (number == UINT32_MAX) return false;
    struct ht_thread *thread = &heap->threads[number];
    struct slot_thread *slots = &heap->slots.thread[number];
    *thread = (struct ht_thread){.tid = entry.tid,
                                 .first_event = entry.first_event,
                                 .start_ns = entry.start_ns,
                                 .calls = entry.calls,
                                 .end_ns = entry.end_ns,
                                 .ended = entry.ended != 0};
    memcpy(thread->name, entry.name, sizeof entry.name);
    slots->ended = entry.slots_ended != 0;
    slots->fresh = entry.fresh;
    slots->fresh_end = entry.fresh_end;
    for (uint32_t slot = entry.fresh; slot < entry.fresh_end; slot++)
        if (!take_slot(state, slot)) return false;
    return get_list(state, &heap->slots, &slots->own, entry.own) &&
           get_list(state, &heap->slots, &slots->remote, entry.remote);
}

static bool get_live(struct follow_state *state, struct heap_model *heap, const struct live_slot *entry) {
    if (!take_slot(state, entry->slot) || entry->owner >= heap->threads_count) return false;
    heap->slots.state[entry->slot].size = entry->bytes;
    heap->slots.state[entry->slot].owner = entry->owner;
    heap->last_event[entry->slot] = entry->birth;
    heap->live_bytes += entry->bytes;
    heap->slots.live++;
    return true;
}

static bool get_heap(struct follow_state *state, struct heap_model *heap) {
    const struct head *head = &state->head;
    uint32_t pool;
    for (uint64_t i = 0; i < head->threads; i++)
        if (!get_thread(state, heap)) return false;
    if (!get(state, &pool, sizeof pool) || !get_list(state, &heap->slots, &heap->slots.pool, pool))
        return false;
    for (uint64_t i = 0; i < head->named; i++) {
        struct live_slot entry;
        if (!get(state, &entry, sizeof entry) || !entry.address || !get_live(state, heap, &entry) ||
            heap_model_slot_at(heap, heap_model_find(heap, entry.address)) ||
            !map64_put(&heap->addresses, entry.address, entry.slot))
            return false;
    }
    for (uint64_t i = 0; i < head->births; i++) {
        struct birth entry;
        if (!get(state, &entry, sizeof entry) || !entry.slot || entry.slot > head->slots ||
            !map64_put(&heap->births, entry.slot, entry.value) ||
            !map64_put(&heap->seen, entry.slot, entry.seen) ||
            (entry.left && !map64_put(&heap->left, entry.slot, entry.left - 1)))
            return false;
    }
    for (uint64_t i = 0, key; i < head->held; i++)
        if (!get(state, &key, sizeof key) || !key || !map64_put(&heap->held, key, 0)) return false;
    for (size_t i = 0; i < heap->addresses.room; i++) {
        if (!map64_has(&heap->addresses, i)) continue;
        uint64_t slot = heap->addresses.entry[i].value;
        if (map64_has(&heap->births, map64_find(&heap->births, slot)) &&
            !map64_put(&heap->places, slot, heap->addresses.entry[i].key))
            return false;
    }
    return true;
}

static bool get_sites(struct follow_state *state, struct heap_model *heap) {
    const struct head *head = &state->head;
    if (head->site_bytes > state->left || head->slot_sites > head->slots + 1) return false;
    if (!ht_grow(&heap->last_site, &heap->last_site_room, (size_t)head->slot_sites,
                 sizeof *heap->last_site) ||
        !get(state, heap->last_site, (size_t)head->slot_sites * sizeof *heap->last_site))
        return false;
    for (uint64_t slot = 0; slot < head->slot_sites; slot++)
        if (heap->last_site[slot] > HT_SITES_MAX) return false;
    uint8_t *bytes = malloc((size_t)head->site_bytes + 1);
    bool restored = bytes && get(state, bytes, (size_t)head->site_bytes) &&
                    site_store_restore(bytes, (size_t)head->site_bytes, &heap->sites);
    free(bytes);
    return restored;
}

static struct line_sample unpacked(const struct sample *entry) {
    return (struct line_sample){.sample = {.time_ns = entry->time_ns,
                                           .event = entry->event,
                                           .rss_anon_bytes = entry->rss_anon_bytes,
                                           .own_rss_bytes = entry->own_rss_bytes,
                                           .cpu_ns = entry->cpu_ns,
                                           .own_fresh = entry->own_fresh != 0},
                                .live_bytes = entry->live_bytes,
                                .allocated_bytes = entry->allocated_bytes,
                                .filled_bytes = entry->filled_bytes,
                                .heap_bytes = entry->heap_bytes,
                                .mapped_bytes = entry->mapped_bytes,
                                .looked = entry->looked != 0,
                                .late = entry->late != 0};
}

static bool get_samples(struct follow_state *state, struct sample_line *line) {
    uint64_t known[4];
    struct sample entry;
    if (!get(state, known, sizeof known) ||
        !get(state, &line->allocated_bytes, sizeof line->allocated_bytes) ||
        !get(state, &entry, sizeof entry))
        return false;
    line->any_fresh = known[0] != 0;
    line->any_look = known[1] != 0;
    line->missed_bytes = (int64_t)known[2];
    line->unplaced_bytes = known[3];
    line->last_fresh = unpacked(&entry);
    for (line->held_count = 0; line->held_count < state->head.held_samples; line->held_count++) {
        if (!get(state, &entry, sizeof entry)) return false;
        line->held[line->held_count] = unpacked(&entry);
    }
    return true;
}

static bool get_stream(struct follow_state *state, uint32_t number, struct merge *m,
                       struct live_streams *live) {
    struct stream_state entry;
    if (!get(state, &entry, sizeof entry) || entry.outer > number) return false;
    const struct live_stream known = {.known = entry.known != 0,
                                      .over = entry.over != 0,
                                      .index = entry.index,
                                      .chunk_bytes = entry.chunk_bytes,
                                      .trusted = {.chunk = entry.chunk,
                                                  .at = entry.at,
                                                  .stamp = entry.stamp,
                                                  .address = entry.address,
                                                  .site = entry.site,
                                                  .spread = entry.spread}};
    bool possible = entry.chunk % HT_CHUNK_ALIGN == 0 && entry.at >= sizeof(struct ht_raw_chunk) &&
                    entry.at <= entry.chunk_bytes && entry.chunk_bytes <= HT_CHUNK_BYTES_MAX &&
                    entry.spread.done <= entry.spread.calls && entry.site <= HT_SITES_MAX;
    if (entry.known && !possible) return false;
    if (!live_stream_restore(live, number, &known) || !merge_know_streams(m)) return false;
    struct input *input = &m->input[number];
    input->stream->outer = entry.outer;
    input->stream->tid = entry.tid;
    input->stream->first_stamp = entry.first_stamp;
    input->stream->decoder.spread = entry.spread;
    input->stream->calls = entry.calls;
    input->stream->lost_calls = entry.lost_calls;
    if (entry.known) streams_note_begin(&m->streams, number, entry.first_stamp);
    input->thread = entry.thread;
    if (input->thread != NO_THREAD && input->thread >= m->heap.threads_count) return false;
    if (!entry.open) return true;
    input->realloc = (struct open_realloc){.open = true,
                                           .overtaken = entry.open == 2,
                                           .function = (uint8_t)entry.function,
                                           .slot = entry.old.slot,
                                           .address = entry.old.address,
                                           .size = entry.size,
                                           .count = entry.count};
    return input->thread != NO_THREAD && entry.function < HT_CALLS_END && ht_functions[entry.function].name &&
           (!entry.old.slot || get_live(state, &m->heap, &entry.old));
}

// What is written of the merge itself.
static void get_head(const struct head *head, struct merge *m) {
    struct merge_totals *totals = &m->heap.totals;
    m->horizon = head->horizon;
    m->last_sample_ns = head->last_sample_ns;
    m->late_records = head->late_records;
    m->heap.last_time_ns = head->last_time_ns;
    m->heap.unwritten_events = head->order_events;
    m->heap.slots.live_peak = head->live_peak;
    totals->peak_live_bytes = head->peak_live_bytes;
    totals->inherited_objects = head->inherited_objects;
    totals->inherited_bytes = head->inherited_bytes;
    totals->repairs = head->repairs;
    totals->anomalies = head->anomalies;
    totals->foreign_frees = head->foreign_frees;
    totals->foreign_queries = head->foreign_queries;
    totals->unfinished = head->unfinished;
    totals->rss_peak_bytes = head->rss_peak_bytes;
    totals->own_peak_bytes = head->own_peak_bytes;
    totals->heap_rss_peak_bytes = head->heap_rss_peak_bytes;
    totals->heap_rss_low_bytes = head->heap_rss_low_bytes;
    totals->heap_rss_high_bytes = head->heap_rss_high_bytes;
    m->pieces = head->pieces;
    totals->cpu_ns = head->cpu_ns;
    totals->allocated_bytes = head->allocated_bytes;
    totals->samples = head->samples;
    totals->heap_rss_first_bytes = head->heap_rss_first_bytes;
    memcpy(m->heap.op_count, head->op_count, sizeof head->op_count);
    totals->controls = head->controls;
    m->heap.settings = head->settings;
    m->streams.damage = head->damage;
    m->streams.damage.first[sizeof head->damage.first - 1] = 0;
}

static bool get_overtaken(struct follow_state *state, const struct merge *m, struct overtaken_frees *frees) {
    if (!get(state, frees, sizeof *frees) || frees->count > OVERTAKEN_FREES_MAX) return false;
    for (uint32_t i = 0; i < frees->count; i++) {
        const struct overtaken_free *kept = &frees->kept[i];
        unsigned function = ht_raw_function(&kept->record);
        bool ends = kept->record.op == HT_RAW_FREE || kept->record.op == HT_RAW_REALLOC_BEGIN;
        if (!ends || function >= HT_CALLS_END || !ht_functions[function].name || kept->input >= m->inputs ||
            m->input[kept->input].thread == NO_THREAD)
            return false;
    }
    return true;
}

static int bad_state(const struct follow_state *state, const char *expected, struct ht_error *error) {
    return ht_error_input(error, state->path, (uint64_t)ftell(state->file), "expected %s", expected);
}

int follow_state_restore(struct follow_state *state, struct merge *m, struct live_streams *live,
                         struct ht_error *error) {
    struct heap_model *heap = &m->heap;
    const struct head *head = &state->head;
    // A slot takes four bytes of the file at the least, except the few that its thread has not used yet.
    if (head->threads > HT_THREADS_MAX || head->held_samples > SAMPLES_HELD_MAX ||
        head->settings.count > HT_CONTROL_SETTINGS || head->slots > state->left / 4 + 8 * head->threads ||
        head->slots > UINT32_MAX - 16)
        return bad_state(state, "a state within its limits", error);
    state->taken = calloc((size_t)head->slots / 8 + 1, 1);
    get_head(head, m);
    if (!state->taken || !slots_reserve(&heap->slots, (uint32_t)head->slots) ||
        !(heap->last_event = calloc(heap->slots.room, sizeof *heap->last_event)))
        return no_memory(state->path, error);
    heap->last_event_room = heap->slots.room;
    bool whole = get_heap(state, heap) && get_sites(state, heap) && get_samples(state, &m->samples);
    for (uint32_t i = 0; whole && i < head->streams; i++) whole = get_stream(state, i, m, live);
    whole = whole && get_overtaken(state, m, &m->overtaken);
    for (uint32_t slot = 1; whole && slot <= head->slots; slot++)
        whole = state->taken[slot / 8] >> slot % 8 & 1;
    if (!whole || state->left) return bad_state(state, "a consistent state", error);
    if (heap->slots.live_peak < heap->slots.live) heap->slots.live_peak = heap->slots.live;
    return 0;
}

// Is the file what was written? Leaves it at its start.
static bool checksum_fits(FILE *file, uint64_t bytes) {
    static const size_t piece = 1 << 16;
    uint8_t *buffer = malloc(piece);
    XXH64_state_t hash;
    uint64_t wanted = 0, left = bytes;
    XXH64_reset(&hash, 0);
    while (buffer && left) {
        size_t now = left < piece ? (size_t)left : piece;
        if (fread(buffer, now, 1, file) != 1) break;
        XXH64_update(&hash, buffer, now);
        left -= now;
    }
    bool fits = buffer && !left && fread(&wanted, sizeof wanted, 1, file) == 1 &&
                wanted == XXH64_digest(&hash) && !fseek(file, 0, SEEK_SET);
    free(buffer);
    return fits;
}

static int check_head(const struct follow_state *state, const struct ht_raw_log *log,
                      struct ht_error *error) {
    const struct head *head = &state->head;
    const struct ht_raw_header *header = &log->header;
    if (head->version != VERSION)
        return ht_error_input(error, state->path, 8, "expected a state of version %d, found %u", VERSION,
                              head->version);
    if (head->pid != header->pid || head->sequence != header->sequence ||
        head->start_realtime_ns != header->start_realtime_ns ||
        memcmp(&head->first_pair, &header->first_pair, sizeof head->first_pair))
        return ht_error_input(error, state->path, 16, "expected the state of %s, found another log's",
                              log->path);
    if (!head->time_unit_ns || head->time_unit_ns > 1000000000 || head->level < 1 || head->level > 19)
        return ht_error_input(error, state->path, 48,
                              "expected a time unit and a level, found %" PRIu32 " ns and %" PRIu32,
                              head->time_unit_ns, head->level);
    return 0;
}

struct follow_state *follow_state_open(const char *path, const struct ht_raw_log *log,
                                       struct follow_position *position, struct ht_error *error) {
    struct follow_state *state = calloc(1, sizeof *state);
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (state) state->path = strdup(path);
    if (state && fd >= 0) state->file = fdopen(fd, "r");
    if (!state || !state->path || !state->file || fstat(fd, &status)) {
        ht_error_system(error, path, "cannot open");
        if (fd >= 0 && (!state || !state->file)) close(fd);
        follow_state_close(state);
        return NULL;
    }
    uint64_t bytes = S_ISREG(status.st_mode) ? (uint64_t)status.st_size : 0;
    state->left = bytes > sizeof(uint64_t) ? bytes - sizeof(uint64_t) : 0;
    bool own = !S_ISREG(status.st_mode) || output_file_is_own(fd);
    bool whole = own && state->left >= sizeof state->head && checksum_fits(state->file, state->left) &&
                 get(state, &state->head, sizeof state->head) &&
                 !memcmp(state->head.magic, STATE_MAGIC, sizeof state->head.magic);
    if (!whole)
        ht_error_input(error, path, 0,
                       own ? "expected a state with a matching checksum, found another file, or a damaged one"
                           : "expected a state file of this user with a single name");
    if (!whole || check_head(state, log, error)) {
        follow_state_close(state);
        return NULL;
    }
    const struct head *head = &state->head;
    *position = (struct follow_position){.time_unit_ns = head->time_unit_ns,
                                         .level = (int)head->level,
                                         .clock_pair = head->clock_pair,
                                         .trace = {head->offset, head->next_event},
                                         .fork_file_bytes = head->fork_file_bytes,
                                         .has_holes = head->has_holes != 0,
                                         .horizon = head->horizon};
    return state;
}

void follow_state_close(struct follow_state *state) {
    if (!state) return;
    if (state->file) fclose(state->file);
    free(state->taken);
    free(state->path);
    free(state);
}
