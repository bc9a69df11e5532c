// SPDX-License-Identifier: Apache-2.0
// A page is copied when the program writes one of its parts or the allocator writes into it. Regions have rates, classes of parts
// have weights, kinds of pages a hazard of the allocator's: those that make the pages' states likely, by expectation maximization
// of Poisson counts. What many pages do not tell apart stays as it is usual: all classes alike, all regions alike.
#include "write_model.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "group_trace.h"
#include "random_numbers.h"

enum {
    ROUNDS = 100,
    LEARNED_FROM_MAX = 8,  // processes: more would only take time
    RATE_ROUNDS = 20,      // for those that the classes were not learned from
    FAR_PAGES = 8,
    PAIRS_MIN = 100
};

// In writes: so many of them are as good as what is usual.
static const double USUAL_CLASS = 5, USUAL_REGION = 10;
static const double HAZARD_START = 0.05, ALLOCATOR_START = 0.5, ALLOCATOR_MOST = 9, HAZARD_LEAST = 1e-9;
static const double CLUSTER_LEAST = 1.5, CLUSTER_UNKNOWN = 3, ACROSS_MOST = 0.95;

// The sum of the page's hazards, without the allocator's.
static double page_hazard(const struct ht_write_model *model, const struct ht_write_fit *fit,
                          const struct ht_classed_parts *classed, size_t page) {
    const uint32_t *first = classed->parts.first;
    double sum = 0;
    for (uint32_t i = first[page]; i < first[page + 1]; i++) sum += model->weight[classed->class[i]];
    return fit->rate[page / HT_REGION_PAGES] * sum;
}

// Those of all pages, with the allocator's. NULL for want of memory.
static double *page_hazards(const struct ht_write_model *model, const struct ht_write_fit *fit,
                            const struct ht_classed_parts *classed) {
    double *hazards = malloc((classed->pages->pages + 1) * sizeof *hazards);
    for (size_t q = 0; hazards && q < classed->pages->pages; q++)
        hazards[q] = page_hazard(model, fit, classed, q) + fit->allocator[classed->parts.kind[q]];
    return hazards;
}

// The other page on which a block of less than a page lies; its own if there is none.
static size_t other_page(const struct ht_inherited_pages *pages, uint32_t block, size_t page) {
    if (pages->bytes[block] >= pages->page_bytes) return page;
    uint64_t last = (ht_block_start(pages, block) + pages->bytes[block] - 1) / pages->page_bytes;
    size_t other = pages->page[block] == page ? (size_t)last : pages->page[block];
    return other < pages->pages ? other : page;
}

// What others than this hazard do to the page: the chance that they copy it, where that is known to have happened.
static double by_others(const struct ht_classed_parts *classed, const double *hazards, size_t page,
                        double own) {
    if (classed->parts.kind[page] == HT_PAGE_UNKNOWN) return 1;
    return -expm1(-fmax(hazards[page] - own, 0));
}

// The chance that a part was written, given the states of the pages that its block lies on: one that crosses from one page to
// the next is written on both or on none.
static double part_chance(const struct ht_write_model *model, const struct ht_write_fit *fit,
                          const struct ht_classed_parts *classed, const double *hazards, size_t page,
                          uint32_t part) {
    uint32_t block = classed->parts.block[part];
    size_t other = other_page(classed->pages, block, page);
    bool crosses = other != page;
    if (!ht_page_copied(classed, page)) return 0;
    if (crosses && !ht_page_copied(classed, other) && classed->parts.kind[other] != HT_PAGE_UNKNOWN) return 0;
    double own = ht_part_hazard(model, fit, classed, page, part), chance = -expm1(-own);
    double others = by_others(classed, hazards, page, own);
    if (crosses) others *= by_others(classed, hazards, other, own);
    return chance > 0 ? chance / (chance + (1 - chance) * others) : 0;
}

// ---- learning ----

struct learner {
    struct ht_write_fit *fit;
    struct ht_classed_parts classed;
    double *written, *usual;  // of each region: writes, and how many there would be at rate 1
};

struct tally {
    double *written, *usual;  // of each class: writes, and how many there would be at weight 1
};

static size_t regions_of(const struct ht_inherited_pages *pages) {
    return pages->pages / HT_REGION_PAGES + 1;
}

// So many writes of a hazard, where it was written.
static double writes_of(double chance, double hazard) {
    return hazard > HAZARD_LEAST ? chance * hazard / -expm1(-hazard) : chance;
}

