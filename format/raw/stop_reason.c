// SPDX-License-Identifier: Apache-2.0
#include "stop_reason.h"

#include <stdio.h>
#include <string.h>

#include "older_libc.h"

const char *ht_stop_words(const struct ht_raw_header *header, char text[HT_STOP_TEXT_BYTES]) {
    const char *why = header->stop_errno ? strerrordesc_np((int)header->stop_errno) : NULL;
    switch (header->stop_reason) {
    case HT_STOP_NONE: return NULL;
    case HT_STOP_NO_SPACE:
        snprintf(text, HT_STOP_TEXT_BYTES, "no space%s%s", why ? ": " : "", why ? why : "");
        break;
    case HT_STOP_SIZE_LIMIT: snprintf(text, HT_STOP_TEXT_BYTES, "size limit"); break;
    case HT_STOP_SANDBOX:
        snprintf(text, HT_STOP_TEXT_BYTES,
                 "the program forbade system calls (seccomp) or the cycle counter, and the prepared space "
                 "is full");
        break;
    case HT_STOP_FOLDER:
        snprintf(text, HT_STOP_TEXT_BYTES,
                 "never begun: the folder's file system may fail to store data, which would end the "
                 "program; name another folder by MALLOC_WRAP_OUT or -o");
        break;
    case HT_STOP_MEMORY:
        snprintf(
            text, HT_STOP_TEXT_BYTES,
            "its folder is in memory, and the program needs the remaining memory; choose a folder on a disk");
        break;
    case HT_STOP_EXIT:
        snprintf(
            text, HT_STOP_TEXT_BYTES,
            "the program made more calls after its exit than the log had room for, and it could not grow%s%s",
            why ? ": " : "", why ? why : "");
        break;
    case HT_STOP_CONTROL: snprintf(text, HT_STOP_TEXT_BYTES, "ended by heaptape ctl"); break;
    default: snprintf(text, HT_STOP_TEXT_BYTES, "unknown reason %u", header->stop_reason);
    }
    return text;
}

bool ht_stopped_early(const struct ht_raw_header *header) {
    return header->state == HT_RAW_STOPPED && header->stop_reason != HT_STOP_CONTROL;
}
