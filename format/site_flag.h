// SPDX-License-Identifier: Apache-2.0
// What is known of a call site's stack.
#ifndef HEAPTAPE_SITE_FLAG_H
#define HEAPTAPE_SITE_FLAG_H

enum ht_site_flag {
    HT_SITE_CUT = 1,    // the stack is deeper than what was recorded
    HT_SITE_BROKEN = 2  // the unwinder could not go on before the thread's first frame
};

#endif