static void blame_page(const struct ht_write_model *model, struct learner *learner, const double *hazards,
                       size_t q, struct tally *tally) {
    const struct ht_classed_parts *classed = &learner->classed;
    const uint32_t *first = classed->parts.first;
    size_t region = q / HT_REGION_PAGES;
    for (uint32_t i = first[q]; i < first[q + 1]; i++) {
        // A part of two pages counts at the first.
        if (classed->pages->page[classed->parts.block[i]] != q &&
            classed->pages->bytes[classed->parts.block[i]] < classed->pages->page_bytes)
            continue;
        uint16_t class = classed->class[i];
        double hazard = ht_part_hazard(model, learner->fit, classed, q, i);
        double writes = writes_of(part_chance(model, learner->fit, classed, hazards, q, i), hazard);
        tally->written[class] += writes;
        tally->usual[class] += learner->fit->rate[region];
        learner->written[region] += writes;
        learner->usual[region] += model->weight[class];
    }
}

static void learn_allocator(struct ht_write_fit *fit, const struct ht_classed_parts *classed,
                            const double *hazards) {
    double written[HT_PAGE_KINDS] = {0}, pages[HT_PAGE_KINDS] = {0};
    for (size_t q = 0; q < classed->pages->pages; q++) {
        uint8_t kind = classed->parts.kind[q];
        double hazard = fit->allocator[kind], chance = -expm1(-hazard);
        if (!ht_page_tells(classed, q)) continue;
        pages[kind]++;
        if (!ht_page_copied(classed, q) || chance <= 0) continue;
        written[kind] +=
            writes_of(chance / (chance + (1 - chance) * by_others(classed, hazards, q, hazard)), hazard);
    }
    for (int k = HT_PAGE_HOLED; k <= HT_PAGE_MET; k++)
        fit->allocator[k] = fmin(written[k] / (pages[k] + 1), ALLOCATOR_MOST);
}

// One round: blames what was copied on parts, regions and the allocator, as the round before left them.
static bool blame(const struct ht_write_model *model, struct learner *learner, struct tally *tally) {
    const struct ht_classed_parts *classed = &learner->classed;
    struct ht_write_fit *fit = learner->fit;
    size_t regions = regions_of(classed->pages);
    double *hazards = page_hazards(model, fit, classed), written = 0, usual = 0;
    if (!hazards) return false;
    memset(learner->written, 0, regions * sizeof *learner->written);
    memset(learner->usual, 0, regions * sizeof *learner->usual);
    for (size_t q = 0; q < classed->pages->pages; q++)
        if (ht_page_tells(classed, q)) blame_page(model, learner, hazards, q, tally);
    learn_allocator(fit, classed, hazards);
    free(hazards);
    for (size_t i = 0; i < regions; i++) {
        written += learner->written[i];
        usual += learner->usual[i];
    }
    double rate = usual > 0 ? fmax(written / usual, HAZARD_LEAST) : HAZARD_START;
    for (size_t i = 0; i < regions; i++)
        fit->rate[i] = (learner->written[i] + USUAL_REGION) / (learner->usual[i] + USUAL_REGION / rate);
    return true;
}

static void weigh(struct ht_write_model *model, const struct tally *tally) {
    for (uint32_t c = 0; c < ht_part_classes(&model->classes); c++)
        model->weight[c] = (tally->written[c] + USUAL_CLASS) / (tally->usual[c] + USUAL_CLASS);
}

static bool start(struct learner *learner) {
    size_t regions = regions_of(learner->classed.pages);
    double *room = calloc(2 * regions, sizeof *room);
    learner->fit->rate = malloc(regions * sizeof *learner->fit->rate);
    if (!room || !learner->fit->rate) return false;
    learner->written = room;
    learner->usual = room + regions;
    for (size_t i = 0; i < regions; i++) learner->fit->rate[i] = HAZARD_START;
    learner->fit->allocator[HT_PAGE_HOLED] = learner->fit->allocator[HT_PAGE_MET] = ALLOCATOR_START;
    return true;
}

static bool learn(struct ht_write_model *model, struct learner *learner, size_t learners, int rounds,
                  bool weighs) {
    uint32_t classes = ht_part_classes(&model->classes);
    double *room = calloc(2 * (size_t)classes, sizeof *room);
    bool good = room != NULL;
    for (int round = 0; good && round < rounds; round++) {
        struct tally tally = {room, room + classes};
        memset(room, 0, 2 * (size_t)classes * sizeof *room);
        for (size_t p = 0; good && p < learners; p++) good = blame(model, &learner[p], &tally);
        if (weighs && round) weigh(model, &tally);
    }
    free(room);
    return good;
}

