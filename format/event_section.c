#include "event_section.h"

// How many of the columns that code slots a section has filled.
struct coded {
    uint32_t births, named, slots;
};

void ht_section_coder_init(struct ht_section_coder *coder) {
    for (unsigned op = 0; op < 256; op++) coder->shape[op] = ht_op_shape((uint8_t)op);
}

// Codes the slot of one event.
static void code_slot(const struct ht_event_section *section, struct ht_section_coder *coder,
                      struct coded *coded, uint32_t thread, uint32_t row, const struct ht_op_shape shape) {
    uint32_t slot = section->slot[row], code;
    if (shape.makes_object) {
        code = slot_coder_encode_birth(&coder->slots, thread, slot);
        coder->birth[coded->births++] = code;
        coder->slot[coded->slots] = slot;
        coded->slots += code == HT_BIRTH_EXPLICIT;
    } else {
        bool reborn =
            !shape.ends_object && ht_functions[ht_op_function(section->op[row])].kind == HT_KIND_REALLOC;
        code = slot_coder_encode_named(&coder->slots, thread, slot, shape.ends_object, reborn,
                                       section->own[row]);
        coder->named[coded->named++] = code;
        coder->slot[coded->slots] = slot;
        coded->slots += code < HT_NAMED_BY_BIRTH;
    }
}

// Codes all slots of a full section at once: with the slots known, their hash entries can be fetched ahead.
static struct coded code_slots(const struct ht_event_section *section, struct ht_section_coder *coder) {
    enum { AHEAD = 12 };
    struct coded coded = {0};
    slot_coder_begin(&coder->slots);
    for (uint32_t run = 0, row = 0; run < section->runs; run++) {
        uint32_t thread = slot_coder_thread(&coder->slots, section->run_thread[run]);
        for (uint32_t end = row + section->run_length[run]; row < end; row++) {
            if (row + AHEAD < section->rows) slot_coder_prefetch(&coder->slots, section->slot[row + AHEAD]);
            const struct ht_op_shape shape = coder->shape[section->op[row]];
            if (shape.slot) code_slot(section, coder, &coded, thread, row, shape);
        }
    }
    return coded;
}

int ht_event_section_pack(const struct ht_event_section *section, struct ht_section_coder *coder,
                          struct ht_packer *packer, struct ht_payload *payload) {
    const struct coded coded = code_slots(section, coder);
    const struct {
        uint8_t id;
        const uint32_t *values;
        uint32_t count;
        bool difference;
    } column[] = {
        {HT_COLUMN_RUN_THREAD, section->run_thread, section->runs, false},
        {HT_COLUMN_RUN_LENGTH, section->run_length, section->runs, false},
        {HT_COLUMN_TIME, section->time, section->rows, false},
        {HT_COLUMN_BIRTH, coder->birth, coded.births, false},
        {HT_COLUMN_NAMED, coder->named, coded.named, false},
        {HT_COLUMN_SLOT, coder->slot, coded.slots, true},
    };
    if (ht_pack_bytes(packer, payload, HT_COLUMN_OP, section->op, section->rows)) return -1;
    for (size_t i = 0; i < sizeof column / sizeof *column; i++)
        if (ht_pack_u32(packer, payload, column[i].id, column[i].values, column[i].count,
                        column[i].difference))
            return -1;
    if (ht_pack_u64(packer, payload, HT_COLUMN_SIZE, section->size, section->sizes, 0)) return -1;
    return ht_pack_u64(packer, payload, HT_COLUMN_EXTRA, section->extra, section->extras, 0);
}
