// SPDX-License-Identifier: Apache-2.0
// A page is copied when the program writes one of its parts or the allocator writes into its holes. Each class of parts has a
// hazard, each process a level, each kind of page a chance that the allocator wrote: those that make the pages' states likeliest
// (expectation maximization).
#include "write_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 200,
    LEAP_ROUNDS = 4,
    LEARNED_FROM_MAX = 8,  // processes: more would only take time
    LEVEL_ROUNDS = 10,
    FAR_PAGES = 8,
    PAIRS_MIN = 100,
    EVIDENCE_MAX = 1000000,  // parts on copied pages: more would only take time
    EVIDENCE_MIN = 1000,     // parts, without which pages that tell less are heard, too
    RARE = 10                // quiet parts are rare where holed pages have so many times more
};

static const double HAZARD_START = 0.05, HAZARD_LEAST = 1e-7, HAZARD_MOST = 9, LEVEL_LEAST = 1e-6;
static const double ALLOCATOR_START = 0.5, ALLOCATOR_MOST = 0.9999, ALLOCATOR_SELDOM = 0.25;
static const double UNSEEN = 1e-6;  // keeps the hazard of a class that no page shows
static const double ALIKE_PARTS =
    100;  // each class is learned as if so many parts had been written as sizes about it are
static const double LEAP_MOST = 30;  // rounds at once
static const double CLUSTER_LEAST = 1.5, CLUSTER_UNKNOWN = 3, ACROSS_MOST = 0.95;

double ht_page_hazard(const struct ht_write_model *model, const struct ht_write_fit *fit,
                      const struct ht_classed_parts *classed, size_t page) {
    const uint32_t *first = classed->parts.first;
    double sum = 0;
    for (uint32_t i = first[page]; i < first[page + 1]; i++) sum += model->hazard[classed->class[i]];
    return fit->level * sum;
}

// A process that is learned from.
struct learner {
    struct ht_write_fit *fit;
    struct ht_classed_parts classed;
    double *seen;  // of each class: its parts on pages that are evidence
    double pages_seen[HT_PAGE_KINDS];
};

// What the rounds keep of each class.
struct tally {
    double *blame;               // of the process at hand
    double *written, *expected;  // of all
    double *step;                // by which the last round changed the logarithm of its hazard
};

static bool is_evidence(const struct ht_write_model *model, const struct ht_classed_parts *classed,
                        size_t q) {
    return classed->parts.kind[q] <= model->evidence && q % model->stride == 0 && ht_page_tells(classed, q);
}

static void set_stride(struct ht_write_model *model, const struct learner *learner, size_t learners) {
    uint64_t parts = 0;
    model->stride = 1;
    for (size_t p = 0; p < learners; p++) {
        const struct ht_classed_parts *classed = &learner[p].classed;
        for (size_t q = 0; q < classed->pages->pages; q++)
            if (ht_page_copied(classed, q) && is_evidence(model, classed, q))
                parts += classed->parts.first[q + 1] - classed->parts.first[q];
    }
    model->stride = 1 + parts / EVIDENCE_MAX;
}

// As if one page more had stayed clean, so that where all were copied the least explanation of that is taken.
static bool count_seen(const struct ht_write_model *model, struct learner *learner) {
    const struct ht_classed_parts *classed = &learner->classed;
    const uint32_t *first = classed->parts.first;
    double pages = 0;
    free(learner->seen);
    learner->seen = calloc(ht_part_classes(&model->classes), sizeof *learner->seen);
    memset(learner->pages_seen, 0, sizeof learner->pages_seen);
    if (!learner->seen) return false;
    for (size_t q = 0; q < classed->pages->pages; q++) {
        if (!is_evidence(model, classed, q)) continue;
        for (uint32_t i = first[q]; i < first[q + 1]; i++) learner->seen[classed->class[i]]++;
        learner->pages_seen[classed->parts.kind[q]]++;
        pages++;
    }
    for (uint32_t c = 0; pages > 0 && c < ht_part_classes(&model->classes); c++)
        learner->seen[c] *= (pages + 1) / pages;
    return true;
}

static bool tally_make(struct tally *tally, uint32_t classes) {
    double *room = calloc(4 * (size_t)classes, sizeof *room);
    if (room)
        *tally = (struct tally){room, room + classes, room + 2 * (size_t)classes, room + 3 * (size_t)classes};
    return room;
}

