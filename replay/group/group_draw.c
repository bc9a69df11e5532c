// SPDX-License-Identifier: Apache-2.0
#include "group_draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "write_model.h"

const char *const ht_drawn_names[HT_DRAWN_KINDS] = {"none", "apart", "together", "given"};

static int no_memory(struct ht_error *error) {
    return ht_error_memory(error, "replay", "what the processes of the group wrote");
}

static uint32_t meeting_of(const struct ht_group_program *program, uint32_t moment) {
    uint32_t i = 0;
    while (program->meeting[i].moment != moment || !program->meeting[i].written) i++;
    return i;
}

// A page that was exclusive at an earlier moment was written then: what is drawn counts where it came later.
static bool is_later(const struct ht_group_program_part *part, uint32_t moment,
                     const struct ht_written_part *drawn) {
    const struct ht_inherited_pages *pages = &part->pages[moment];
    uint64_t page =
        pages->page[drawn->block] + (pages->offset[drawn->block] + drawn->offset) / pages->page_bytes;
    for (uint32_t earlier = 0; earlier < moment; earlier++) {
        const uint8_t *state = part->pages[earlier].state;
        if (state && page < pages->pages && (state[page] & HT_PAGE_STATE_BITS) == HT_PAGE_EXCLUSIVE)
            return false;
    }
    return true;
}

static int add_writes(const struct ht_group_program_part *part, uint32_t moment, uint32_t meeting,
                      const struct ht_written_part *drawn, size_t count, struct ht_group_write **writes,
                      uint32_t *had, struct ht_error *error) {
    struct ht_group_write *more = realloc(*writes, (*had + count + 1) * sizeof *more);
    if (!more) return no_memory(error);
    *writes = more;
    for (size_t i = 0; i < count; i++)
        if (is_later(part, moment, &drawn[i]))
            more[(*had)++] =
                (struct ht_group_write){part->inherited_slots[drawn[i].block], meeting, drawn[i].offset};
    return 0;
}

static int draw_part(const struct ht_group_program *program, uint32_t number, enum ht_drawn drawn,
                     uint64_t seed, struct ht_group_writes *writes, struct ht_error *error) {
    const struct ht_group_program_part *part = &program->part[number];
    enum ht_write_clusters clusters = drawn == HT_DRAWN_APART ? HT_WRITES_APART : HT_WRITES_TOGETHER;
    int failed = 0;
    for (uint32_t moment = 0; !failed && moment < ht_group_moments(program->trace); moment++) {
        const struct ht_inherited_pages *pages = &part->pages[moment];
        struct ht_written_part *parts = NULL;
        size_t count = 0;
        uint64_t own_seed = seed * 1000003 + number * 31 + moment;
        if (!pages->state) continue;
        if (!ht_written_parts_draw(program->model, pages, clusters, own_seed, &parts, &count)) {
            failed = no_memory(error);
        } else {
            failed = add_writes(part, moment, meeting_of(program, moment), parts, count,
                                &writes->write[number], &writes->count[number], error);
        }
        writes->parts_written += count;
        free(parts);
    }
    return failed;
}

const char *ht_group_given(void) { return getenv("HEAPTAPE_WRITTEN"); }

// Lines in the order of processes, sizes and numbers are found in one pass.
struct given {
    uint32_t part, next;
    uint64_t bytes, number;
};

static bool find_given(const struct ht_group_program *program, struct given *given, uint32_t part,
                       uint64_t bytes, uint64_t number, uint32_t *block) {
    const struct ht_group_program_part *of = &program->part[part];
    uint64_t blocks = ht_group_process(program->trace, part)->inherited;
    if (part != given->part || bytes != given->bytes || number < given->number)
        *given = (struct given){.part = part, .bytes = bytes};
    for (; given->next < blocks; given->next++) {
        if (of->inherited_bytes[given->next] != bytes) continue;
        *block = given->next;
        if (given->number == number) return true;
        given->number++;
    }
    return false;
}

static int read_given(const struct ht_group_program *program, struct ht_group_writes *writes,
                      struct ht_error *error) {
    const char *path = ht_group_given();
    FILE *file = fopen(path, "re");
    struct given given = {.part = UINT32_MAX};
    unsigned pid;
    unsigned long long bytes, number, offset;
    int failed = 0;
    if (!file) return ht_error_system(error, path, "what was written cannot be read");
    uint32_t moments = ht_group_moments(program->trace);
    uint32_t meeting = moments ? meeting_of(program, moments - 1) : program->meetings - 1;
    while (!failed && fscanf(file, "%u %llu %llu %llu", &pid, &bytes, &number, &offset) == 4) {
        uint32_t part = 0;
        struct ht_written_part one = {.offset = offset};
        while (part < program->parts && ht_group_process(program->trace, part)->pid != pid) part++;
        if (part == program->parts || offset >= bytes) continue;
        if (!find_given(program, &given, part, bytes, number, &one.block)) continue;
        failed = add_writes(&program->part[part], 0, meeting, &one, 1, &writes->write[part],
                            &writes->count[part], error);
        writes->parts_written++;
    }
    fclose(file);
    return failed;
}

