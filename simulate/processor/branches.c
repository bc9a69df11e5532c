// SPDX-License-Identifier: Apache-2.0
#include "branches.h"

#include <stddef.h>

enum { TAKEN_MIN = -4, TAKEN_MAX = 3, USEFUL_MAX = 3, NO_TABLE = -1 };

// Where a branch is in a table, and by what its entry there is told from another's.
struct place {
    uint32_t index;
    uint16_t tag;
};

static uint64_t mixed(uint64_t address, uint64_t history, uint64_t salt) {
    uint64_t x = (address ^ history * 0x9e3779b97f4a7c15u) + salt * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static struct place place_in(const struct ht_branch_predictor *predictor, int table, uint64_t address) {
    static const uint8_t lengths[HT_BRANCH_TABLES] = {5, 13, 32, 64};
    uint64_t history = predictor->history << (64 - lengths[table]);
    uint64_t x = mixed(address, history, (uint64_t)table + 1);
    return (struct place){(uint32_t)x & ((1u << HT_BRANCH_ENTRY_BITS) - 1), (uint16_t)(x >> 40 | 1)};
}

static int8_t moved(int8_t counter, bool taken) {
    if (taken) return counter < TAKEN_MAX ? (int8_t)(counter + 1) : counter;
    return counter > TAKEN_MIN ? (int8_t)(counter - 1) : counter;
}

// A place for the branch in one of the tables with longer histories than the one that was wrong: where nothing useful is.
static void give_entry(struct ht_branch_predictor *predictor, const struct place *place, int wrong,
                       bool taken) {
    for (int table = wrong + 1; table < HT_BRANCH_TABLES; table++) {
        struct ht_branch_entry *entry = &predictor->table[table][place[table].index];
        if (entry->useful) {
            entry->useful--;
            continue;
        }
        *entry = (struct ht_branch_entry){.tag = place[table].tag, .taken = taken ? 0 : -1};
        return;
    }
}

void ht_branch_taken(struct ht_branch_predictor *predictor, uint64_t address, bool taken,
                     struct ht_branch_counts *counts) {
    struct place place[HT_BRANCH_TABLES];
    int8_t *base = &predictor->base[mixed(address, 0, 0) >> (64 - HT_BRANCH_BASE_BITS)];
    int longest = NO_TABLE, shorter = NO_TABLE;
    for (int table = 0; table < HT_BRANCH_TABLES; table++) {
        place[table] = place_in(predictor, table, address);
        if (predictor->table[table][place[table].index].tag != place[table].tag) continue;
        shorter = longest;
        longest = table;
    }
    struct ht_branch_entry *entry =
        longest == NO_TABLE ? NULL : &predictor->table[longest][place[longest].index];
    bool otherwise =
        shorter == NO_TABLE ? *base >= 0 : predictor->table[shorter][place[shorter].index].taken >= 0;
    bool predicted = entry ? entry->taken >= 0 : *base >= 0;
    counts->branches++;
    counts->misses += predicted != taken;
    if (entry && predicted != otherwise) {
        if (predicted == taken && entry->useful < USEFUL_MAX) entry->useful++;
        if (predicted != taken && entry->useful) entry->useful--;
    }
    if (entry) entry->taken = moved(entry->taken, taken);
    else *base = moved(*base, taken);
    if (predicted != taken) give_entry(predictor, place, longest, taken);
    predictor->history = predictor->history << 1 | taken;
}

void ht_branch_to(struct ht_branch_predictor *predictor, uint64_t address, uint64_t target,
                  struct ht_branch_counts *counts) {
    enum { HISTORY = 13 };
    uint64_t history = predictor->history << (64 - HISTORY);
    uint64_t *known = &predictor->target[mixed(address, history, 9) >> (64 - HT_BRANCH_TARGET_BITS)];
    counts->branches++;
    counts->misses += *known != target;
    *known = target;
    predictor->history = predictor->history << 1 | (target >> 1 & 1);
}
