// SPDX-License-Identifier: Apache-2.0
#include "merge_order.h"

#include <string.h>

static bool earlier(const struct merge *m, uint32_t a, uint32_t b) {
    // Ties go by stream number, which makes the order defined.
    return m->input[a].key != m->input[b].key ? m->input[a].key < m->input[b].key : a < b;
}

static void sift_down(struct merge *m, uint32_t at) {
    uint32_t moving = m->order[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= m->order_count) break;
        if (child + 1 < m->order_count && earlier(m, m->order[child + 1], m->order[child])) child++;
        if (!earlier(m, m->order[child], moving)) break;
        m->order[at] = m->order[child];
        at = child;
    }
    m->order[at] = moving;
}

void merge_push_input(struct merge *m, uint32_t input) {
    uint32_t at = m->order_count++;
    while (at && earlier(m, input, m->order[(at - 1) / 2])) {
        m->order[at] = m->order[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    m->order[at] = input;
}

void merge_sift_first(struct merge *m) { sift_down(m, 0); }

void merge_pop_input(struct merge *m) {
    m->order[0] = m->order[--m->order_count];
    if (m->order_count) sift_down(m, 0);
}

uint64_t merge_second_key(const struct merge *m) {
    uint32_t first = m->order[0], second = first;
    for (uint32_t i = 1; i < 3 && i < m->order_count; i++)
        if (second == first || earlier(m, m->order[i], second)) second = m->order[i];
    uint64_t key = second == first ? UINT64_MAX : m->input[second].key;
    if (second < first) key -= key > 0;
    return key < m->horizon ? key : m->horizon;
}

// ---- looking ahead ----

struct search {
    struct merge *m;
    uint64_t address, stamp;  // stamp: no later than that
    bool live, found, no_memory;
};

static void search_input(struct search *search, uint32_t number, uint32_t skip) {
    int found = streams_look_ahead(&search->m->streams, search->m->input[number].stream, skip,
                                   search->address, search->live, &search->stamp);
    search->found |= found > 0;
    search->no_memory |= found < 0;
}

// The inputs in the order from that place down. Below one whose next record is too late, all others' are.
static void search_order(struct search *search, uint32_t at) {
    if (at >= search->m->order_count || search->m->input[search->m->order[at]].key > search->stamp) return;
    if (at) search_input(search, search->m->order[at], 0);
    search_order(search, 2 * at + 1);
    search_order(search, 2 * at + 2);
}

enum merge_ahead merge_look_ahead(struct merge *m, const struct ht_raw_record *record, bool live,
                                  uint64_t limit_stamps) {
    uint32_t number = m->order[0];
    uint64_t key = m->input[number].key, end = key + limit_stamps;
    struct search search = {
        .m = m, .address = record->address, .stamp = end < key ? UINT64_MAX : end, .live = live};
    // If its own thread's next call of the address comes before others', these follow that call. A realloc's second half is
    // none of its own.
    search_input(&search, number, record->op == HT_RAW_REALLOC_BEGIN ? 2 : 1);
    if (search.found) search.stamp -= search.stamp > 0;
    search.found = false;
    search_order(&search, 0);
    for (uint32_t i = 0; i < m->blocked_count; i++) search_input(&search, m->blocked[i], 0);
    if (search.no_memory) return AHEAD_NO_MEMORY;
    if (search.stamp > m->horizon) return AHEAD_UNKNOWN;
    return search.found ? AHEAD_FOUND : AHEAD_NONE;
}

// ---- waiting ----

bool merge_block_input(struct merge *m, uint32_t number, uint64_t address, uint64_t limit_stamps) {
    struct input *input = &m->input[number];
    size_t i = map64_find(&m->waiters, address);
    input->next_waiter = map64_has(&m->waiters, i) ? (uint32_t)m->waiters.entry[i].value : 0;
    input->wait_address = address;
    input->wait_stamp = input->key;
    input->wait_until_stamp = input->key + limit_stamps;
    input->waited = true;
    m->blocked[m->blocked_count++] = number;
    return map64_put(&m->waiters, address, (uint64_t)number + 1);
}

void merge_unblock_input(struct merge *m, uint32_t number) {
    uint32_t i = 0;
    while (m->blocked[i] != number) i++;
    memmove(&m->blocked[i], &m->blocked[i + 1], (--m->blocked_count - i) * sizeof *m->blocked);
}

void merge_wake_inputs(struct merge *m, uint64_t address) {
    if (!m->blocked_count) return;
    size_t i = map64_find(&m->waiters, address);
    if (!map64_has(&m->waiters, i)) return;
    uint32_t number = (uint32_t)m->waiters.entry[i].value;
    map64_remove_at(&m->waiters, i);
    while (number) {
        uint32_t next = m->input[number - 1].next_waiter;
        merge_unblock_input(m, number - 1);
        merge_push_input(m, number - 1);
        m->woke = true;
        number = next;
    }
}
