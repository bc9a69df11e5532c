// SPDX-License-Identifier: Apache-2.0
#include "group_program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "all_bytes.h"
#include "grow.h"
#include "ops.h"
#include "sorted.h"

// Before the event of that number, and behind the last one at that time; UINT64_MAX: the other of the two decides.
struct ht_live_moment {
    uint64_t event, time_ns;
};

// Which blocks are live at moments of a trace, in the order of their births: what a fork hands on is named by that.

struct walk {
    struct ht_trace_reader *reader;
    const struct ht_live_moment *moments;
    size_t count, next;
    ht_live_visitor *visit;
    void *context;
    struct ht_error *error;
    struct ht_op_shape shape[256];
    struct ht_live_slot *slot;  // by slot; birth of UINT64_MAX: nothing is live in it
    size_t slots, room;
    struct ht_live_slot *live;  // of the moment before, while nothing has changed
    size_t lives, live_room;
    bool unchanged;
};

static int no_memory_for_blocks(const struct walk *walk) {
    return ht_error_memory(walk->error, ht_trace_path(walk->reader), "following the blocks of a group");
}

static int collect(struct walk *walk) {
    walk->lives = 0;
    for (size_t i = 0; i < walk->slots; i++) {
        if (walk->slot[i].birth == UINT64_MAX) continue;
        if (!ht_grow(&walk->live, &walk->live_room, walk->lives + 1, sizeof *walk->live))
            return no_memory_for_blocks(walk);
        walk->live[walk->lives] = walk->slot[i];
        walk->live[walk->lives++].slot = (uint32_t)i;
    }
    if (walk->lives) qsort(walk->live, walk->lives, sizeof *walk->live, ht_by_word);
    walk->unchanged = true;
    return 0;
}

// All moments that lie before this event. Returns 0, or -1 with error.
static int pass_moments(struct walk *walk, uint64_t event, uint64_t time_ns) {
    while (walk->next < walk->count) {
        const struct ht_live_moment *moment = &walk->moments[walk->next];
        if (event < moment->event && time_ns <= moment->time_ns) return 0;
        if (!walk->unchanged && collect(walk)) return -1;
        if (walk->visit(walk->context, walk->next++, walk->live, walk->lives, walk->error)) return -1;
    }
    return 0;
}

static int know_slot(struct walk *walk, uint32_t slot, uint64_t event, const struct ht_section_place *place) {
    if (!ht_slot_is_due(slot, event))
        return ht_error_input(walk->error, ht_trace_path(walk->reader), place->offset,
                              "expected slot numbers without a gap, found %u", slot);
    if (!ht_grow(&walk->slot, &walk->room, (size_t)slot + 1, sizeof *walk->slot))
        return no_memory_for_blocks(walk);
    while (walk->slots <= slot) walk->slot[walk->slots++] = (struct ht_live_slot){.birth = UINT64_MAX};
    return 0;
}

static int follow(struct walk *walk, const struct ht_section_place *place, const struct ht_events *events) {
    for (uint32_t i = 0; i < events->rows && walk->next < walk->count; i++) {
        uint64_t event = events->first_event + i, extra = events->extra[i];
        uint8_t op = events->op[i];
        const struct ht_op_shape *shape = &walk->shape[op];
        if (pass_moments(walk, event, events->time_ns[i])) return -1;
        if (!shape->slot || shape->query || shape->control) continue;
        if (know_slot(walk, events->slot[i], event, place)) return -1;
        struct ht_live_slot *slot = &walk->slot[events->slot[i]];
        unsigned function = ht_op_function(op);
        bool many = function == HT_CALLOC || function == HT_REALLOCARRAY;
        walk->unchanged = false;
        if (shape->ends_object) slot->birth = UINT64_MAX;
        else *slot = (struct ht_live_slot){event, many ? events->size[i] * extra : events->size[i], 0};
    }
    return 0;
}

static int walk_all(struct walk *walk) {
    struct ht_events events;
    for (size_t i = 0; i < ht_trace_sections(walk->reader) && walk->next < walk->count; i++) {
        const struct ht_section_place *place = ht_trace_section(walk->reader, i);
        if (place->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(walk->reader, i, &events, walk->error) || follow(walk, place, &events)) return -1;
    }
    return pass_moments(walk, UINT64_MAX, UINT64_MAX);
}

