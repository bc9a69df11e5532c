// Sizes and times as people write them in options.
#ifndef HEAPTAPE_OPTION_VALUES_H
#define HEAPTAPE_OPTION_VALUES_H

#include <stdbool.h>
#include <stdint.h>

// "4096", "64K", "1.5GiB", "2 TB": a number, whole or with decimals, and what it counts: nothing: plain_bytes
// each; B: bytes; K, M, G, T or KiB, MiB, GiB, TiB (in upper or lower case): powers of 1024; kB, MB, GB, TB:
// powers of 1000. False if it is none of that or beyond 2^63.
bool ht_parse_bytes(const char *text, uint64_t plain_bytes, uint64_t *bytes);

// "90", "90s", "500ms", "5m", "1.5h": seconds unless it says otherwise. False if it is none of that.
bool ht_parse_duration(const char *text, uint64_t *ns);

#endif