// How often parts of each class must have been written in this process, for its copied pages, with the hazards up to now.
static void blame_parts(const struct ht_write_model *model, struct learner *learner, struct tally *tally) {
    const struct ht_classed_parts *classed = &learner->classed;
    const uint32_t *first = classed->parts.first;
    struct ht_write_fit *fit = learner->fit;
    double blame[HT_PAGE_KINDS] = {0};
    memset(tally->blame, 0, ht_part_classes(&model->classes) * sizeof *tally->blame);
    for (size_t q = 0; q < classed->pages->pages; q++) {
        if (!ht_page_copied(classed, q) || !is_evidence(model, classed, q)) continue;
        uint8_t kind = classed->parts.kind[q];
        double weight = -1 / expm1(log1p(-fit->allocator[kind]) - ht_page_hazard(model, fit, classed, q));
        for (uint32_t i = first[q]; i < first[q + 1]; i++) tally->blame[classed->class[i]] += weight;
        blame[kind] += weight;
    }
    for (int k = HT_PAGE_HOLED; k <= HT_PAGE_MET; k++)
        if (learner->pages_seen[k] > 0)
            fit->allocator[k] *= blame[k] / learner->pages_seen[k] * ALLOCATOR_MOST;
}

// The process's level; and what its parts tell of the classes.
static void tally_up(const struct ht_write_model *model, struct learner *learner, struct tally *tally) {
    double written = 0, expected = 0, *level = &learner->fit->level;
    for (uint32_t c = 0; c < ht_part_classes(&model->classes); c++) {
        double chance = -expm1(-*level * model->hazard[c]);
        tally->written[c] += tally->blame[c] * chance;
        tally->expected[c] += learner->seen[c] * chance;
        written += tally->blame[c] * chance;
        expected += learner->seen[c] * chance;
    }
    if (expected > 0) *level *= written / expected;
    if (*level < LEVEL_LEAST) *level = LEVEL_LEAST;
}

// The chance of each half octave's parts, exact sizes included.
static void about(const struct ht_write_model *model, const struct tally *tally, double *chance) {
    double written[HT_PART_CLASSES_ABOUT] = {0}, seen[HT_PART_CLASSES_ABOUT] = {0};
    for (uint32_t c = 0; c < ht_part_classes(&model->classes); c++) {
        uint32_t octave = ht_part_class_about(&model->classes, c);
        written[octave] += tally->written[c];
        seen[octave] += tally->expected[c] / -expm1(-model->hazard[c]);
    }
    for (uint32_t o = 0; o < HT_PART_CLASSES_ABOUT; o++) chance[o] = written[o] / (seen[o] + UNSEEN);
}

// Every few rounds it goes as far as rounds that shrink as the last two did would come.
static void improve(struct ht_write_model *model, struct tally *tally, bool leap) {
    double octave[HT_PART_CLASSES_ABOUT];
    about(model, tally, octave);
    for (uint32_t c = 0; c < ht_part_classes(&model->classes); c++) {
        double before = model->hazard[c], chance = -expm1(-before);
        double alike = ALIKE_PARTS * octave[ht_part_class_about(&model->classes, c)] + UNSEEN;
        chance *= (tally->written[c] + alike) / (tally->expected[c] + ALIKE_PARTS * chance + UNSEEN);
        double hazard = chance < 1 ? -log1p(-chance) : HAZARD_MOST, step = log(hazard / before);
        double shrinks = tally->step[c] != 0 ? step / tally->step[c] : 0;
        double rounds = shrinks < LEAP_MOST / (1 + LEAP_MOST) ? shrinks / (1 - shrinks) : LEAP_MOST;
        if (leap && shrinks > 0) hazard *= exp(step * rounds);
        tally->step[c] = step;
        model->hazard[c] = hazard < HAZARD_LEAST ? HAZARD_LEAST : hazard > HAZARD_MOST ? HAZARD_MOST : hazard;
    }
}

// The levels are 1 on average, lest classes and levels leap after each other.
static void level_out(struct learner *learner, size_t learners) {
    double sum = 0;
    for (size_t p = 0; p < learners; p++) sum += learner[p].fit->level;
    for (size_t p = 0; p < learners; p++) learner[p].fit->level *= (double)learners / sum;
}

