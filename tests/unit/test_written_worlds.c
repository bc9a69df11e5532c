// SPDX-License-Identifier: Apache-2.0
// Synthetic services whose writes are known. A heap is laid out as glibc does, in order of birth with holes, and a second time
// with the blocks of each size class together. From the pages of the one that four workers copied it is drawn what they wrote; the
// pages of the other that this copies are compared with those that the true writes copy.
#include "unit_support.h"

#include <math.h>
#include <string.h>

#include "group_snapshot.h"
#include "group_trace.h"
#include "write_model.h"

enum { PAGE = 4096, WORKERS = 4, BIRTHS = 120000, BIRTHS_THOROUGH = 400000, CLASSES = 400, BINS = 8192 };

enum sizes {
    OBJECTS,  // of an interpreter that counts references
    ARENAS,   // heads of values in arenas of 4,080 bytes, strings beside them
    ANY       // of any size, in long runs
};
enum writes {
    APART,    // each block for itself
    RECORDS,  // all blocks of a record
    PARTLY,   // a third of a record's blocks
    SERVED,   // a record's objects, few of its tables
    HEADS,    // by class
    HOT,      // a tenth of the heap much more than the rest
};

struct world {
    const char *name;
    enum sizes sizes;
    enum writes writes;
    double level, freed;
    double allocator;  // chance that the allocator writes into a hole
    double apart,
        together;  // the errors that are allowed: apart lies no higher, together no lower; percent of the group
};

struct block {
    uint64_t size, place[2];
    uint32_t record, kind;
    bool live;
};

struct free_list {
    uint64_t *place;
    size_t count, room;
};

struct heap {
    struct block *block;
    size_t blocks;
    uint64_t end[2];
    struct free_list bin[BINS];
    struct {
        uint64_t size, next, end;
        struct free_list freed;
    } class[CLASSES];
    uint64_t random;
};

static double uniform(uint64_t *random) { return (double)(unit_random(random) >> 11) * 0x1p-53; }

static void push(struct free_list *list, uint64_t place) {
    if (list->count == list->room) {
        list->room = list->room * 2 + 16;
        list->place = realloc(list->place, list->room * sizeof *list->place);
        assert_non_null(list->place);
    }
    list->place[list->count++] = place;
}

static uint64_t chunk_of(uint64_t size) {
    uint64_t bytes = (size + 8 + 15) / 16 * 16;
    return bytes < 32 ? 32 : bytes;
}

static uint64_t place_in_order(struct heap *heap, uint64_t size) {
    uint64_t chunk = chunk_of(size);
    struct free_list *bin = &heap->bin[chunk / 16 % BINS];
    if (bin->count) return bin->place[--bin->count];
    heap->end[0] += chunk;
    return heap->end[0] - chunk;
}

static size_t class_number(struct heap *heap, uint64_t size) {
    uint64_t step = 16;
    while (size > step * 8) step *= 2;
    size = (size + step - 1) / step * step;
    size_t k = 0;
    while (heap->class[k].size && heap->class[k].size != size) k++;
    assert_true(k + 1 < CLASSES);
    heap->class[k].size = size;
    return k;
}

static uint64_t place_by_class(struct heap *heap, uint64_t size) {
    size_t k = class_number(heap, size);
    if (heap->class[k].freed.count) return heap->class[k].freed.place[--heap->class[k].freed.count];
    size = heap->class[k].size;
    if (heap->class[k].next + size > heap->class[k].end) {
        heap->class[k].next = heap->end[1];
        heap->end[1] += (size * 8 < 4 * PAGE ? 4 * PAGE : size * 8 + PAGE - 1) / PAGE * PAGE;
        heap->class[k].end = heap->end[1];
    }
    heap->class[k].next += size;
    return heap->class[k].next - size;
}

static void free_block(struct heap *heap, struct block *block) {
    if (!block->live) return;
    block->live = false;
    push(&heap->bin[chunk_of(block->size) / 16 % BINS], block->place[0]);
    push(&heap->class[class_number(heap, block->size)].freed, block->place[1]);
}

