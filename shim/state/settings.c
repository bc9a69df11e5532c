// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"
#include "file_systems.h"
#include "real.h"
#include "sys.h"
#include "text.h"

struct settings settings;

// The environment that the process began with, for calls from so early that libc has not set environ.
static const char *first_environment(const char *name, size_t length) {
    static char text[32 << 10];
    static size_t bytes;
    if (!bytes) {
        int fd = sys_open("/proc/self/environ", O_RDONLY | O_CLOEXEC, 0);
        long got = fd < 0 ? 0 : sys_read(fd, text, sizeof text - 1);
        if (fd >= 0) sys_close(fd);
        bytes = got > 0 ? (size_t)got : 0;
    }
    for (const char *at = text; at < text + bytes; at += strlen(at) + 1)
        if (!strncmp(at, name, length) && at[length] == '=') return at + length + 1;
    return NULL;
}

static bool runs_with_others_rights(void) { return getauxval(AT_SECURE); }

const char *environment(const char *name) {
    size_t length = strlen(name);
    if (runs_with_others_rights()) return NULL;
    if (!environ) return first_environment(name, length);
    for (char **variable = environ; *variable; variable++)
        if (!strncmp(*variable, name, length) && (*variable)[length] == '=') return *variable + length + 1;
    return NULL;
}

// A mount's line has all its options, which are a page at most: not on the stack, which may be small.
enum { LINE_ROOM = 16 << 10 };
static char mounts[LINE_ROOM + 1];
static char upper[4096];

// The kernel packs a device's two numbers so.
static unsigned major_of(uint64_t device) { return (unsigned)(device >> 8) & 0xfff; }
static unsigned minor_of(uint64_t device) {
    return (unsigned)(device & 0xff) | ((unsigned)(device >> 12) & 0xfff00);
}

// Looks for the overlay of that device in all whole lines of the text. Returns how much of the text they are.
static size_t look_in_lines(uint64_t device, bool *found) {
    char *line = mounts, *end;
    while (!*found && (end = strchr(line, '\n'))) {
        *end = 0;
        *found = overlay_upper_folder(line, major_of(device), minor_of(device), upper, sizeof upper);
        line = end + 1;
    }
    return (size_t)(line - mounts);
}

static bool find_upper_folder(uint64_t device) {
    int fd = sys_open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC, 0);
    size_t used = 0;
    long got = 0;
    bool found = false;
    while (fd >= 0 && !found && (got = sys_read(fd, mounts + used, LINE_ROOM - used)) > 0) {
        used += (size_t)got;
        mounts[used] = 0;
        size_t done = look_in_lines(device, &found);
        // A line that has no room is no overlay's that could be read.
        if (!done && used == LINE_ROOM) done = used;
        used -= done;
        memmove(mounts, mounts + done, used);
    }
    if (fd >= 0) sys_close(fd);
    return found;
}

bool log_folder_status(const char *folder, struct statfs *status) {
    struct stat place;
    struct statfs under;
    if (sys_statfs(folder, status)) return false;
    if ((int)status->f_type != HT_OVERLAY || sys_stat(folder, &place)) return true;
    if (find_upper_folder((uint64_t)place.st_dev) && !sys_statfs(upper, &under)) *status = under;
    return true;
}

static const char *default_folder(void) {
    struct statfs status;
    bool unfit = log_folder_status(LOG_FOLDER_FIRST, &status) && file_system_unfit(&status);
    return unfit && !settings.any_folder ? LOG_FOLDER_SECOND : LOG_FOLDER_FIRST;
}

// The folder that logs go to is made absolute: children may change directory.
static bool choose_directory(void) {
    const char *wanted = environment("MALLOC_WRAP_OUT");
    if (!wanted || !*wanted) wanted = default_folder();
    size_t used = 0;
    if (*wanted != '/') {
        long length = sys_getcwd(settings.directory, sizeof settings.directory);
        if (length <= 0) return false;
        used = (size_t)length;
        settings.directory[used - 1] = '/';
    }
    size_t length = strlen(wanted);
    if (used + length >= sizeof settings.directory) return false;
    memcpy(settings.directory + used, wanted, length + 1);
    return true;
}

