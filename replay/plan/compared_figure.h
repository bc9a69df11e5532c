// SPDX-License-Identifier: Apache-2.0
// The figures by which allocators are compared, less being better.
#ifndef HEAPTAPE_COMPARED_FIGURE_H
#define HEAPTAPE_COMPARED_FIGURE_H

enum ht_figure {
    HT_FIGURE_TIME,
    HT_FIGURE_PEAK,
    HT_FIGURE_MEAN,
    HT_FIGURE_END,
    HT_FIGURE_PROCESS,
    HT_FIGURES
};
struct ht_figure_words {
    const char *name;         // of --fail-if and of `heaptape compare`
    const char *key;          // in JSON
    const char *less, *more;  // verdicts
};
extern const struct ht_figure_words ht_figure_words[HT_FIGURES];

#endif