static void give_size(struct block *block, enum sizes sizes, uint64_t *random) {
    static const struct {
        double share;
        uint64_t least, range;
    } kind[3][7] = {
        [OBJECTS] = {{.35, 50, 40},
                     {.2, 32, 1},
                     {.15, 72, 1},
                     {.1, 56, 1},
                     {.08, 64, 1},
                     {.06, 232, 1},
                     {1, 100, 900}},
        [ARENAS] = {{.012, 4080, 1}, {.588, 10, 30}, {.3, 24, 40}, {1, 40, 800}},
        [ANY] = {{.6, 16, 100}, {.35, 100, 500}, {.045, 600, 4000}, {1, 5000, 60000}},
    };
    double drawn = uniform(random);
    while (drawn >= kind[sizes][block->kind].share) drawn -= kind[sizes][block->kind++].share;
    block->size = kind[sizes][block->kind].least + unit_random(random) % kind[sizes][block->kind].range;
}

static struct heap *heap_make(const struct world *world, uint64_t random) {
    struct heap *heap = calloc(1, sizeof *heap);
    assert_non_null(heap);
    *heap =
        (struct heap){.blocks = unit_thorough() ? BIRTHS_THOROUGH : BIRTHS, .end = {16, 0}, .random = random};
    heap->block = calloc(heap->blocks, sizeof *heap->block);
    assert_non_null(heap->block);
    uint64_t record = 0, left = 0;
    for (size_t i = 0; i < heap->blocks; i++) {
        struct block *block = &heap->block[i];
        if (!left--) {
            record++;
            left = world->sizes == ANY ? 499 : 14 + unit_random(&heap->random) % 50;
        }
        block->record = (uint32_t)record;
        give_size(block, world->sizes, &heap->random);
        block->place[0] = place_in_order(heap, block->size);
        block->place[1] = place_by_class(heap, block->size);
        block->live = true;
        size_t back = unit_random(&heap->random) % 200;
        if (uniform(&heap->random) < world->freed / 2 && back <= i) free_block(heap, &heap->block[i - back]);
    }
    for (size_t i = 0; i < heap->blocks; i++)
        if (uniform(&heap->random) < world->freed / 2) heap->block[i].live = false;
    return heap;
}

static void heap_free(struct heap *heap) {
    for (size_t i = 0; i < BINS; i++) free(heap->bin[i].place);
    for (size_t i = 0; i < CLASSES; i++) free(heap->class[i].freed.place);
    free(heap->block);
    free(heap);
}

static double chance_of(const struct world *world, const struct heap *heap, size_t i, bool served) {
    static const double by_kind[] = {0, .5, 0, 4, 0, 10, 0};
    const struct block *block = &heap->block[i];
    switch (world->writes) {
    case APART: return world->level;
    case RECORDS: return served;
    case PARTLY: return served / 3.0;
    case SERVED: return !served ? .001 : block->kind == 6 ? .1 : 1;
    case HEADS:
        return world->sizes == ARENAS ? (block->kind ? .0005 : world->level)
                                      : world->level * by_kind[block->kind];
    default: return (i / (heap->blocks / 40) % 10 == 3 ? 40 : .4) * world->level;
    }
}

// A byte for each block: 1: its first byte is written, 2: its last one.
static uint8_t *write_truly(const struct world *world, const struct heap *heap, uint64_t random) {
    uint8_t *written = calloc(heap->blocks, 1);
    assert_non_null(written);
    bool served = false;
    for (size_t i = 0; i < heap->blocks; i++) {
        const struct block *block = &heap->block[i];
        if (!i || block->record != block[-1].record) served = uniform(&random) < world->level;
        double chance = chance_of(world, heap, i, served);
        written[i] = uniform(&random) < chance;
        if (block->size >= 4080 && uniform(&random) < chance) written[i] |= 2;
    }
    return written;
}