// ---- clusters ----

// Pairs of pages of one distance.
struct pairs {
    double count, both_clean, expected, hazard, parts;
};

static void count_pairs(const struct learner *learner, const double *hazards, size_t apart,
                        struct pairs *pairs) {
    const struct ht_classed_parts *classed = &learner->classed;
    const struct ht_page_parts *parts = &classed->parts;
    for (size_t one = 0; one + apart < classed->pages->pages; one++) {
        size_t two = one + apart;
        if (parts->kind[one] > HT_PAGE_HOLED || parts->kind[two] > HT_PAGE_HOLED) continue;
        if (!ht_page_tells(classed, one) || !ht_page_tells(classed, two) ||
            !ht_pages_consecutive(parts, one, two))
            continue;
        pairs->both_clean += !ht_page_copied(classed, one) && !ht_page_copied(classed, two);
        pairs->expected += exp(-hazards[one] - hazards[two]);
        pairs->hazard += (hazards[one] + hazards[two]) / 2;
        pairs->parts +=
            (parts->first[one + 1] - parts->first[one] + parts->first[two + 1] - parts->first[two]) / 2.0;
        pairs->count++;
    }
}

// Clusters of writes that begin at a rate r a part and are L parts long leave a page of n parts clean with exp(-r(n + L - 1)), and
// two neighbours with exp(-r(2n + L - 1)): the more often, the longer clusters are. What far pages have in common, too, is a
// region's way and no cluster.
static bool learn_cluster(struct ht_write_model *model, const struct learner *learner, size_t learners) {
    struct pairs near = {0}, far = {0};
    for (size_t p = 0; p < learners; p++) {
        double *hazards = page_hazards(model, learner[p].fit, &learner[p].classed);
        if (!hazards) return false;
        count_pairs(&learner[p], hazards, 1, &near);
        count_pairs(&learner[p], hazards, FAR_PAGES, &far);
        free(hazards);
    }
    model->cluster = CLUSTER_UNKNOWN;
    if (near.both_clean < PAIRS_MIN || far.both_clean < PAIRS_MIN || near.hazard <= 0) return true;
    double across = log(near.both_clean / near.expected) - log(far.both_clean / far.expected);
    across += sqrt(1 / near.both_clean + 1 / far.both_clean);  // chance could hide so much
    double share = across * near.count / near.hazard;
    share = share < 0 ? 0 : share > ACROSS_MOST ? ACROSS_MOST : share;
    model->cluster = fmax(1 + near.parts / near.count * share / (1 - share), CLUSTER_LEAST);
    return true;
}

// ---- all ----

static void learner_free(struct learner *learner) {
    ht_classed_parts_free(&learner->classed);
    free(learner->written);
}

static bool learn_classes(struct ht_write_model *model, struct learner *learner, size_t learners) {
    uint32_t *often = NULL;
    bool good = true;
    for (size_t p = 0; good && p < learners; p++) {
        learner[p].fit = &model->fit[p * model->processes / learners];
        learner[p].classed.pages = &learner[p].fit->pages;
        good = ht_page_parts_make(learner[p].classed.pages, &learner[p].classed.parts) &&
               start(&learner[p]) && ht_sizes_count(&learner[p].classed, &often);
    }
    good = good && ht_size_classes_choose(&model->classes, often);
    free(often);
    for (size_t p = 0; good && p < learners; p++)
        good = ht_part_classes_give(&model->classes, &learner[p].classed);
    uint32_t classes = ht_part_classes(&model->classes);
    if (good) model->weight = malloc(classes * sizeof *model->weight);
    for (uint32_t c = 0; good && model->weight && c < classes; c++) model->weight[c] = 1;
    return good && model->weight && learn(model, learner, learners, ROUNDS, true) &&
           learn_cluster(model, learner, learners);
}

static bool fit_rates(struct ht_write_model *model, struct ht_write_fit *fit) {
    struct learner learner = {.fit = fit, .classed = {.pages = &fit->pages}};
    bool good = ht_page_parts_make(&fit->pages, &learner.classed.parts) && start(&learner) &&
                ht_part_classes_give(&model->classes, &learner.classed) &&
                learn(model, &learner, 1, RATE_ROUNDS, false);
    learner_free(&learner);
    return good;
}

