#include "site_table.h"

#include <stdlib.h>
#include <string.h>

void ht_site_table_free(struct ht_site_table *table) {
    free(table->modules_json);
    free(table->locations);
    free(table->callers);
    free(table->sites);
    free(table->names);
    free(table->strings);
    free(table->string_at);
    *table = (struct ht_site_table){0};
}

const char *ht_site_table_index_strings(struct ht_site_table *table) {
    const char *at = table->strings, *end = at + table->strings_bytes;
    size_t count = 0;
    for (const char *byte = at; byte < end; byte++) count += *byte == 0;
    free(table->string_at);
    table->string_at = malloc((count + 1) * sizeof *table->string_at);
    if (!table->string_at) return "not enough memory for the call sites";
    table->strings_count = 0;
    for (; at < end; at += strlen(at) + 1) table->string_at[table->strings_count++] = (size_t)(at - table->strings);
    for (size_t i = 0; i < table->names_count; i++)
        if (table->names[i].function > count || table->names[i].file > count) return "expected names of known strings";
    return NULL;
}

size_t ht_site_names(const struct ht_site_table *table, uint32_t location, const struct ht_frame_name **names) {
    size_t low = 0, high = table->names_count, count = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->names[middle].location < location) low = middle + 1;
        else high = middle;
    }
    *names = table->names + low;
    while (low + count < table->names_count && table->names[low + count].location == location) count++;
    return count;
}
