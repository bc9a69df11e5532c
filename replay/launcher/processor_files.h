// SPDX-License-Identifier: Apache-2.0
// The kernel's files that list processors, as they are on a machine with so many.
#ifndef HEAPTAPE_PROCESSOR_FILES_H
#define HEAPTAPE_PROCESSOR_FILES_H

enum { HT_NOT_OF_PROCESSORS = -2 };

struct ht_shown_affinity;

// A descriptor of what this file, whose path has no links, shows there, at its start; -1 with errno; HT_NOT_OF_PROCESSORS: it
// shows the same there.
int ht_processor_file(const char *path, const struct ht_shown_affinity *affinity);

#endif
