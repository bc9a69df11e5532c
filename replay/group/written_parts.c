// SPDX-License-Identifier: Apache-2.0
#include "written_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_numbers.h"
#include "write_model.h"

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

// Of a block on two pages the part on the second one, once that on the first is drawn.
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
            double chance = ht_part_chance(draw->model, draw->fit, draw->classed, draw->hazards, q, i);
            if (uniform(draw) >= chance) continue;
            uint32_t other = part_on(draw, q + 1, block);
            draw->written[i] = 1;
            if (other < parts->first[q + 2]) draw->written[other] = 1;
        }
    }
}

// Of the writes of a page of so many parts, those with which a cluster begins.
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
    double *hazards = good ? ht_page_hazards(model, draw.fit, &classed) : NULL;
    draw.hazards = hazards;
    good = hazards && draw_all(&draw);
    free(hazards);
    ht_classed_parts_free(&classed);
    if (!good) free(draw.part);
    *parts = good ? draw.part : NULL;
    *count = good ? draw.count : 0;
    return good;
}