struct ht_write_model *ht_write_model_make(const struct ht_inherited_pages *pages, size_t processes) {
    struct ht_write_model *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->fit = calloc(processes + 1, sizeof *model->fit);
    model->processes = processes;
    for (size_t p = 0; model->fit && p < processes; p++) model->fit[p].pages = pages[p];
    struct learner learner[LEARNED_FROM_MAX] = {{0}};
    size_t learners = processes < LEARNED_FROM_MAX ? processes : LEARNED_FROM_MAX;
    bool good = model->fit && learn_classes(model, learner, learners);
    for (size_t p = 0; p < learners; p++) learner_free(&learner[p]);
    for (size_t p = 0; good && p < processes; p++)
        if (!model->fit[p].rate) good = fit_rates(model, &model->fit[p]);
    if (good) return model;
    ht_write_model_free(model);
    return NULL;
}

void ht_write_model_free(struct ht_write_model *model) {
    if (!model) return;
    for (size_t p = 0; model->fit && p < model->processes; p++) free(model->fit[p].rate);
    free(model->classes.exact);
    free(model->weight);
    free(model->fit);
    free(model);
}

double ht_write_model_cluster(const struct ht_write_model *model) { return model->cluster; }

struct draw {
    const struct ht_write_model *model;
    const struct ht_write_fit *fit;
    const struct ht_classed_parts *classed;
    const double *hazards;  // of pages
    double cluster;         // blocks in order of birth that are written together; 1: each for itself
    struct ht_random random;
    uint8_t *written;  // of each part
    struct ht_written_part *part;
    size_t count, room;
};

static double uniform(struct draw *draw) { return (double)(ht_random_next(&draw->random) >> 11) * 0x1p-53; }

static bool put(struct draw *draw, uint32_t block, uint64_t offset) {
    if (draw->count == draw->room) {
        size_t room = draw->room ? 2 * draw->room : 4096;
        struct ht_written_part *part = realloc(draw->part, room * sizeof *part);
        if (!part) return false;
        draw->part = part;
        draw->room = room;
    }
    draw->part[draw->count++] = (struct ht_written_part){block, offset};
    return true;
}

static bool crosses(const struct draw *draw, size_t q, uint32_t part) {
    const struct ht_inherited_pages *pages = draw->classed->pages;
    uint32_t block = draw->classed->parts.block[part];
    uint64_t bytes = pages->bytes[block], start = ht_block_start(pages, block);
    return bytes < pages->page_bytes &&
           (pages->page[block] != q || (start + bytes - 1) / pages->page_bytes != q);
}

// Draws the part of a block on its second page, once that on the first is drawn.
static uint32_t part_on(const struct draw *draw, size_t q, uint32_t block) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    uint32_t i = parts->first[q];
    while (i < parts->first[q + 1] && parts->block[i] != block) i++;
    return i;
}

// Blocks on two pages, which both tell of them.
static void draw_crossing(struct draw *draw) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    const struct ht_inherited_pages *pages = draw->classed->pages;
    for (size_t q = 0; q + 1 < pages->pages; q++) {
        if (!ht_page_copied(draw->classed, q)) continue;
        for (uint32_t i = parts->first[q]; i < parts->first[q + 1]; i++) {
            uint32_t block = parts->block[i];
            if (pages->page[block] != q || !crosses(draw, q, i)) continue;
            double chance = part_chance(draw->model, draw->fit, draw->classed, draw->hazards, q, i);
            if (uniform(draw) >= chance) continue;
            uint32_t other = part_on(draw, q + 1, block);
            draw->written[i] = 1;
            if (other < parts->first[q + 2]) draw->written[other] = 1;
        }
    }
}

// So many of the writes of a page of so many parts begin a cluster.
static double begins(const struct draw *draw, uint32_t parts) { return parts / (parts + draw->cluster - 1); }

