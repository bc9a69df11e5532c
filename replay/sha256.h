// SHA-256 of a file (FIPS 180-4), so that a result names the exact trace it came from.
#ifndef HEAPTAPE_SHA256_H
#define HEAPTAPE_SHA256_H

#include <stddef.h>
#include <stdint.h>

void ht_sha256(const void *data, size_t bytes, char hex[65]);
// Returns 0, or -1 with errno.
int ht_sha256_file(const char *path, char hex[65]);

#endif