static int live_slots(struct ht_trace_reader *reader, const struct ht_live_moment *moments, size_t count,
                      ht_live_visitor *visit, void *context, struct ht_error *error) {
    struct walk walk = {.reader = reader,
                        .moments = moments,
                        .count = count,
                        .visit = visit,
                        .context = context,
                        .error = error};
    for (unsigned op = 0; op < 256; op++) walk.shape[op] = ht_op_shape((uint8_t)op);
    int failed = walk_all(&walk);
    free(walk.slot);
    free(walk.live);
    return failed;
}

// A curve; with many processes each point takes longer to read.
enum { POINTS_MAX = 100, POINTS_MIN = 20, LOOKS_MAX = 4000 };

// A file that is never empty, and that has nothing at 0.
enum { SLOTS_BEGIN_BYTES = 64 };

static int no_memory(struct ht_error *error) {
    return ht_error_memory(error, "replay", "the processes of the group");
}

static bool lives_at_end(const struct ht_group_program *program, const struct ht_group_process *process) {
    return process->end_ns >= program->end_ns;
}

// ---- meetings ----

static int earlier_first(const void *a, const void *b) {
    const struct ht_group_meeting *left = a, *right = b;
    if (left->time_ns != right->time_ns) return left->time_ns < right->time_ns ? -1 : 1;
    if (left->moment != right->moment) return left->moment < right->moment ? -1 : 1;
    return (int)left->written - (int)right->written;
}

// The recording's moments, and evenly between start and end.
static int choose_meetings(struct ht_group_program *program, struct ht_error *error) {
    uint32_t points = LOOKS_MAX / program->parts, moments = ht_group_moments(program->trace);
    points = points > POINTS_MAX ? POINTS_MAX : points < POINTS_MIN ? POINTS_MIN : points;
    program->meeting = calloc(points + 2 * moments, sizeof *program->meeting);
    if (!program->meeting) return no_memory(error);
    for (uint32_t i = 1; i <= points; i++)
        program->meeting[program->meetings++] = (struct ht_group_meeting){
            .time_ns = (uint64_t)((double)program->end_ns * i / points), .moment = HT_GROUP_NO_MOMENT};
    program->meeting[points - 1].time_ns = program->end_ns;
    for (uint32_t i = 0; i < 2 * moments; i++) {
        uint64_t at_ns = ht_group_moment(program->trace, i / 2)->time_ns;
        program->meeting[program->meetings++] = (struct ht_group_meeting){
            .time_ns = at_ns < program->end_ns ? at_ns : program->end_ns, .moment = i / 2, .written = i % 2};
    }
    qsort(program->meeting, program->meetings, sizeof *program->meeting, earlier_first);
    return 0;
}

// ---- stops ----

struct due {
    uint64_t time_ns, event;
    uint32_t is_meeting;  // a fork comes before a meeting at the same time, so that the child is there
    uint32_t number;
};

static int by_event(const void *a, const void *b) {
    const struct due *left = a, *right = b;
    if (left->event != right->event) return left->event < right->event ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

static int by_time(const void *a, const void *b) {
    const struct due *left = a, *right = b;
    if (left->time_ns != right->time_ns) return left->time_ns < right->time_ns ? -1 : 1;
    if (left->is_meeting != right->is_meeting) return left->is_meeting ? 1 : -1;
    return by_event(a, b);
}

// The order of forks is that of their events. A child's recording may begin late, after that of one that was forked later.
static uint32_t find_forks(const struct ht_group_program *program, uint32_t number, struct due *due) {
    uint32_t count = 0;
    for (uint32_t i = number + 1; i < program->parts; i++) {
        const struct ht_group_process *other = ht_group_process(program->trace, i);
        if (other->parent == number) due[count++] = (struct due){other->start_ns, other->fork_event, 0, i};
    }
    qsort(due, count, sizeof *due, by_event);
    for (uint32_t i = count; i > 1; i--)
        if (due[i - 1].time_ns < due[i - 2].time_ns) due[i - 2].time_ns = due[i - 1].time_ns;
    return count;
}

static uint32_t find_due(const struct ht_group_program *program, uint32_t number, struct due *due) {
    const struct ht_group_process *process = ht_group_process(program->trace, number);
    uint32_t count = find_forks(program, number, due);
    uint64_t end_ns = process->end_ns;
    if (count && due[count - 1].time_ns > end_ns) end_ns = due[count - 1].time_ns;
    for (uint32_t i = 0; i < program->meetings; i++) {
        uint64_t at_ns = program->meeting[i].time_ns;
        bool there =
            at_ns >= program->part[number].forked_ns && (at_ns <= end_ns || lives_at_end(program, process));
        if (there) due[count++] = (struct due){at_ns, UINT64_MAX, 1, i};
    }
    qsort(due, count, sizeof *due, by_time);
    return count;
}

static int choose_stops(struct ht_group_program *program, uint32_t number, struct ht_error *error) {
    struct ht_group_program_part *part = &program->part[number];
    uint64_t start_ns = ht_group_process(program->trace, number)->start_ns;
    size_t most = program->parts + program->meetings;
    struct due *due = malloc(most * sizeof *due);
    part->stops = malloc(most * sizeof *part->stops);
    part->form_stops = malloc(most * sizeof *part->form_stops);
    bool made = due && part->stops && part->form_stops;
    uint32_t count = made ? find_due(program, number, due) : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at_ns = due[i].time_ns > start_ns ? due[i].time_ns - start_ns : 0;
        struct ht_form_stop *stop = &part->form_stops[i];
        *stop = (struct ht_form_stop){.time_ns = at_ns, .event = HT_STOP_BY_TIME, .thread = HT_STOP_ANYWHERE};
        part->stops[i] =
            (struct ht_group_stop){due[i].is_meeting ? HT_GROUP_MEET : HT_GROUP_FORK, due[i].number, at_ns};
        if (due[i].is_meeting) continue;
        program->part[due[i].number].forked_ns = due[i].time_ns;
        const struct ht_group_process *child = ht_group_process(program->trace, due[i].number);
        stop->event = child->fork_event;
        stop->thread = child->fork_thread;
    }
    free(due);
    part->options.stops = part->form_stops;
    part->options.stops_count = count;
    return made ? 0 : no_memory(error);
}

