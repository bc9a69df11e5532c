// SPDX-License-Identifier: Apache-2.0
#include "control_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

// How a call is told.
enum form { PLAIN, WITH_VALUE, OF_PARAMETER, OF_MALLCTL, OF_WORD, OF_ADVICE };

static const struct {
    const char *symbol;
    bool changes, sets;
    enum form form;
    const char *name;  // of mallctl's: N is the first operand
    bool has_value;    // of mallctl's
} known[HT_CTL_NUMBERS] = {
    [HT_CTL_MALLOPT] = {"mallopt", true, true, OF_PARAMETER},
    [HT_CTL_TRIM] = {"malloc_trim", true, false, WITH_VALUE},
    [HT_CTL_MALLINFO] = {"mallinfo"},
    [HT_CTL_MALLINFO2] = {"mallinfo2"},
    [HT_CTL_MALLOC_INFO] = {"malloc_info"},
    [HT_CTL_MALLOC_STATS] = {"malloc_stats"},
    [HT_CTL_MI_COLLECT] = {"mi_collect", true, false, WITH_VALUE},
    [HT_CTL_RELEASE_FREE_MEMORY] = {"MallocExtension_ReleaseFreeMemory", true},
    [HT_CTL_RELEASE_TO_SYSTEM] = {"MallocExtension_ReleaseToSystem", true, false, WITH_VALUE},
    [HT_CTL_ARENA_PURGE] = {"mallctl", true, false, OF_MALLCTL, "arena.N.purge"},
    [HT_CTL_ARENA_DECAY] = {"mallctl", true, false, OF_MALLCTL, "arena.N.decay"},
    [HT_CTL_ARENA_DIRTY_DECAY] = {"mallctl", true, true, OF_MALLCTL, "arena.N.dirty_decay_ms", true},
    [HT_CTL_ARENA_MUZZY_DECAY] = {"mallctl", true, true, OF_MALLCTL, "arena.N.muzzy_decay_ms", true},
    [HT_CTL_DIRTY_DECAY] = {"mallctl", true, true, OF_MALLCTL, "arenas.dirty_decay_ms", true},
    [HT_CTL_MUZZY_DECAY] = {"mallctl", true, true, OF_MALLCTL, "arenas.muzzy_decay_ms", true},
    [HT_CTL_BACKGROUND_THREAD] = {"mallctl", true, true, OF_MALLCTL, "background_thread", true},
    [HT_CTL_TCACHE_FLUSH] = {"mallctl", true, false, OF_MALLCTL, "thread.tcache.flush"},
    [HT_CTL_MALLCTL] = {"mallctl", false, false, OF_WORD},
    [HT_CTL_MADVISE] = {"madvise", true, false, OF_ADVICE},
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
    case HT_ADVICE_WRITTEN: return "written again";
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

// Does it set something that stays so?
static bool sets(const struct ht_control_call *call) {
    return ht_control_changes(call) && known[call->number].sets;
}

static void print_parameter(const struct ht_control_call *call, bool whole, char *text) {
    const char *name = parameter_name(call->first);
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, call->first);
    if (whole)
        snprintf(text, HT_CONTROL_TEXT_BYTES, "mallopt(%s, %" PRId64 ")", name ? name : number, call->second);
    else snprintf(text, HT_CONTROL_TEXT_BYTES, "mallopt(%s)", name ? name : number);
}

static void print_mallctl(const struct ht_control_call *call, bool whole, char *text) {
    const char *name = known[call->number].name, *n = whole ? strchr(name, 'N') : NULL;
    char value[32] = "", number[24];
    snprintf(number, sizeof number, "%" PRId64, call->first);
    if (whole && known[call->number].has_value) snprintf(value, sizeof value, ", %" PRId64, call->second);
    if (n)
        snprintf(text, HT_CONTROL_TEXT_BYTES, "mallctl(%.*s%s%s%s)", (int)(n - name), name, number, n + 1,
                 value);
    else snprintf(text, HT_CONTROL_TEXT_BYTES, "mallctl(%s%s)", name, value);
}

static void print_word(const struct ht_control_call *call, char *text) {
    char word[HT_CONTROL_WORD_BYTES + 1] = "";
    for (unsigned i = 0; i < HT_CONTROL_WORD_BYTES; i++) {
        char c = (char)((i < 7 ? call->first >> 8 * i : call->second >> 8 * (i - 7)) & 0xff);
        if (!c) break;
        word[i] = c > ' ' && c < 127 ? c : '?';
    }
    snprintf(text, HT_CONTROL_TEXT_BYTES, "mallctl(%s)", word);
}

static const char *print(const struct ht_control_call *call, bool whole, char *text) {
    enum { ROOM = HT_CONTROL_TEXT_BYTES };
    const char *symbol = ht_control_symbol(call->number);
    if (!symbol) {
        snprintf(text, ROOM, "unknown");
        return text;
    }
    switch (known[call->number].form) {
    case OF_PARAMETER: print_parameter(call, whole, text); break;
    case OF_MALLCTL: print_mallctl(call, whole, text); break;
    case OF_WORD: print_word(call, text); break;
    case OF_ADVICE: snprintf(text, ROOM, "madvise(%s)", ht_advice_name((unsigned)call->first)); break;
    case WITH_VALUE:
        if (whole) snprintf(text, ROOM, "%s(%" PRId64 ")", symbol, call->second);
        else snprintf(text, ROOM, "%s", symbol);
        break;
    case PLAIN: snprintf(text, ROOM, whole ? "%s()" : "%s", symbol); break;
    }
    return text;
}

const char *ht_control_name(const struct ht_control_call *call, char text[HT_CONTROL_TEXT_BYTES]) {
    return print(call, false, text);
}

void ht_control_settings_note(struct ht_control_settings *settings, const struct ht_control_call *call) {
    unsigned i = 0;
    if (!sets(call)) return;
    while (i < settings->count &&
           (settings->call[i].number != call->number || settings->call[i].first != call->first))
        i++;
    if (i == HT_CONTROL_SETTINGS) return;
    settings->call[i] = *call;
    if (i == settings->count) settings->count++;
}

void ht_control_counts_add(struct ht_control_counts *counts, const struct ht_control_call *call,
                           uint64_t calls) {
    enum form form = call->number < HT_CTL_NUMBERS ? known[call->number].form : PLAIN;
    int64_t first = form == OF_PARAMETER || form == OF_WORD || form == OF_ADVICE ? call->first : 0;
    int64_t second = form == OF_WORD ? call->second : 0;
    if (form == OF_ADVICE && first == HT_ADVICE_WRITTEN) return;  // nobody's call
    for (unsigned i = 0; i < HT_CONTROL_COUNTS; i++) {
        struct ht_control_count *count = &counts->count[i];
        if (count->calls &&
            (count->number != call->number || count->first != first || count->second != second))
            continue;
        count->number = call->number;
        count->first = first;
        count->second = second;
        count->calls += calls;
        return;
    }
    counts->others += calls;
}

const char *ht_control_text(const struct ht_control_call *call, char text[HT_CONTROL_TEXT_BYTES]) {
    return print(call, true, text);
}
