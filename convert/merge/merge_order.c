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