// ---- slots ----

// The blocks that one process hands on to its children, and what each child has of its own at moments.
struct handing {
    struct ht_group_program *program;
    uint32_t *child;  // of each moment
};

uint32_t ht_group_program_slots(const struct ht_group_program_part *part, uint64_t inherited) {
    uint32_t slots = part->built.fd >= 0 ? part->built.form->slots : 0;
    for (uint64_t i = 0; i < inherited; i++)
        if (part->inherited_slots[i] >= slots) slots = part->inherited_slots[i] + 1;
    return slots;
}

static int put_parents(struct ht_group_program *program, uint32_t child, const struct ht_live_slot *live,
                       size_t count, struct ht_error *error) {
    struct ht_group_program_part *part = &program->part[child];
    const struct ht_group_process *process = ht_group_process(program->trace, child);
    if (count != process->inherited)
        return ht_error_input(error, ht_trace_path(part->reader), 0,
                              "expected process %" PRIu32
                              " to inherit the %zu blocks that its parent has when it "
                              "forks, found %" PRIu64,
                              process->pid, count, process->inherited);
    for (size_t i = 0; i < count; i++) {
        if (part->inherited_bytes[i] != live[i].bytes)
            return ht_error_input(error, ht_trace_path(part->reader), 0,
                                  "expected inherited block %zu of process %" PRIu32
                                  " to have its parent's %" PRIu64 " bytes, found %" PRIu64,
                                  i, process->pid, live[i].bytes, part->inherited_bytes[i]);
    }
    size_t slots = ht_group_program_slots(part, count), bytes = (slots + 15) / 16 * 16 * sizeof(uint32_t);
    uint32_t *parents = calloc(bytes ? bytes : 1, 1);
    if (!parents) return no_memory(error);
    for (size_t i = 0; i < count; i++) parents[part->inherited_slots[i]] = live[i].slot;
    part->parents_offset = program->slots_bytes;
    bool written = ht_write_at(program->slots_fd, parents, bytes, program->slots_bytes);
    program->slots_bytes += bytes;
    free(parents);
    return written ? 0 : ht_error_system(error, "replay", "shared memory for the slots of a group");
}

static int hand_on(void *context, size_t moment, const struct ht_live_slot *live, size_t count,
                   struct ht_error *error) {
    const struct handing *handing = context;
    return put_parents(handing->program, handing->child[moment], live, count, error);
}