// The page's other parts, each with its hazard. Where nothing explains the copy yet, one of them or the allocator at least: one
// after the other, with its chance given that none before it was written.
static void draw_page(struct draw *draw, size_t q) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    uint32_t from = parts->first[q], end = parts->first[q + 1], last = UINT32_MAX;
    double hazard = draw->fit->allocator[parts->kind[q]], share = begins(draw, end - from);
    bool explained = memchr(draw->written + from, 1, end - from) != NULL;
    for (uint32_t i = from; i < end; i++)
        if (!crosses(draw, q, i))
            hazard += share * ht_part_hazard(draw->model, draw->fit, draw->classed, q, i);
    double by_allocator = -expm1(-draw->fit->allocator[parts->kind[q]]);
    if (!explained && hazard > 0 && uniform(draw) < by_allocator / -expm1(-hazard)) explained = true;
    hazard -= draw->fit->allocator[parts->kind[q]];
    for (uint32_t i = from; i < end; i++) {
        if (crosses(draw, q, i)) continue;
        double own = share * ht_part_hazard(draw->model, draw->fit, draw->classed, q, i),
               chance = -expm1(-own);
        if (!explained && hazard > own) chance /= -expm1(-hazard);
        else if (!explained) chance = 1;
        hazard -= own;
        last = i;
        if (uniform(draw) >= chance) continue;
        draw->written[i] = 1;
        explained = true;
    }
    if (!explained && last != UINT32_MAX) draw->written[last] = 1;
    else if (!explained && from < end) draw->written[from] = 1;  // blocks that cross are all that there is
}

// What was born after a written block is written, too, as far as a cluster reaches on the page.
static void spread(struct draw *draw, size_t q) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    double go_on = 1 - 1 / draw->cluster;
    for (uint32_t i = parts->first[q]; i < parts->first[q + 1]; i++) {
        if (draw->written[i] != 1) continue;
        for (uint32_t k = i + 1; k < parts->first[q + 1] && uniform(draw) < go_on; k++) draw->written[k] |= 2;
    }
}

static bool put_page(struct draw *draw, size_t q) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    const struct ht_inherited_pages *pages = draw->classed->pages;
    for (uint32_t i = parts->first[q]; i < parts->first[q + 1]; i++) {
        uint32_t block = parts->block[i];
        uint64_t offset =
            pages->page[block] == q ? 0 : (uint64_t)q * pages->page_bytes - ht_block_start(pages, block);
        if (draw->written[i] && !put(draw, block, offset)) return false;
    }
    return true;
}

// Copied pages that lie in one block with all their bytes tell themselves.
static bool put_filled_pages(struct draw *draw) {
    const struct ht_inherited_pages *pages = &draw->fit->pages;
    for (size_t i = 0; i < pages->blocks; i++) {
        if (pages->ended[i] || pages->bytes[i] < pages->page_bytes) continue;
        uint64_t start = ht_block_start(pages, i), end = start + pages->bytes[i];
        uint64_t q = (start + pages->page_bytes - 1) / pages->page_bytes;
        for (; (q + 1) * pages->page_bytes <= end && q < pages->pages; q++)
            if (ht_page_copied(draw->classed, q) && !put(draw, (uint32_t)i, q * pages->page_bytes - start))
                return false;
    }
    return true;
}

static bool draw_all(struct draw *draw) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    size_t pages = draw->classed->pages->pages;
    draw->written = calloc(parts->first[pages] + 1, 1);
    bool good = draw->written && put_filled_pages(draw);
    if (good) draw_crossing(draw);
    for (size_t q = 0; good && q < pages; q++) {
        if (!ht_page_copied(draw->classed, q) || !ht_page_tells(draw->classed, q)) continue;
        draw_page(draw, q);
        spread(draw, q);
        good = put_page(draw, q);
    }
    free(draw->written);
    return good;
}

static const struct ht_write_fit *fit_of(const struct ht_write_model *model,
                                         const struct ht_inherited_pages *pages) {
    for (size_t i = 0; i < model->processes; i++) {
        const struct ht_inherited_pages *known = &model->fit[i].pages;
        if (known->page == pages->page && known->state == pages->state && known->ended == pages->ended)
            return &model->fit[i];
    }
    return NULL;
}

bool ht_written_parts_draw(const struct ht_write_model *model, const struct ht_inherited_pages *pages,
                           enum ht_write_clusters clusters, uint64_t seed, struct ht_written_part **parts,
                           size_t *count) {
    struct ht_classed_parts classed = {.pages = pages};
    struct draw draw = {.model = model, .fit = fit_of(model, pages), .classed = &classed, .random = {seed}};
    draw.cluster = clusters == HT_WRITES_TOGETHER ? model->cluster : 1;
    assert(draw.fit);
    bool good = ht_page_parts_make(pages, &classed.parts) && ht_part_classes_give(&model->classes, &classed);
    double *hazards = good ? page_hazards(model, draw.fit, &classed) : NULL;
    draw.hazards = hazards;
    good = hazards && draw_all(&draw);
    free(hazards);
    ht_classed_parts_free(&classed);
    if (!good) free(draw.part);
    *parts = good ? draw.part : NULL;
    *count = good ? draw.count : 0;
    return good;
}
