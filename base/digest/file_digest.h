// SPDX-License-Identifier: Apache-2.0
// The SHA-256 of a file, so that a result names the exact trace that it came from.
#ifndef HEAPTAPE_FILE_DIGEST_H
#define HEAPTAPE_FILE_DIGEST_H

enum { HT_DIGEST_TEXT_BYTES = 65 };  // in hex, with the terminating zero

// Returns 0, or -1 with errno.
int ht_file_sha256(const char *path, char hex[HT_DIGEST_TEXT_BYTES]);

#endif
