// SPDX-License-Identifier: Apache-2.0
#include "linked_allocator.h"

#include <stdatomic.h>

#include "context.h"
#include "state.h"

enum { NAME_BYTES = 32 };

static struct {
    atomic_flag taken;
    _Atomic bool known;
    char name[NAME_BYTES];
    const char *version;  // NULL: not known
    const char *hooks;    // NULL: none were planned
} linked = {.taken = ATOMIC_FLAG_INIT};

// What is no letter, digit or one of ._+- in a name would be a program's mistake: it becomes a '?'.
static char readable(char c) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), digit = c >= '0' && c <= '9';
    return letter || digit || c == '.' || c == '_' || c == '+' || c == '-' ? c : '?';
}

static void note(struct ht_raw_header *header, const char *key, const char *value) {
    struct text text;
    if (!context_begin_string(header, &text)) return;
    text_string(&text, key);
    text_string(&text, value);
    context_end_string(header, &text, true);
}

static void note_hooks(struct ht_raw_header *header) {
    if (linked.hooks) note(header, "linked_hooks=", linked.hooks);
}

// The log that is there already; a forked child that has made no call yet still has its parent's.
static struct ht_raw_header *header_now(void) {
    const struct recording *recording = recorder_current();
    return recording && epoch_now() != EPOCH_NONE ? recording->header : NULL;
}

void linked_allocator_hooked(const char *why_not) {
    linked.hooks = why_not ? why_not : "set";
    struct ht_raw_header *header = header_now();
    if (header) note_hooks(header);
}

static void note_name(struct ht_raw_header *header) {
    if (!atomic_load_explicit(&linked.known, memory_order_acquire)) return;
    note(header, "linked_allocator=", linked.name);
    if (linked.version) note(header, "linked_version=", linked.version);
}

void linked_allocator_version(const char *version) { linked.version = version; }

void linked_allocator_name(const char *name) {
    if (!name || !*name || atomic_flag_test_and_set(&linked.taken)) return;
    for (size_t i = 0; i + 1 < NAME_BYTES && name[i]; i++) linked.name[i] = readable(name[i]);
    atomic_store_explicit(&linked.known, true, memory_order_release);
    struct ht_raw_header *header = header_now();
    if (header) note_name(header);
}

void linked_allocator_note(struct ht_raw_header *header) {
    note_name(header);
    note_hooks(header);
}