static uint8_t *pages_make(const struct heap *heap, int layout) {
    uint8_t *pages = calloc(heap->end[layout] / PAGE + 2, 1);
    assert_non_null(pages);
    return pages;
}

static uint8_t *copied_by_truth(const struct heap *heap, int layout, const uint8_t *written) {
    uint8_t *copied = pages_make(heap, layout);
    for (size_t i = 0; i < heap->blocks; i++) {
        const struct block *block = &heap->block[i];
        if (block->live && written[i] & 1) copied[block->place[layout] / PAGE] = 1;
        if (block->live && written[i] & 2) copied[(block->place[layout] + block->size - 1) / PAGE] = 1;
    }
    return copied;
}

static double sum(const uint8_t *copied, uint64_t end) {
    double count = 0;
    for (size_t q = 0; q <= end / PAGE; q++) count += copied[q];
    return count;
}

// What the service inherits.
struct inherited {
    uint64_t *bytes;
    uint32_t *page, *index;
    uint16_t *offset;
    uint8_t *ended, *holes;
    size_t blocks;
};

static void inherited_make(const struct heap *heap, struct inherited *in) {
    *in = (struct inherited){calloc(heap->blocks, 8),
                             calloc(heap->blocks, 4),
                             calloc(heap->blocks, 4),
                             calloc(heap->blocks, 2),
                             calloc(heap->blocks, 1),
                             pages_make(heap, 0),
                             0};
    uint8_t *taken = calloc(heap->end[0] / 16 + 1, 1);
    assert_true(in->bytes && in->page && in->index && in->offset && in->ended && taken);
    for (size_t i = 0; i < heap->blocks; i++) {
        const struct block *block = &heap->block[i];
        if (!block->live) continue;
        in->index[in->blocks] = (uint32_t)i;
        in->bytes[in->blocks] = block->size;
        in->page[in->blocks] = (uint32_t)(block->place[0] / PAGE);
        in->offset[in->blocks++] = (uint16_t)(block->place[0] % PAGE);
        taken[block->place[0] / 16] = 1;
    }
    for (size_t i = 0; i < heap->blocks; i++)
        if (!taken[heap->block[i].place[0] / 16]) in->holes[heap->block[i].place[0] / PAGE] = 1;
    free(taken);
}

static void inherited_free(struct inherited *in) {
    free(in->bytes);
    free(in->page);
    free(in->index);
    free(in->offset);
    free(in->ended);
    free(in->holes);
}

// From copied pages to their states: the allocator writes into holes, and calls meet some of them.
static void set_states(const struct world *world, struct heap *heap, const struct inherited *in,
                       uint8_t *state) {
    for (size_t q = 0; q <= heap->end[0] / PAGE; q++) {
        bool called = in->holes[q] && uniform(&heap->random) < .1;
        bool copied = state[q] || called || (in->holes[q] && uniform(&heap->random) < world->allocator);
        state[q] = (uint8_t)((copied ? HT_PAGE_EXCLUSIVE : HT_PAGE_SHARED) | (called ? HT_PAGE_CALLED : 0));
    }
}

static double copied_by_draw(const struct heap *heap, const struct inherited *in,
                             const struct ht_write_model *model, const struct ht_inherited_pages *pages,
                             enum ht_write_clusters clusters) {
    struct ht_written_part *part;
    size_t count;
    assert_true(ht_written_parts_draw(model, pages, clusters, 7, &part, &count));
    uint8_t *copied = pages_make(heap, 1);
    for (size_t i = 0; i < count; i++)
        copied[(heap->block[in->index[part[i].block]].place[1] + part[i].offset) / PAGE] = 1;
    double pages_copied = sum(copied, heap->end[1]);
    free(copied);
    free(part);
    return pages_copied;
}