// What of the copies on pages of each kind the program's writes leave unexplained.
static void learn_allocator(const struct ht_write_model *model, struct ht_write_fit *fit,
                            const struct ht_classed_parts *classed) {
    double clean[HT_PAGE_KINDS] = {0}, shared[HT_PAGE_KINDS] = {0};
    for (size_t q = 0; q < classed->pages->pages; q++) {
        if (!ht_page_tells(classed, q)) continue;
        clean[classed->parts.kind[q]] += exp(-ht_page_hazard(model, fit, classed, q));
        shared[classed->parts.kind[q]] += !ht_page_copied(classed, q);
    }
    for (int k = HT_PAGE_HOLED; k <= HT_PAGE_MET; k++)
        fit->allocator[k] = clean[k] > shared[k] ? 1 - shared[k] / clean[k] : 0;
}

static void start(const struct ht_write_model *model, struct ht_write_fit *fit) {
    fit->level = 1;
    for (int k = 0; k < HT_PAGE_KINDS; k++)
        fit->allocator[k] = k > HT_PAGE_QUIET && k <= (int)model->evidence ? ALLOCATOR_START : 0;
}

static bool learn(struct ht_write_model *model, struct learner *learner, size_t learners,
                  enum ht_page_kind evidence) {
    uint32_t classes = ht_part_classes(&model->classes);
    struct tally tally;
    model->evidence = evidence;
    set_stride(model, learner, learners);
    for (size_t p = 0; p < learners; p++) {
        start(model, learner[p].fit);
        if (!count_seen(model, &learner[p])) return false;
    }
    if (!tally_make(&tally, classes)) return false;
    for (uint32_t c = 0; c < classes; c++) model->hazard[c] = HAZARD_START;
    for (int round = 1; round <= ROUNDS; round++) {
        memset(tally.written, 0, classes * sizeof *tally.written);
        memset(tally.expected, 0, classes * sizeof *tally.expected);
        for (size_t p = 0; p < learners; p++) {
            blame_parts(model, &learner[p], &tally);
            tally_up(model, &learner[p], &tally);
        }
        level_out(learner, learners);
        improve(model, &tally, round % LEAP_ROUNDS == 0 && round < ROUNDS);
    }
    free(tally.blame);
    for (size_t p = 0; p < learners; p++) learn_allocator(model, learner[p].fit, &learner[p].classed);
    return true;
}

// Pairs of pages of one distance.
struct pairs {
    double count, both_clean, expected, hazard, parts;
};

static void count_pairs(const struct ht_write_model *model, const struct learner *learner, size_t apart,
                        struct pairs *pairs) {
    const struct ht_classed_parts *classed = &learner->classed;
    const struct ht_page_parts *parts = &classed->parts;
    const double *allocator = learner->fit->allocator;
    for (size_t one = 0; one + apart < classed->pages->pages; one++) {
        size_t two = one + apart;
        if (parts->kind[one] > HT_PAGE_HOLED || parts->kind[two] > HT_PAGE_HOLED) continue;
        if (!ht_page_tells(classed, one) || !ht_page_tells(classed, two) ||
            !ht_pages_consecutive(parts, one, two))
            continue;
        double hazard = ht_page_hazard(model, learner->fit, classed, one) +
                        ht_page_hazard(model, learner->fit, classed, two);
        pairs->both_clean += !ht_page_copied(classed, one) && !ht_page_copied(classed, two);
        pairs->expected +=
            exp(-hazard) * (1 - allocator[parts->kind[one]]) * (1 - allocator[parts->kind[two]]);
        pairs->hazard += hazard / 2;
        pairs->parts +=
            (parts->first[one + 1] - parts->first[one] + parts->first[two + 1] - parts->first[two]) / 2.0;
        pairs->count++;
    }
}

// Clusters of writes that begin at a rate r a part and are L parts long leave a page of n parts clean with exp(-r(n + L - 1)), and
// two neighbours with exp(-r(2n + L - 1)): the more often, the longer clusters are. What far pages have in common, too, is a
// region's way and no cluster.
static void learn_cluster(struct ht_write_model *model, const struct learner *learner, size_t learners) {
    struct pairs near = {0}, far = {0};
    for (size_t p = 0; p < learners; p++) {
        count_pairs(model, &learner[p], 1, &near);
        count_pairs(model, &learner[p], FAR_PAGES, &far);
    }
    model->cluster = CLUSTER_UNKNOWN;
    if (near.both_clean < PAIRS_MIN || far.both_clean < PAIRS_MIN || near.hazard <= 0) return;
    double across = log(near.both_clean / near.expected) - log(far.both_clean / far.expected);
    across += sqrt(1 / near.both_clean + 1 / far.both_clean);  // chance could hide so much
    double share = across * near.count / near.hazard;
    share = share < 0 ? 0 : share > ACROSS_MOST ? ACROSS_MOST : share;
    model->cluster = 1 + near.parts / near.count * share / (1 - share);
    if (model->cluster < CLUSTER_LEAST) model->cluster = CLUSTER_LEAST;
}

