// SPDX-License-Identifier: Apache-2.0
#include "control_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

static const struct {
    const char *symbol;
    bool changes, operand;
} known[HT_CTL_NUMBERS] = {
    [HT_CTL_MALLOPT] = {"mallopt", true, true},
    [HT_CTL_TRIM] = {"malloc_trim", true, true},
    [HT_CTL_MALLINFO] = {"mallinfo", false, false},
    [HT_CTL_MALLINFO2] = {"mallinfo2", false, false},
    [HT_CTL_MALLOC_INFO] = {"malloc_info", false, false},
    [HT_CTL_MALLOC_STATS] = {"malloc_stats", false, false},
    [HT_CTL_MADVISE] = {"madvise", true, true},
};

// glibc's, by their numbers less one with the sign turned: other C libraries' headers have none.
static const char *const parameters[] = {"M_TRIM_THRESHOLD", "M_TOP_PAD", "M_MMAP_THRESHOLD", "M_MMAP_MAX",
                                         "M_CHECK_ACTION",   "M_PERTURB", "M_ARENA_TEST",     "M_ARENA_MAX"};
enum { M_MXFAST_NUMBER = 1 };

const char *ht_advice_name(unsigned advice) {
    switch (advice) {
    case MADV_DONTNEED: return "MADV_DONTNEED";
    case MADV_FREE: return "MADV_FREE";
    case MADV_HUGEPAGE: return "MADV_HUGEPAGE";
    case MADV_NOHUGEPAGE: return "MADV_NOHUGEPAGE";
    default: return "unknown";
    }
}

static const char *parameter_name(int64_t parameter) {
    if (parameter == M_MXFAST_NUMBER) return "M_MXFAST";
    uint64_t place = (uint64_t)-parameter - 1;
    return place < sizeof parameters / sizeof *parameters ? parameters[place] : NULL;
}

const char *ht_control_symbol(unsigned number) {
    return number < HT_CTL_NUMBERS ? known[number].symbol : NULL;
}

bool ht_control_changes(const struct ht_control_call *call) {
    if (call->number >= HT_CTL_NUMBERS || !known[call->number].changes) return false;
    return call->number != HT_CTL_MALLOPT || parameter_name(call->first);
}

bool ht_control_sets(const struct ht_control_call *call) {
    return call->number == HT_CTL_MALLOPT && ht_control_changes(call);
}

static const char *print(const struct ht_control_call *call, bool whole, char *text) {
    const char *symbol = ht_control_symbol(call->number);
    enum { ROOM = HT_CONTROL_TEXT_BYTES };
    if (!symbol) {
        snprintf(text, ROOM, "unknown");
    } else if (call->number == HT_CTL_MALLOPT) {
        char number[24];
        const char *name = parameter_name(call->first);
        snprintf(number, sizeof number, "%" PRId64, call->first);
        if (whole) snprintf(text, ROOM, "%s(%s, %" PRId64 ")", symbol, name ? name : number, call->second);
        else snprintf(text, ROOM, "%s(%s)", symbol, name ? name : number);
    } else if (call->number == HT_CTL_MADVISE) {
        snprintf(text, ROOM, "%s(%s)", symbol, ht_advice_name((unsigned)call->first));
    } else if (!whole) {
        snprintf(text, ROOM, "%s", symbol);
    } else if (known[call->number].operand) {
        snprintf(text, ROOM, "%s(%" PRId64 ")", symbol, call->second);
    } else {
        snprintf(text, ROOM, "%s()", symbol);
    }
    return text;
}

const char *ht_control_name(const struct ht_control_call *call, char text[HT_CONTROL_TEXT_BYTES]) {
    return print(call, false, text);
}

void ht_control_settings_note(struct ht_control_settings *settings, const struct ht_control_call *call) {
    unsigned i = 0;
    if (!ht_control_sets(call)) return;
    while (i < settings->count &&
           (settings->call[i].number != call->number || settings->call[i].first != call->first))
        i++;
    if (i == HT_CONTROL_SETTINGS) return;
    settings->call[i] = *call;
    if (i == settings->count) settings->count++;
}

void ht_control_counts_add(struct ht_control_counts *counts, const struct ht_control_call *call,
                           uint64_t calls) {
    bool named_by_first = call->number == HT_CTL_MALLOPT || call->number == HT_CTL_MADVISE;
    int64_t first = named_by_first ? call->first : 0;
    for (unsigned i = 0; i < HT_CONTROL_COUNTS; i++) {
        struct ht_control_count *count = &counts->count[i];
        if (count->calls && (count->number != call->number || count->first != first)) continue;
        count->number = call->number;
        count->first = first;
        count->calls += calls;
        return;
    }
    counts->others += calls;
}

const char *ht_control_text(const struct ht_control_call *call, char text[HT_CONTROL_TEXT_BYTES]) {
    return print(call, true, text);
}
