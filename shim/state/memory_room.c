// SPDX-License-Identifier: Apache-2.0
// Control groups of both versions, where systemd and containers mount them. A group's limit holds for all below
// it, so every level is asked. In a container the path may be the host's, of which nothing is there: the mount's
// own root then is the container's group.
#include "memory_room.h"

#include <stdbool.h>
#include <string.h>

#include "sys.h"
#include "text.h"

enum { PATH_ROOM = 1024, TEXT_ROOM = 8192 };

// "No limit" is a word in one version, and in the other a number that no machine reaches.
static const uint64_t LIMIT_MAX = UINT64_C(1) << 62;

// The names of one version's control groups.
static const struct version {
    const char *mount, *limit, *usage, *kept, *kept_active;
} versions[2] = {{"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                  "\ntotal_inactive_file ", "\ntotal_active_file "},
                 {"/sys/fs/cgroup", "/memory.max", "/memory.current", "\ninactive_file ", "\nactive_file "}};

// Not on the stack, which may be small.
static char path[PATH_ROOM], text[TEXT_ROOM];

static bool read_text(const char *name) {
    int fd = sys_open(name, O_RDONLY | O_CLOEXEC, 0);
    size_t used = 0;
    long got = 0;
    while (fd >= 0 && used < sizeof text - 1 && (got = sys_read(fd, text + used, sizeof text - 1 - used)) > 0)
        used += (size_t)got;
    if (fd >= 0) sys_close(fd);
    text[used] = 0;
    return used > 0;
}

// Reads a file of the group whose folder is the first `length` bytes of the path.
static bool read_of_group(size_t length, const char *name) {
    struct text whole = {path + length, path + sizeof path - 1};
    text_string(&whole, name);
    *whole.at = 0;
    bool read = whole.at < whole.end && read_text(path);
    path[length] = 0;
    return read;
}

static uint64_t room_of_group(const struct version *version, size_t length) {
    if (!read_of_group(length, version->limit)) return UINT64_MAX;
    uint64_t limit = text_number_at(text);
    if (limit >= LIMIT_MAX || !read_of_group(length, version->usage)) return UINT64_MAX;
    uint64_t used = text_number_at(text), kept = 0;
    if (read_of_group(length, "/memory.stat")) {
        uint64_t inactive = text_number_behind(text, version->kept),
                 active = text_number_behind(text, version->kept_active);
        kept = (inactive < LIMIT_MAX ? inactive : 0) + (active < LIMIT_MAX ? active : 0);
    }
    used -= kept < used ? kept : used;
    return limit > used ? limit - used : 0;
}

// The room of a group and all those above it. The path begins with `mount_length` bytes that are the mount's.
static uint64_t room_of_groups(const struct version *version, size_t mount_length) {
    uint64_t least = UINT64_MAX;
    for (size_t length = strlen(path);; length--) {
        if (length > mount_length && path[length] != '/' && path[length]) continue;
        path[length] = 0;
        uint64_t room = room_of_group(version, length);
        if (room < least) least = room;
        if (length <= mount_length) return least;
    }
}

// "5:memory:/a/b" in the first version, "0::/a/b" in the second.
static bool is_of_version(const char *line, unsigned version) {
    const char *controllers = strchr(line, ':');
    if (!controllers) return false;
    size_t length = strcspn(++controllers, ":");
    if (version == 1) return !strncmp(line, "0::", 3);
    for (const char *word = controllers; word < controllers + length; word += strcspn(word, ",:") + 1)
        if (!strncmp(word, "memory", 6) && (word[6] == ',' || word[6] == ':')) return true;
    return false;
}

// Puts the group's folder into the path. Returns how much of it is the mount's; 0: there is no such version.
static size_t find_group(const char *root, unsigned version) {
    struct text whole = {path, path + sizeof path - 1};
    text_string(&whole, root);
    text_string(&whole, "/proc/self/cgroup");
    *whole.at = 0;
    if (!read_text(path)) return 0;
    for (char *line = text, *end; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        if (!is_of_version(line, version)) continue;
        const char *group = strchr(strchr(line, ':') + 1, ':') + 1;
        whole.at = path;
        text_string(&whole, root);
        text_string(&whole, versions[version].mount);
        size_t mount_length = (size_t)(whole.at - path);
        for (; group < end; group++) text_char(&whole, *group);
        *whole.at = 0;
        // One above the mount's root, or too long a name: the root's limit is what can be known.
        if (whole.at == whole.end || strstr(path, "/..")) path[mount_length] = 0;
        return mount_length;
    }
    return 0;
}

static uint64_t room_of_machine(const char *root) {
    struct text whole = {path, path + sizeof path - 1};
    text_string(&whole, root);
    text_string(&whole, "/proc/meminfo");
    *whole.at = 0;
    uint64_t available_kib = read_text(path) ? text_number_behind(text, "MemAvailable:") : UINT64_MAX;
    return available_kib >= LIMIT_MAX / 1024 ? UINT64_MAX : available_kib * 1024;
}

uint64_t memory_room_bytes(const char *root) {
    uint64_t least = room_of_machine(root);
    for (unsigned version = 0; version < 2; version++) {
        size_t mount_length = find_group(root, version);
        uint64_t room = mount_length ? room_of_groups(&versions[version], mount_length) : UINT64_MAX;
        if (room < least) least = room;
    }
    return least;
}
