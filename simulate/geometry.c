// SPDX-License-Identifier: Apache-2.0
#include "geometry.h"

#include <stdio.h>

// Golden Cove's: what virtual machines hide is most often like it.
static const struct ht_geometry usual = {.size = {.level = {[HT_L1D] = {64, 12},
                                                            [HT_L1I] = {64, 8},
                                                            [HT_L2] = {2048, 16},
                                                            [HT_DTLB] = {16, 6},
                                                            [HT_STLB] = {128, 16}}}};

#ifdef __x86_64__
#include <cpuid.h>

enum { CACHE_DATA = 1, CACHE_CODE = 2, CACHE_UNIFIED = 3, TLB_LEAF = 0x18, AMD_CACHE_LEAF = 0x8000001d };

// A number of sets that is a power of two, as the simulation indexes by bits of the address.
static struct ht_level_size level_size(uint32_t sets, uint32_t ways) {
    while (sets & (sets - 1)) sets &= sets - 1;
    return (struct ht_level_size){sets, ways};
}

// Intel's leaf 4 and AMD's 0x8000001d have one layout: a cache for each subleaf.
static bool read_caches(uint32_t leaf, struct ht_processor_size *size) {
    uint32_t a, b, c, d, found = 0;
    for (uint32_t i = 0; i < 16; i++) {
        __cpuid_count(leaf, i, a, b, c, d);
        uint32_t type = a & 31, level = a >> 5 & 7;
        if (!type) break;
        struct ht_level_size read = level_size(c + 1, (b >> 22) + 1);
        if ((b & 0xfff) + 1 != 1 << HT_LINE_SHIFT) return false;
        if (level == 1 && type == CACHE_DATA) size->level[HT_L1D] = read, found |= 1;
        if (level == 1 && type == CACHE_CODE) size->level[HT_L1I] = read, found |= 2;
        if (level == 2 && type != CACHE_CODE) size->level[HT_L2] = read, found |= 4;
    }
    return found == 7;
}

// Intel's leaf 0x18: of pages of 4 KiB, for data or both, the first and the second level.
static bool read_tlbs(struct ht_processor_size *size) {
    uint32_t a, b, c, d, last, found = 0;
    __cpuid_count(TLB_LEAF, 0, last, b, c, d);
    for (uint32_t i = 0; i <= last && i < 32; i++) {
        __cpuid_count(TLB_LEAF, i, a, b, c, d);
        uint32_t type = d & 31, level = d >> 5 & 7;
        if ((type != CACHE_DATA && type != CACHE_UNIFIED) || !(b & 1) || !c) continue;
        struct ht_level_size read = level_size(c, b >> 16);
        if (d >> 8 & 1) read = (struct ht_level_size){1, c * (b >> 16)};  // fully associative
        if (level == 1) size->level[HT_DTLB] = read, found |= 1;
        if (level == 2) size->level[HT_STLB] = read, found |= 2;
    }
    return found == 3;
}

void ht_geometry_read(struct ht_geometry *geometry) {
    struct ht_processor_size read = usual.size;
    *geometry = usual;
    geometry->caches_known =
        (__get_cpuid_max(0, NULL) >= 4 && read_caches(4, &read)) ||
        (__get_cpuid_max(0x80000000, NULL) >= AMD_CACHE_LEAF && read_caches(AMD_CACHE_LEAF, &read));
    geometry->caches_known = geometry->caches_known && ht_processor_takes(&read);
    if (geometry->caches_known) geometry->size = read;
    read = geometry->size;
    geometry->tlbs_known =
        __get_cpuid_max(0, NULL) >= TLB_LEAF && read_tlbs(&read) && ht_processor_takes(&read);
    if (geometry->tlbs_known) geometry->size = read;
}
#else
void ht_geometry_read(struct ht_geometry *geometry) { *geometry = usual; }
#endif

const char *ht_geometry_text(char text[HT_GEOMETRY_TEXT_BYTES], const struct ht_processor_size *size) {
    int used = 0;
    for (int i = 0; i < HT_LEVELS; i++)
        used += snprintf(text + used, (size_t)(HT_GEOMETRY_TEXT_BYTES - used), "%s%ux%u", i ? "," : "",
                         size->level[i].sets, size->level[i].ways);
    return text;
}
