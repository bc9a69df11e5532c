// SPDX-License-Identifier: Apache-2.0
// The verbs of the heaptape program. Each gets argv from its own name on, and returns an exit status.
#ifndef HEAPTAPE_VERBS_H
#define HEAPTAPE_VERBS_H

#include "verb_page.h"

int ht_verb_record(int argc, char **argv);
int ht_verb_count(int argc, char **argv);
int ht_verb_calibrate(int argc, char **argv);
int ht_verb_ctl(int argc, char **argv);
int ht_verb_convert(int argc, char **argv);
int ht_verb_names(int argc, char **argv);
int ht_verb_info(int argc, char **argv);
int ht_verb_dump(int argc, char **argv);
int ht_verb_slice(int argc, char **argv);
int ht_verb_extend(int argc, char **argv);
int ht_verb_share(int argc, char **argv);
int ht_verb_lint(int argc, char **argv);
int ht_verb_stats(int argc, char **argv);
int ht_verb_replay(int argc, char **argv);
int ht_verb_allocators(int argc, char **argv);
int ht_verb_walk(int argc, char **argv);

extern const struct ht_page ht_page_record, ht_page_ctl, ht_page_convert, ht_page_info, ht_page_dump,
    ht_page_slice, ht_page_lint, ht_page_stats, ht_page_replay, ht_page_count, ht_page_calibrate,
    ht_page_names, ht_page_extend, ht_page_share, ht_page_allocators, ht_page_walk;

#endif