int ht_group_draw(const struct ht_group_program *program, enum ht_drawn drawn, uint64_t seed,
                  struct ht_group_writes *writes, struct ht_error *error) {
    *writes = (struct ht_group_writes){.write = calloc(program->parts, sizeof *writes->write),
                                       .count = calloc(program->parts, sizeof *writes->count)};
    if (!writes->write || !writes->count) return no_memory(error);
    if (drawn == HT_DRAWN_GIVEN) return read_given(program, writes, error);
    if (drawn == HT_DRAWN_NOTHING || !program->model) return 0;
    for (uint32_t i = 0; i < program->parts; i++)
        if (draw_part(program, i, drawn, seed, writes, error)) return -1;
    return 0;
}

void ht_group_writes_free(const struct ht_group_program *program, struct ht_group_writes *writes) {
    for (uint32_t i = 0; writes->write && i < program->parts; i++) free(writes->write[i]);
    free(writes->write);
    free(writes->count);
    *writes = (struct ht_group_writes){0};
}

// On a page of their own.
static uint64_t exchanges_begin(const struct ht_group_program *program,
                                const struct ht_group_writes *writes) {
    uint64_t bytes = sizeof(struct ht_group_plan) + program->parts * sizeof(struct ht_group_part);
    for (uint32_t i = 0; i < program->parts; i++)
        bytes += program->part[i].options.stops_count * sizeof(struct ht_group_stop) +
                 writes->count[i] * sizeof(struct ht_group_write);
    return (bytes + HT_EXCHANGE_RSS_OFFSET - 1) / HT_EXCHANGE_RSS_OFFSET * HT_EXCHANGE_RSS_OFFSET;
}

static void fill_part(const struct ht_group_program *program, uint32_t number,
                      const struct ht_group_writes *writes, struct ht_group_plan *plan, uint64_t *end) {
    const struct ht_group_program_part *from = &program->part[number];
    const struct ht_group_process *process = ht_group_process(program->trace, number);
    struct ht_group_part *part = ht_group_parts(plan) + number;
    bool calls = from->built.fd >= 0 && from->built.form->operations;
    part->form_fd = calls ? from->built.fd : -1;
    part->slots = ht_group_program_slots(from, process->inherited);
    part->base_ns = process->start_ns;
    part->end_ns = process->end_ns - process->start_ns;
    part->lives = process->end_ns >= program->end_ns;
    part->parents_offset = from->parents_offset;
    part->stops = from->options.stops_count;
    part->stops_offset = *end;
    memcpy((char *)plan + *end, from->stops, part->stops * sizeof *from->stops);
    *end += part->stops * sizeof *from->stops;
    part->writes = writes->count[number];
    part->writes_offset = *end;
    if (part->writes)
        memcpy((char *)plan + *end, writes->write[number], part->writes * sizeof **writes->write);
    *end += part->writes * sizeof **writes->write;
    part->exchange_offset = exchanges_begin(program, writes) + (uint64_t)number * HT_EXCHANGE_RSS_OFFSET;
}

struct ht_group_plan *ht_group_plan_make(const struct ht_group_program *program, uint32_t root,
                                         const struct ht_group_writes *writes, int launcher_fd, int *fd,
                                         struct ht_error *error) {
    uint64_t bytes = exchanges_begin(program, writes) + (uint64_t)program->parts * HT_EXCHANGE_RSS_OFFSET,
             end = sizeof(struct ht_group_plan) + program->parts * sizeof(struct ht_group_part);
    *fd = memfd_create("heaptape-group", 0);
    struct ht_group_plan *plan = MAP_FAILED;
    if (*fd >= 0 && !ftruncate(*fd, (off_t)bytes))
        plan = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (plan == MAP_FAILED) {
        ht_error_system(error, "replay", "shared memory for the plan of a group");
        if (*fd >= 0) close(*fd);
        return NULL;
    }
    *plan = (struct ht_group_plan){.magic = HT_GROUP_MAGIC,
                                   .bytes = bytes,
                                   .parts = program->parts,
                                   .meetings = program->meetings,
                                   .root = root,
                                   .slots_fd = program->slots_fd,
                                   .launcher_fd = launcher_fd,
                                   .alive = 1};
    for (uint32_t i = 0; i < program->parts; i++) fill_part(program, i, writes, plan, &end);
    return plan;
}
