// SPDX-License-Identifier: Apache-2.0
// What must hold before the first file is opened.
#ifndef HEAPTAPE_STANDARD_STREAMS_H
#define HEAPTAPE_STANDARD_STREAMS_H

// Occupies standard input, output and error where they are closed: what is opened first would get their
// numbers, and what is printed would go into it. Printing there still fails, and is reported as such.
void ht_standard_streams_occupy(void);

#endif