static int hand_on_all(struct ht_group_program *program, uint32_t number, struct ht_error *error) {
    const struct ht_group_program_part *part = &program->part[number];
    struct handing handing = {program, malloc(program->parts * sizeof(uint32_t))};
    struct ht_live_moment *moments = malloc(program->parts * sizeof *moments);
    size_t count = 0;
    int failed = handing.child && moments ? 0 : no_memory(error);
    for (uint32_t i = 0; !failed && i < part->options.stops_count; i++) {
        if (part->stops[i].kind != HT_GROUP_FORK) continue;
        handing.child[count] = part->stops[i].number;
        moments[count++] = (struct ht_live_moment){part->form_stops[i].event, UINT64_MAX};
    }
    if (!failed && count) failed = live_slots(part->reader, moments, count, hand_on, &handing, error);
    free(handing.child);
    free(moments);
    return failed;
}

static int read_inherited(struct ht_group_program_part *part, uint64_t inherited, struct ht_error *error) {
    struct ht_events events;
    uint64_t found = 0;
    part->inherited_slots = calloc(inherited + 1, sizeof *part->inherited_slots);
    part->inherited_bytes = calloc(inherited + 1, sizeof *part->inherited_bytes);
    if (!part->inherited_slots || !part->inherited_bytes) return no_memory(error);
    for (size_t i = 0; i < ht_trace_sections(part->reader) && found < inherited; i++) {
        if (ht_trace_section(part->reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(part->reader, i, &events, error)) return -1;
        for (uint32_t k = 0; k < events.rows && found < inherited; k++) {
            if (ht_op_function(events.op[k]) != HT_INHERIT) break;
            part->inherited_slots[found] = events.slot[k];
            part->inherited_bytes[found++] = events.size[k];
        }
        if (found < events.first_event + events.rows) break;
    }
    if (found == inherited) return 0;
    return ht_error_input(error, ht_trace_path(part->reader), 0,
                          "expected %" PRIu64 " inherited blocks, found %" PRIu64, inherited, found);
}

// ---- pages ----

struct ending {
    uint8_t **ended;  // by moment
    uint64_t inherited;
};

// A realloc gives a block another birth, and perhaps another place: what it was is over.
static int find_ended(void *context, size_t moment, const struct ht_live_slot *live, size_t count,
                      struct ht_error *error) {
    const struct ending *ending = context;
    uint8_t *ended = malloc(ending->inherited + 1);
    if (!ended) return no_memory(error);
    memset(ended, 1, ending->inherited + 1);
    for (size_t i = 0; i < count; i++)
        if (live[i].birth < ending->inherited) ended[live[i].birth] = 0;
    ending->ended[moment] = ended;
    return 0;
}

static int read_pages(struct ht_group_program *program, uint32_t number, struct ht_error *error) {
    struct ht_group_program_part *part = &program->part[number];
    const struct ht_group_process *process = ht_group_process(program->trace, number);
    uint8_t *ended[HT_GROUP_MOMENTS_MAX] = {NULL};
    struct ht_live_moment moments[HT_GROUP_MOMENTS_MAX];
    uint32_t moment[HT_GROUP_MOMENTS_MAX];
    size_t count = 0;
    if (process->parent == HT_GROUP_NO_PARENT || !process->inherited) return 0;
    if (ht_group_layout_read(program->trace, number, &part->layout, error)) return -1;
    for (uint32_t i = 0; i < ht_group_moments(program->trace); i++) {
        uint64_t at_ns = ht_group_moment(program->trace, i)->time_ns;
        if (!ht_group_presence(program->trace, number, i)->there || at_ns < process->start_ns) continue;
        uint8_t *state = ht_group_page_states(program->trace, number, i, error);
        if (!state && error->status) return -1;
        if (!state) continue;
        part->pages[i].state = state;
        moment[count] = i;
        moments[count++] = (struct ht_live_moment){UINT64_MAX, at_ns - process->start_ns};
    }
    struct ending ending = {ended, process->inherited};
    if (count && live_slots(part->reader, moments, count, find_ended, &ending, error)) return -1;
    for (size_t i = 0; i < count; i++) {
        struct ht_inherited_pages *pages = &part->pages[moment[i]];
        *pages = (struct ht_inherited_pages){.blocks = part->layout.blocks,
                                             .bytes = part->inherited_bytes,
                                             .page = part->layout.page,
                                             .offset = part->layout.offset,
                                             .ended = ended[i],
                                             .pages = part->layout.pages,
                                             .page_bytes = ht_group_page_bytes(program->trace),
                                             .state = pages->state};
    }
    return 0;
}

static int learn_writes(struct ht_group_program *program, struct ht_error *error) {
    struct ht_inherited_pages *all = calloc(program->parts * HT_GROUP_MOMENTS_MAX, sizeof *all);
    size_t count = 0;
    if (!all) return no_memory(error);
    for (uint32_t i = 0; i < program->parts; i++)
        for (uint32_t k = 0; k < HT_GROUP_MOMENTS_MAX; k++)
            if (program->part[i].pages[k].state) all[count++] = program->part[i].pages[k];
    program->model = count ? ht_write_model_make(all, count) : NULL;
    free(all);
    return count && !program->model ? no_memory(error) : 0;
}

// ---- all ----

static int load_part(struct ht_group_program *program, uint32_t number, uint64_t memory_bytes, uint64_t seed,
                     uint64_t *held_bytes, struct ht_error *error) {
    struct ht_group_program_part *part = &program->part[number];
    const struct ht_group_process *process = ht_group_process(program->trace, number);
    part->reader = ht_group_member_open(program->trace, number, error);
    if (!part->reader || read_inherited(part, process->inherited, error)) return -1;
    part->options = (struct ht_form_options){.in_order = true,
                                             .of_group = true,
                                             .page_bytes = ht_group_page_bytes(program->trace),
                                             .initial_tid = process->pid,
                                             .seed = seed,
                                             .end_ns = process->end_ns - process->start_ns};
    if (choose_stops(program, number, error) ||
        ht_form_build(part->reader, ht_trace_path(part->reader), &part->options, &part->built, error))
        return -1;
    if (part->built.fd < 0) return 0;
    *held_bytes += part->built.mapped_bytes;
    if (*held_bytes <= memory_bytes) return 0;
    return ht_error_input(error, ht_trace_path(part->reader), 0,
                          "expected processes that can be held decoded in %" PRIu64
                          " MB of memory (--decoded-memory allows more), found more",
                          memory_bytes / 1000000);
}

int ht_group_program_load(struct ht_group_trace *trace, uint64_t memory_bytes, uint64_t seed,
                          struct ht_group_program *program, struct ht_error *error) {
    uint64_t held_bytes = 0;
    *program = (struct ht_group_program){.trace = trace, .parts = ht_group_processes(trace), .slots_fd = -1};
    program->part = calloc(program->parts, sizeof *program->part);
    if (!program->part) return no_memory(error);
    for (uint32_t i = 0; i < program->parts; i++) {
        program->part[i].built.fd = -1;
        program->part[i].forked_ns = ht_group_process(trace, i)->start_ns;
        uint64_t end_ns = ht_group_process(trace, i)->end_ns;
        if (end_ns > program->end_ns) program->end_ns = end_ns;
    }
    program->slots_fd = memfd_create("heaptape-slots", 0);
    program->slots_bytes = SLOTS_BEGIN_BYTES;
    if (program->slots_fd < 0 || ftruncate(program->slots_fd, (off_t)program->slots_bytes))
        return ht_error_system(error, "replay", "shared memory for the slots of a group");
    if (choose_meetings(program, error)) return -1;
    for (uint32_t i = 0; i < program->parts; i++)
        if (load_part(program, i, memory_bytes, seed, &held_bytes, error)) return -1;
    for (uint32_t i = 0; i < program->parts; i++)
        if (hand_on_all(program, i, error) || read_pages(program, i, error)) return -1;
    return learn_writes(program, error);
}

const struct ht_built_form *ht_group_program_largest(const struct ht_group_program *program) {
    const struct ht_built_form *largest = &program->part[0].built;
    for (uint32_t i = 1; i < program->parts; i++) {
        const struct ht_built_form *built = &program->part[i].built;
        bool starts = ht_group_process(program->trace, i)->parent == HT_GROUP_NO_PARENT && built->fd >= 0;
        if (starts && built->form->slots > largest->form->slots) largest = built;
    }
    return largest;
}

void ht_group_program_free(struct ht_group_program *program) {
    for (uint32_t i = 0; program->part && i < program->parts; i++) {
        struct ht_group_program_part *part = &program->part[i];
        if (part->built.state || part->built.fd >= 0) ht_form_free(&part->built);
        for (uint32_t k = 0; k < HT_GROUP_MOMENTS_MAX; k++) {
            free((void *)part->pages[k].state);
            free((void *)part->pages[k].ended);
        }
        ht_group_layout_free(&part->layout);
        free(part->form_stops);
        free(part->stops);
        free(part->inherited_slots);
        free(part->inherited_bytes);
        ht_trace_close(part->reader);
    }
    free(program->part);
    free(program->meeting);
    ht_write_model_free(program->model);
    if (program->slots_fd >= 0) close(program->slots_fd);
    *program = (struct ht_group_program){.slots_fd = -1};
}
