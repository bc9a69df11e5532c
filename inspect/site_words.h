// SPDX-License-Identifier: Apache-2.0
// What verbs print of call sites.
#ifndef HEAPTAPE_SITE_WORDS_H
#define HEAPTAPE_SITE_WORDS_H

#include <jansson.h>

#include "site_table.h"

enum { SITE_TEXT_BYTES = 8192 };

struct site_words {
    struct ht_site_table table;
    json_t *modules;  // the list of them
    bool *skipped;    // by location: whether all of its frames are of wrappers or runtime libraries
};

// Returns 0 or -1 with error. Empty for a trace without call sites.
int site_words_read(struct site_words *words, struct ht_trace_reader *reader, struct ht_error *error);
void site_words_free(struct site_words *words);

// "" where it is not known.
const char *site_words_module(const struct site_words *words, const struct ht_frame *frame);

// "FUNCTION FILE:LINE", or "MODULE+0xOFFSET", the module without its folder.
void site_words_frame(const struct site_words *words, const struct ht_frame *frame, bool with_folder,
                      char text[SITE_TEXT_BYTES]);

// The innermost frame, and the nearest that is no wrapper of an allocator. False: the site has no stack.
bool site_words_find(const struct site_words *words, uint32_t site, struct ht_frame *innermost,
                     struct ht_frame *caller);

// The text of the nearest frame that is no wrapper. False: the site has no stack.
bool site_words_caller(const struct site_words *words, uint32_t site, char text[SITE_TEXT_BYTES]);

#endif
