// SPDX-License-Identifier: Apache-2.0
#include "addition.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confined.h"
#include "json_values.h"
#include "package_library.h"

static int refuse(struct addition *addition, const char *format, const char *what, const char *more) {
    char text[400];
    snprintf(text, sizeof text, format, what, more);
    addition->error.status = HT_EXIT_INPUT;
    snprintf(addition->error.message, sizeof addition->error.message, "%.300s: %s", addition->path, text);
    return -1;
}

// The version, and by what it is known; NULL if nothing says it.
static const char *known_version(const struct addition *addition, const struct package_library *package,
                                 const char **evidence) {
    const struct proved_library *proved = &package->file[package->chosen].proved;
    *evidence = *proved->version            ? proved->evidence
                : *package->package_version ? "the version of its package"
                                            : addition->known_by;
    return *proved->version            ? proved->version
           : *package->package_version ? package->package_version
                                       : addition->known_version;
}

static bool begins_with_version(const char *text, const char *version) {
    size_t length = strlen(version);
    return !strncmp(text, version, length) && (!text[length] || !strchr("0123456789.", text[length]));
}

static int name_as_wanted(struct addition *addition, const struct ht_allocator *kind, const char *version,
                          const char **evidence) {
    const char *wanted_version;
    if (ht_added_kind(addition->wanted_name, &wanted_version) != kind)
        return refuse(addition, "expected %s, which --name gives, found %s", addition->wanted_name,
                      kind->name);
    if (version && !begins_with_version(wanted_version, version))
        return refuse(addition, "expected the version that --name gives, %s, found %s", wanted_version,
                      version);
    if (!version) *evidence = "--name";
    snprintf(addition->name, sizeof addition->name, "%s", addition->wanted_name);
    return 0;
}

static int name_it(struct addition *addition, const struct package_library *package, const char **evidence) {
    const struct ht_allocator *kind = package->file[package->chosen].proved.kind;
    const char *version = known_version(addition, package, evidence), *same;
    if (addition->wanted_name) return name_as_wanted(addition, kind, version, evidence);
    if (!version)
        return refuse(addition, "expected %s to say its version, found none: give it by --name %s@VERSION",
                      kind->name, kind->name);
    int length = snprintf(addition->name, sizeof addition->name, "%s@%s", kind->name, version);
    if (length < (int)sizeof addition->name && ht_added_kind(addition->name, &same) == kind) return 0;
    return refuse(addition, "expected a version that begins with a digit, found %s%s", version, "");
}

static int put_manifest(struct addition *addition, const struct package_library *package,
                        const char *evidence) {
    json_t *made = json_pack("{s:s, s:s}", "version", strchr(addition->name, '@') + 1, "library",
                             package_library_name(package, package->chosen));
    if (package->is_libc)
        json_object_set_new(made, "loader", json_string(package_library_name(package, package->loader)));
    json_set_known_text(made, "evidence", evidence);
    json_set_known_text(made, "source", addition->source);
    json_set_known_text(made, "source_sha256", addition->sha256);
    char *text = json_dumps(made, JSON_INDENT(2));
    json_decref(made);
    int failed = text ? added_entry_put_text(&addition->entry, HT_ADDED_MANIFEST, text, &addition->error)
                      : ht_error_memory(&addition->error, addition->path, "cannot write what it is");
    free(text);
    return failed;
}

static int put_files(struct addition *addition, const struct package_library *package) {
    for (size_t i = 0; i < package->count; i++)
        if (package_library_takes(package, i) &&
            added_entry_put(&addition->entry, package_library_name(package, i), package->file[i].fd,
                            &addition->error))
            return -1;
    return 0;
}

static int make(void *context, struct ht_error *error) {
    struct addition *addition = context;
    struct package_library package;
    const char *evidence = NULL;
    int failed = package_library_open(&package, addition->fd, addition->path, error);
    if (!failed) failed = name_it(addition, &package, &evidence);
    if (!failed) failed = put_files(addition, &package);
    if (!failed) failed = put_manifest(addition, &package, evidence);
    if (!failed && !package.is_libc)
        snprintf(addition->libc, sizeof addition->libc, "%s", package.file[package.chosen].proved.libc);
    package_library_close(&package);
    return failed;
}

int addition_make(struct addition *addition) {
    int failed = confined_run(make, addition, addition->path, &addition->error);
    addition->name[sizeof addition->name - 1] = addition->libc[sizeof addition->libc - 1] = 0;
    return failed;
}
