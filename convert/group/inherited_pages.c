// SPDX-License-Identifier: Apache-2.0
#include "inherited_pages.h"

#include <stdlib.h>
#include <string.h>

#include "group_content.h"
#include "grow.h"
#include "sorted.h"

static uint64_t last_byte(uint64_t address, uint64_t bytes) {
    uint64_t last = address + (bytes ? bytes - 1 : 0);
    return last < address ? UINT64_MAX : last;
}

// The blocks are in the order of their addresses; they may overlap where the log was damaged.
static const char *find_runs(struct inherited_pages *pages) {
    size_t room = 0;
    for (size_t i = 0; i < pages->blocks; i++) {
        uint64_t first = pages->block[i].address / pages->page_bytes,
                 last = last_byte(pages->block[i].address, pages->block[i].bytes) / pages->page_bytes;
        struct page_run *run = pages->runs ? &pages->run[pages->runs - 1] : NULL;
        if (!run || first > run->first + run->pages) {
            if (!ht_grow(&pages->run, &room, pages->runs + 1, sizeof *pages->run)) return "not enough memory";
            pages->run[pages->runs++] = (struct page_run){first, last - first + 1, 0};
        } else if (last >= run->first + run->pages) {
            run->pages = last - run->first + 1;
        }
    }
    uint64_t number = 0;
    for (size_t i = 0; i < pages->runs; i++) {
        pages->run[i].number = (uint32_t)number;
        number += pages->run[i].pages;
        if (number > HT_GROUP_PAGES_MAX) return "expected inherited blocks of fewer pages";
        pages->layout.pages = (uint32_t)number++;
    }
    return NULL;
}

// The first run that ends behind the page.
static size_t run_from(const struct inherited_pages *pages, uint64_t page) {
    size_t i = HT_FIRST_ABOVE(pages->run, pages->runs, first, page);
    return i && pages->run[i - 1].first + pages->run[i - 1].pages > page ? i - 1 : i;
}

const char *inherited_pages_make(struct inherited_pages *pages, const struct live_blocks *blocks,
                                 uint32_t page_bytes) {
    struct ht_group_layout *layout = &pages->layout;
    *pages = (struct inherited_pages){.page_bytes = page_bytes, .blocks = blocks->count};
    pages->block = malloc((blocks->count + 1) * sizeof *pages->block);
    layout->page = malloc((blocks->count + 1) * sizeof *layout->page);
    layout->offset = malloc((blocks->count + 1) * sizeof *layout->offset);
    layout->blocks = blocks->count;
    if (!pages->block || !layout->page || !layout->offset) return "not enough memory";
    memcpy(pages->block, blocks->block, blocks->count * sizeof *pages->block);
    if (blocks->count) qsort(pages->block, blocks->count, sizeof *pages->block, ht_by_word);
    const char *wrong = find_runs(pages);
    if (wrong) return wrong;
    for (size_t i = 0; i < blocks->count; i++) {
        uint64_t page = blocks->block[i].address / page_bytes;
        const struct page_run *run = &pages->run[run_from(pages, page)];
        layout->page[i] = run->number + (uint32_t)(page - run->first);
        layout->offset[i] = (uint16_t)(blocks->block[i].address % page_bytes);
    }
    pages->called = calloc(layout->pages + 1, sizeof *pages->called);
    return pages->called ? NULL : "not enough memory";
}

void inherited_pages_free(struct inherited_pages *pages) {
    free(pages->run);
    free(pages->block);
    free(pages->called);
    ht_group_layout_free(&pages->layout);
    *pages = (struct inherited_pages){0};
}

void inherited_pages_use(struct inherited_pages *pages, uint64_t address, uint64_t bytes) {
    uint64_t first = address / pages->page_bytes, last = last_byte(address, bytes) / pages->page_bytes;
    for (size_t i = run_from(pages, first); i < pages->runs && pages->run[i].first <= last; i++) {
        const struct page_run *run = &pages->run[i];
        uint64_t from = first > run->first ? first - run->first : 0,
                 until = last - run->first < run->pages ? last - run->first + 1 : run->pages;
        memset(pages->called + run->number + from, true, until - from);
    }
}

void inherited_pages_end(struct inherited_pages *pages, uint64_t address) {
    size_t i = HT_FIRST_FROM(pages->block, pages->blocks, address, address);
    if (i < pages->blocks && pages->block[i].address == address)
        inherited_pages_use(pages, address, pages->block[i].bytes);
}

static void put_mapping(const struct inherited_pages *pages, const struct ht_group_mapping *mapping,
                        uint8_t *states) {
    uint64_t first = mapping->start / pages->page_bytes, end = mapping->end / pages->page_bytes;
    for (size_t i = run_from(pages, first); i < pages->runs && pages->run[i].first < end; i++) {
        const struct page_run *run = &pages->run[i];
        uint64_t from = first > run->first ? first : run->first,
                 until = run->first + run->pages < end ? run->first + run->pages : end;
        memcpy(states + run->number + (from - run->first), mapping->state + (from - first), until - from);
    }
}

uint8_t *inherited_pages_states(const struct inherited_pages *pages, const struct ht_group_member *member) {
    uint8_t *states = calloc(pages->layout.pages + 1, 1);
    if (!states) return NULL;
    for (size_t i = 0; i < member->mappings; i++) put_mapping(pages, &member->mapping[i], states);
    for (size_t i = 0; i < pages->layout.pages; i++)
        if (pages->called[i]) states[i] |= HT_PAGE_CALLED;
    return states;
}