// Shell patterns with * and ? only: libc's fnmatch may allocate.
static bool matches(const char *pattern, const char *end, const char *name) {
    const char *star = NULL, *resumed = NULL;
    while (*name) {
        if (pattern < end && *pattern == '*') {
            star = pattern++;
            resumed = name;
        } else if (pattern < end && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++resumed;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*') pattern++;
    return pattern == end;
}

// One of the comma-separated patterns must fit the executable's name or the thread's (which a script's
// interpreter takes from the script).
static bool is_wanted(void) {
    const char *patterns = environment("MALLOC_WRAP_ONLY");
    if (!patterns || !*patterns) return true;
    char path[4096], thread[17] = "";
    long length = sys_readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    sys_prctl(PR_GET_NAME, thread);
    for (const char *end; *patterns; patterns = *end ? end + 1 : end) {
        end = patterns + strcspn(patterns, ",");
        if (matches(patterns, end, name) || matches(patterns, end, thread)) return true;
    }
    return false;
}

static void ignore(const char *name) {
    struct text text = {settings.ignored, settings.ignored + sizeof settings.ignored - 1};
    text.at += strlen(settings.ignored);
    if (text.at > settings.ignored) text_char(&text, ' ');
    text_string(&text, name);
    *text.at = 0;
}

// The value of a variable that is a decimal number, with `decimals` digits behind the point kept: "2.5" with 3 is 2500. 0: it is
// not set, or is none, or more than 64 bits hold, and is noted as ignored.
static uint64_t number_in(const char *name, unsigned decimals) {
    const char *text = environment(name), *first = text;
    uint64_t value = 0;
    bool in_fraction = false, overflows = false;
    if (!text || !*text) return 0;
    for (; (*text >= '0' && *text <= '9') || (*text == '.' && !in_fraction); text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (*text == '.') in_fraction = true;
        else if (!in_fraction || decimals)
            overflows |=
                __builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value);
        if (in_fraction && *text != '.' && decimals) decimals--;
    }
    for (; decimals; decimals--) overflows |= __builtin_mul_overflow(value, 10, &value);
    if (!*text && !overflows && strcmp(first, ".")) return value;
    ignore(name);
    return 0;
}

void settings_find_page_bytes(void) {
    if (!settings.page_bytes) settings.page_bytes = (uint32_t)getauxval(AT_PAGESZ);
}

bool settings_read(void) {
    settings_find_page_bytes();
    if (runs_with_others_rights()) return false;
    const char *start = environment("MALLOC_WRAP_START");
    bool starts_by_hand = start && !strcmp(start, "paused");
    uint64_t any_folder = number_in("MALLOC_WRAP_ANY_FOLDER", 0),
             site_frames = number_in("MALLOC_WRAP_SITES", 0),
             delay_ns = starts_by_hand ? 0 : number_in("MALLOC_WRAP_START", 9);
    settings.any_folder = any_folder == 1;
    settings.is_of_run = environment("MALLOC_WRAP_RUN") != NULL;
    if (any_folder > 1) ignore("MALLOC_WRAP_ANY_FOLDER");
    settings.site_frames = site_frames < HT_SITE_FRAMES_MAX ? (uint32_t)site_frames : HT_SITE_FRAMES_MAX;
    settings.log_bytes_max = number_in("MALLOC_WRAP_MAX_BYTES", 0);
    if (!settings.log_bytes_max) settings.log_bytes_max = UINT64_MAX;
    settings.starts_paused = starts_by_hand || delay_ns > 0;
    if (delay_ns) settings.start_mono_ns = clock_mono_ns() + delay_ns;
    return is_wanted() && choose_directory();
}

bool settings_delay_is_over(void) {
    // The counter is cheaper than the clock and shows when to ask; a race costs one more
    // question.
    static _Atomic uint64_t ask_again_stamp;
    if (!settings.start_mono_ns) return false;
    uint64_t now = stamp_now();
    if (now < ask_again_stamp) return false;
    ask_again_stamp = now + STAMPS_PER_S / 1000;
    return clock_mono_ns() >= settings.start_mono_ns;
}