static void judge(const struct world *world, const struct heap *heap, const struct inherited *in,
                  const struct ht_inherited_pages *pages, double truth) {
    struct ht_write_model *model = ht_write_model_make(pages, WORKERS);
    assert_non_null(model);
    double all = (double)heap->end[1] / PAGE, error[2];
    for (int clusters = HT_WRITES_APART; clusters <= HT_WRITES_TOGETHER; clusters++) {
        double copied = 0;
        for (int w = 0; w < WORKERS; w++)
            copied += copied_by_draw(heap, in, model, &pages[w], (enum ht_write_clusters)clusters);
        error[clusters] = 100 * (copied - truth) / (all + truth);
    }
    if (unit_thorough())
        print_message(
            "%-32s copied %5.1f %%, apart %+6.1f, together %+6.1f (%% of the group), clusters of %.1f\n",
            world->name, 100 * truth / all / WORKERS, error[0], error[1], ht_write_model_cluster(model));
    if (error[0] > world->apart || error[1] < world->together || error[0] < -50 || error[1] > 80)
        fail_msg("%s: apart %+.1f, together %+.1f", world->name, error[0], error[1]);
    ht_write_model_free(model);
}

static void try_world(const struct world *world, uint64_t random) {
    struct heap *heap = heap_make(world, random);
    struct inherited in;
    inherited_make(heap, &in);
    struct ht_inherited_pages pages[WORKERS];
    uint8_t *state[WORKERS];
    double truth = 0;
    for (int w = 0; w < WORKERS; w++) {
        uint8_t *written = write_truly(world, heap, random * 100 + (uint64_t)w),
                *second = copied_by_truth(heap, 1, written);
        truth += sum(second, heap->end[1]);
        state[w] = copied_by_truth(heap, 0, written);
        set_states(world, heap, &in, state[w]);
        pages[w] = (struct ht_inherited_pages){
            in.blocks, in.bytes, in.page, in.offset, in.ended, heap->end[0] / PAGE + 1, state[w], PAGE};
        free(second);
        free(written);
    }
    judge(world, heap, &in, pages, truth);
    for (int w = 0; w < WORKERS; w++) free(state[w]);
    inherited_free(&in);
    heap_free(heap);
}

static void worlds(void **state) {
    (void)state;
    static const struct world world[] = {
        {"apart", OBJECTS, APART, .01, 0, 0, 4, -2},
        {"apart, holes", OBJECTS, APART, .03, .1, .1, 4, -2},
        {"apart, any size", ANY, APART, .02, .1, .3, 4, -2},
        {"apart, most pages", OBJECTS, APART, .08, .1, .1, 10, -2},
        {"records", OBJECTS, RECORDS, .1, 0, 0, 0, -6},
        {"records, holes", OBJECTS, RECORDS, .3, .1, .1, 0, -4},
        {"records, most", OBJECTS, RECORDS, .6, .1, .1, 0, -4},
        {"records partly", OBJECTS, PARTLY, .2, .1, .1, 0, 0},
        {"records' objects", OBJECTS, SERVED, .2, .1, .1, 0, 0},
        {"few records' objects", OBJECTS, SERVED, .05, .1, .1, 0, 0},
        {"heads", OBJECTS, HEADS, .05, 0, 0, 50, -7},
        {"heads, holes", OBJECTS, HEADS, .03, .1, .1, 40, -7},
        {"heads in arenas", ARENAS, HEADS, .3, 0, 0, 4, -3},
        {"heads in arenas, holes", ARENAS, HEADS, .6, .1, .1, 8, -3},
        {"a hot tenth", OBJECTS, HOT, .005, 0, 0, 4, -2},
        {"a hot tenth, any size", ANY, HOT, .01, .1, .1, 4, -2},
        {"long runs, any size", ANY, RECORDS, .07, .05, .1, 0, -8},
        {"long runs, many holes", ANY, RECORDS, .3, .4, .7, 4, -6},
    };
    for (size_t i = 0; i < sizeof world / sizeof *world; i += unit_stride(1))
        for (uint64_t seed = 1; seed <= (unit_thorough() ? 2 : 1); seed++)
            try_world(&world[i], 100 * seed + i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(worlds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
