// SPDX-License-Identifier: Apache-2.0
#include "written_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_numbers.h"
#include "write_model.h"

enum { BEGUN = 1, CONTINUED = 2 };

struct draw {
    const struct ht_write_model *model;
    const struct ht_write_fit *fit;
    const struct ht_classed_parts *classed;
    struct ht_random random;
    uint8_t *written;  // of each part of the page at hand: BEGUN, CONTINUED
    size_t page;       // that was drawn last
    bool reaches;      // a cluster beyond it, which began with a part of this hazard
    double hazard;
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

// Each part for itself, with its hazard times share. One of them at least: part by part, with its chance given that none before
// it was written.
static void draw_apart(struct draw *draw, size_t q, double share, bool at_least_one) {
    const uint32_t *first = draw->classed->parts.first;
    double hazard = share * ht_page_hazard(draw->model, draw->fit, draw->classed, q);
    bool any = !at_least_one;
    for (uint32_t i = first[q]; i < first[q + 1]; i++) {
        double own = share * draw->fit->level * draw->model->hazard[draw->classed->class[i]];
        double chance = -expm1(-own);
        if (!any) {
            chance = i + 1 == first[q + 1] || hazard <= own ? 1 : chance / -expm1(-hazard);
            hazard -= own;
        }
        bool written = uniform(draw) < chance;
        draw->written[i - first[q]] |= written ? BEGUN : 0;
        any |= written;
    }
}

// The parts from this one on, as far as a cluster reaches; those of classes that are written less often are left out more often.
// Whether it reaches beyond the page.
static bool spread(struct draw *draw, size_t q, uint32_t from, double hazard) {
    const uint32_t *first = draw->classed->parts.first;
    double go_on = 1 - 1 / draw->model->cluster;
    for (uint32_t i = from; i < first[q + 1]; i++) {
        double own = draw->model->hazard[draw->classed->class[i]];
        if (uniform(draw) * hazard <= own) draw->written[i - first[q]] |= CONTINUED;
        if (uniform(draw) >= go_on) return false;
    }
    return true;
}

// Whether a cluster comes from the page before. Where that page does not tell, as often as clusters reach across a border.
static bool comes_over(struct draw *draw, size_t q, double share) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    if (q && draw->page == q - 1 && ht_pages_consecutive(parts, q - 1, q)) return draw->reaches;
    if (q && ht_page_tells(draw->classed, q - 1) && !ht_page_copied(draw->classed, q - 1)) return false;
    draw->hazard = ht_page_hazard(draw->model, draw->fit, draw->classed, q) / draw->fit->level /
                   (parts->first[q + 1] - parts->first[q]);
    return uniform(draw) >= share;
}

// Clusters begin on the page or come from the one before.
static void draw_together(struct draw *draw, size_t q) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    uint32_t from = parts->first[q], end = parts->first[q + 1];
    double count = end - from, share = count / (count + draw->model->cluster - 1);
    bool comes = comes_over(draw, q, share);
    draw->reaches = comes && spread(draw, q, from, draw->hazard);
    bool any = comes && memchr(draw->written, CONTINUED, end - from);
    draw_apart(draw, q, share, !any);
    for (uint32_t i = from; i < end; i++)
        if (draw->written[i - from] & BEGUN) {
            draw->hazard = draw->model->hazard[draw->classed->class[i]];
            draw->reaches |= spread(draw, q, i, draw->hazard);
        }
    draw->page = q;
}

static bool draw_page(struct draw *draw, size_t q, enum ht_write_clusters clusters) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    const struct ht_inherited_pages *pages = &draw->fit->pages;
    double hazard = ht_page_hazard(draw->model, draw->fit, draw->classed, q);
    double allocator = draw->fit->allocator[parts->kind[q]], by_program = -expm1(-hazard);
    double by_any = 1 - (1 - allocator) * (1 - by_program);
    if (uniform(draw) * by_any >= by_program) return true;
    if (clusters == HT_WRITES_TOGETHER) draw_together(draw, q);
    else draw_apart(draw, q, 1, true);
    for (uint32_t i = parts->first[q]; i < parts->first[q + 1]; i++) {
        uint32_t block = parts->block[i];
        uint64_t offset =
            pages->page[block] == q ? 0 : (uint64_t)q * pages->page_bytes - ht_block_start(pages, block);
        if (draw->written[i - parts->first[q]] && !put(draw, block, offset)) return false;
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

static bool draw_all(struct draw *draw, enum ht_write_clusters clusters) {
    const struct ht_page_parts *parts = &draw->classed->parts;
    uint32_t most = 1;
    for (size_t q = 0; q < draw->fit->pages.pages; q++)
        if (parts->first[q + 1] - parts->first[q] > most) most = parts->first[q + 1] - parts->first[q];
    draw->written = malloc(most);
    bool good = draw->written && put_filled_pages(draw);
    for (size_t q = 0; good && q < draw->fit->pages.pages; q++)
        if (ht_page_copied(draw->classed, q) && ht_page_tells(draw->classed, q)) {
            memset(draw->written, 0, parts->first[q + 1] - parts->first[q]);
            good = draw_page(draw, q, clusters);
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
    struct draw draw = {
        .model = model, .fit = fit_of(model, pages), .classed = &classed, .page = SIZE_MAX, .random = {seed}};
    assert(draw.fit);
    bool good = ht_page_parts_make(pages, &classed.parts) &&
                ht_part_classes_give(&model->classes, &classed) && draw_all(&draw, clusters);
    ht_classed_parts_free(&classed);
    if (!good) free(draw.part);
    *parts = good ? draw.part : NULL;
    *count = good ? draw.count : 0;
    return good;
}
