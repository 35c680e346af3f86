/* SPDX-License-Identifier: Apache-2.0 */
/* An open hash of ids over one block of texts. */
#include "data/tokenizer/vocab.h"

#include "base/memory.h"

#include <string.h>
#include <xxhash.h>

enum {
    FREE_IDS = 65536, /* that need no token to explain them */
    IDS_PER_TOKEN = 16
};

int64_t cero_vocab_id_limit(int64_t count)
{
    int64_t limit = FREE_IDS + IDS_PER_TOKEN * count;

    return limit < CERO_VOCAB_MAX ? limit : CERO_VOCAB_MAX;
}

void cero_vocab_cleanup(cero_vocab *vocab)
{
    cero_text_cleanup(&vocab->text);
    cero_delete(vocab->entry);
    cero_delete(vocab->slot);
    *vocab = (cero_vocab){0};
}

const char *cero_vocab_text(const cero_vocab *vocab, int64_t id, size_t *length)
{
    if (id < 0 || id >= vocab->size || vocab->entry[id].offset < 0) {
        return NULL;
    }
    *length = (size_t)vocab->entry[id].length;
    return vocab->text.data + vocab->entry[id].offset;
}

/* The slot that holds the text, or the free one where it belongs. */
static int64_t find_slot(const cero_vocab *vocab, const char *text, size_t length)
{
    uint64_t mask = (uint64_t)vocab->slot_count - 1;
    for (uint64_t i = XXH3_64bits(text, length) & mask;; i = (i + 1) & mask) {
        int32_t id = vocab->slot[i] - 1;
        if (id < 0) {
            return (int64_t)i;
        }
        const cero_vocab_entry *e = &vocab->entry[id];
        if ((size_t)e->length == length &&
            memcmp(vocab->text.data + e->offset, text, length) == 0) {
            return (int64_t)i;
        }
    }
}

int32_t cero_vocab_find(const cero_vocab *vocab, const char *text, size_t length)
{
    return vocab->slot_count == 0 ? -1 : vocab->slot[find_slot(vocab, text, length)] - 1;
}

static cero_status grow_slots(cero_vocab *vocab)
{
    if (2 * (vocab->count + 1) <= vocab->slot_count) {
        return CERO_OK;
    }
    int64_t count = vocab->slot_count == 0 ? 1024 : 2 * vocab->slot_count;
    int32_t *slot = cero_new((size_t)count, sizeof(slot[0]));
    if (slot == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a table of %lld tokens", (long long)count);
    }
    cero_delete(vocab->slot);
    vocab->slot = slot;
    vocab->slot_count = count;
    for (int64_t id = 0; id < vocab->size; id++) {
        size_t length;
        const char *text = cero_vocab_text(vocab, id, &length);
        if (text != NULL) {
            vocab->slot[find_slot(vocab, text, length)] = (int32_t)id + 1;
        }
    }
    return CERO_OK;
}

static cero_status grow_entries(cero_vocab *vocab, int64_t size)
{
    while (size > vocab->capacity) {
        CERO_TRY(cero_grow((void **)&vocab->entry, vocab->capacity, &vocab->capacity,
                           sizeof(vocab->entry[0])));
    }
    for (; vocab->size < size; vocab->size++) {
        vocab->entry[vocab->size] = (cero_vocab_entry){.offset = -1};
    }
    return CERO_OK;
}

cero_status cero_vocab_add(cero_vocab *vocab, int64_t id, const char *text, size_t length)
{
    if (id < 0 || id >= CERO_VOCAB_MAX) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "token id %lld is outside 0..%d", (long long)id,
                         CERO_VOCAB_MAX - 1);
    }
    CERO_TRY(grow_slots(vocab));
    int64_t slot = find_slot(vocab, text, length);
    if (vocab->slot[slot] != 0) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "the token has ids %d and %lld", vocab->slot[slot] - 1,
                         (long long)id);
    }
    CERO_TRY(grow_entries(vocab, id + 1));
    if (vocab->entry[id].offset >= 0) {
        return CERO_FAIL(CERO_ERR_CORRUPT, "two tokens have id %lld", (long long)id);
    }
    int64_t offset = (int64_t)vocab->text.length;
    cero_text_append(&vocab->text, text, length);
    CERO_TRY(cero_text_finish(&vocab->text));
    vocab->entry[id] = (cero_vocab_entry){.offset = offset, .length = (int64_t)length};
    vocab->slot[slot] = (int32_t)id + 1;
    vocab->count++;
    return CERO_OK;
}