// Quiet pages tell most. Where there are hardly any, those with holes tell more, unless the allocator wrote many of them.
static bool learn_from_best(struct ht_write_model *model, struct learner *learner, size_t learners,
                            const uint64_t *parts) {
    uint64_t quiet = parts[HT_PAGE_QUIET], holed = parts[HT_PAGE_HOLED];
    if (quiet + holed < EVIDENCE_MIN) return learn(model, learner, learners, HT_PAGE_MET);
    if (quiet < EVIDENCE_MIN) return learn(model, learner, learners, HT_PAGE_HOLED);
    if (quiet < holed / RARE) {
        if (!learn(model, learner, learners, HT_PAGE_HOLED)) return false;
        double allocator = 0;
        for (size_t p = 0; p < learners; p++)
            allocator += learner[p].fit->allocator[HT_PAGE_HOLED] / (double)learners;
        if (allocator <= ALLOCATOR_SELDOM) return true;
    }
    return learn(model, learner, learners, HT_PAGE_QUIET);
}

static bool learn_all(struct ht_write_model *model, struct learner *learner, size_t learners) {
    uint64_t parts[HT_PAGE_KINDS] = {0};
    uint32_t *often = NULL;
    bool good = true;
    for (size_t p = 0; good && p < learners; p++) {
        struct ht_classed_parts *classed = &learner[p].classed;
        learner[p].fit = &model->fit[p * model->processes / learners];
        classed->pages = &learner[p].fit->pages;
        good = ht_page_parts_make(classed->pages, &classed->parts);
        for (size_t q = 0; good && q < classed->pages->pages; q++)
            parts[classed->parts.kind[q]] += classed->parts.first[q + 1] - classed->parts.first[q];
    }
    bool rare = parts[HT_PAGE_QUIET] < parts[HT_PAGE_HOLED] / RARE;
    for (size_t p = 0; good && p < learners; p++)
        good = ht_sizes_count(&learner[p].classed, rare ? HT_PAGE_HOLED : HT_PAGE_QUIET, &often);
    good = good && ht_size_classes_choose(&model->classes, often);
    free(often);
    for (size_t p = 0; good && p < learners; p++)
        good = ht_part_classes_give(&model->classes, &learner[p].classed);
    if (good) model->hazard = calloc(ht_part_classes(&model->classes), sizeof *model->hazard);
    if (!good || !model->hazard || !learn_from_best(model, learner, learners, parts)) return false;
    learn_cluster(model, learner, learners);
    return true;
}

static void learner_free(struct learner *learner) {
    ht_classed_parts_free(&learner->classed);
    free(learner->seen);
}

// Of a process that the classes were not learned from.
static bool fit_level(const struct ht_write_model *model, struct ht_write_fit *fit) {
    struct learner learner = {.fit = fit, .classed = {.pages = &fit->pages}};
    struct tally tally = {0};
    start(model, fit);
    bool good = ht_page_parts_make(&fit->pages, &learner.classed.parts) &&
                ht_part_classes_give(&model->classes, &learner.classed) && count_seen(model, &learner) &&
                tally_make(&tally, ht_part_classes(&model->classes));
    for (int round = 0; good && round < LEVEL_ROUNDS; round++) {
        blame_parts(model, &learner, &tally);
        tally_up(model, &learner, &tally);
    }
    if (good) learn_allocator(model, fit, &learner.classed);
    free(tally.blame);
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
    bool good = model->fit && learn_all(model, learner, learners);
    for (size_t p = 0; p < learners; p++) learner_free(&learner[p]);
    for (size_t p = 0; good && p < processes; p++)
        if (model->fit[p].level <= 0) good = fit_level(model, &model->fit[p]);
    if (good) return model;
    ht_write_model_free(model);
    return NULL;
}

void ht_write_model_free(struct ht_write_model *model) {
    if (!model) return;
    free(model->classes.exact);
    free(model->hazard);
    free(model->fit);
    free(model);
}

double ht_write_model_cluster(const struct ht_write_model *model) { return model->cluster; }
