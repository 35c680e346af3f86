/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merge loops: a scan for short pieces, a heap over a linked list for long ones (n log n), and a
 * cache in front of both. Both give what the definition says: merge the pair of lowest rank, the
 * leftmost of several, until no pair is in the list.
 */
#include "data/tokenizer/bpe.h"

#include "base/memory.h"
#include "data/unicode/unicode.h"

#include <stdio.h>
#include <string.h>

enum {
    SCAN_MAX = 48,      /* symbols up to which the scan is used */
    CACHE_KEY_MAX = 15, /* bytes of a cached piece */
    CACHE_IDS = 3,      /* ids of a cached piece */
    CACHE_BITS = 16,
    CACHE_SLOTS = 1 << CACHE_BITS
};

static const uint32_t NO_RANK = UINT32_MAX;

typedef struct cache_slot {
    uint64_t key[2]; /* bytes of the piece, its length in the top byte; 0 is free */
    int32_t count;
    int32_t id[CACHE_IDS];
} cache_slot;

struct cero_bpe_state {
    cache_slot *cache; /* [CACHE_SLOTS], owned */
    int32_t *id;       /* [capacity], symbols of the piece at hand, owned */
    uint32_t *rank;    /* [capacity], rank of the pair that begins here, owned */
    uint32_t *next;    /* [long_capacity], linked list of long pieces, owned */
    uint32_t *prev;    /* [long_capacity] */
    uint64_t *heap;    /* [2 * long_capacity], rank << 32 | position, owned */
    int64_t heap_count;
    int64_t heap_capacity;
    int64_t capacity;
    int64_t long_capacity;
};

uint32_t cero_byte_to_char(uint8_t byte)
{
    if ((byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD)) {
        return byte;
    }
    if (byte <= ' ') {
        return 0x100 + (uint32_t)byte;
    }
    return byte == 0xAD ? 0x143 : 0x121 + (uint32_t)byte - 0x7F;
}

int cero_char_to_byte(uint32_t cp)
{
    if (cp >= 0x100 && cp <= 0x143) {
        return cp <= 0x120 ? (int)(cp - 0x100) : cp == 0x143 ? 0xAD : (int)(cp - 0x121 + 0x7F);
    }
    return cp < 0x100 && cero_byte_to_char((uint8_t)cp) == cp ? (int)cp : -1;
}

bool cero_byte_level_decode(const char *text, size_t length, cero_text *out)
{
    const uint8_t *bytes = (const uint8_t *)text;
    size_t begin = out->length;
    int n;
    for (size_t i = 0; i < length; i += (size_t)n) {
        int byte = cero_char_to_byte(cero_utf8_get(bytes + i, &n));
        if (byte < 0) {
            out->length = begin;
            return false;
        }
        char c = (char)byte;
        cero_text_append(out, &c, 1);
    }
    return true;
}

cero_status cero_bpe_init(cero_bpe *bpe, int64_t merge_count)
{
    bpe->merge_slots = 16;
    while (bpe->merge_slots < 2 * merge_count) {
        bpe->merge_slots *= 2;
    }
    bpe->merge_count = merge_count;
    bpe->merge = cero_new((size_t)bpe->merge_slots, sizeof(bpe->merge[0]));
    bpe->result = cero_new((size_t)merge_count + 1, sizeof(bpe->result[0]));
    if (bpe->merge == NULL || bpe->result == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %lld merges", (long long)merge_count);
    }
    memset(bpe->merge, 0xFF, (size_t)bpe->merge_slots * sizeof(bpe->merge[0]));
    return CERO_OK;
}

void cero_bpe_cleanup(cero_bpe *bpe)
{
    cero_vocab_cleanup(&bpe->vocab);
    cero_delete(bpe->merge);
    cero_delete(bpe->result);
    *bpe = (cero_bpe){0};
}

static inline uint64_t mix(uint64_t key)
{
    key *= UINT64_C(0x9E3779B97F4A7C15);
    return key ^ key >> 32;
}

static inline uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

void cero_bpe_add_merge(cero_bpe *bpe, int32_t left, int32_t right, int64_t rank, int32_t id)
{
    uint64_t mask = (uint64_t)bpe->merge_slots - 1;
    uint64_t key = pair_key(left, right);
    uint64_t i = mix(key) & mask;
    while (bpe->merge[i].key != UINT64_MAX && bpe->merge[i].key != key) {
        i = (i + 1) & mask;
    }
    bpe->merge[i] = (cero_bpe_merge){.key = key, .rank = (uint32_t)rank, .id = (uint32_t)id};
    bpe->result[rank] = id;
}

static inline uint32_t find_rank(const cero_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t mask = (uint64_t)bpe->merge_slots - 1;
    uint64_t key = pair_key(left, right);
    for (uint64_t i = mix(key) & mask;; i = (i + 1) & mask) {
        if (bpe->merge[i].key == key) {
            return bpe->merge[i].rank;
        }
        if (bpe->merge[i].key == UINT64_MAX) {
            return NO_RANK;
        }
    }
}

void cero_bpe_set_bytes(cero_bpe *bpe)
{
    for (int byte = 0; byte < 256; byte++) {
        uint8_t utf8[4];
        char name[8];
        int n = cero_utf8_put(cero_byte_to_char((uint8_t)byte), utf8);
        bpe->byte_id[byte] = cero_vocab_find(&bpe->vocab, (const char *)utf8, (size_t)n);
        (void)snprintf(name, sizeof(name), "<0x%02X>", (unsigned)byte);
        bpe->fallback[byte] = cero_vocab_find(&bpe->vocab, name, 6);
    }
}

cero_status cero_bpe_state_create(cero_bpe_state **out)
{
    cero_bpe_state *state = cero_new(1, sizeof(*state));
    if (state != NULL) {
        state->cache = cero_new(CACHE_SLOTS, sizeof(state->cache[0]));
    }
    if (state == NULL || state->cache == NULL) {
        cero_bpe_state_destroy(&state);
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for an encoder");
    }
    *out = state;
    return CERO_OK;
}

void cero_bpe_state_destroy(cero_bpe_state **state)
{
    if (state == NULL || *state == NULL) {
        return;
    }
    cero_delete((*state)->cache);
    cero_delete((*state)->id);
    cero_delete((*state)->rank);
    cero_delete((*state)->next);
    cero_delete((*state)->prev);
    cero_delete((*state)->heap);
    cero_delete(*state);
    *state = NULL;
}

static cero_status renew(void *field, int64_t count, size_t size)
{
    void *grown;
    memcpy(&grown, field, sizeof(grown));
    grown = cero_renew(grown, (size_t)count, size);
    if (grown == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory to encode a piece of %lld symbols",
                         (long long)count);
    }
    memcpy(field, &grown, sizeof(grown));
    return CERO_OK;
}

static cero_status reserve(cero_bpe_state *state, size_t length)
{
    if ((int64_t)length <= state->capacity) {
        return CERO_OK;
    }
    if (length >= UINT32_MAX / 2) {
        return CERO_FAIL(CERO_ERR_UNSUPPORTED,
                         "a piece of %zu bytes without a place to split is too long", length);
    }
    int64_t count = 2 * (int64_t)length;
    CERO_TRY(renew(&state->id, count, sizeof(state->id[0])));
    CERO_TRY(renew(&state->rank, count, sizeof(state->rank[0])));
    state->capacity = count;
    return CERO_OK;
}

static cero_status reserve_long(cero_bpe_state *state, int64_t n)
{
    if (n > state->long_capacity) {
        CERO_TRY(renew(&state->next, n, sizeof(state->next[0])));
        CERO_TRY(renew(&state->prev, n, sizeof(state->prev[0])));
        state->long_capacity = n;
    }
    return CERO_OK;
}

/* Merges state->id[0..n) in place by scanning for the lowest rank; returns the symbols left. */
static int64_t merge_scan(const cero_bpe *bpe, cero_bpe_state *state, int64_t n)
{
    int32_t *id = state->id;
    uint32_t *rank = state->rank;
    for (int64_t i = 0; i + 1 < n; i++) {
        rank[i] = find_rank(bpe, id[i], id[i + 1]);
    }
    while (n > 1) {
        int64_t best = 0;
        for (int64_t i = 1; i + 1 < n; i++) {
            best = rank[i] < rank[best] ? i : best;
        }
        if (rank[best] == NO_RANK) {
            break;
        }
        id[best] = bpe->result[rank[best]];
        n--;
        for (int64_t i = best + 1; i < n; i++) {
            id[i] = id[i + 1];
            rank[i - 1] = rank[i];
        }
        if (best + 1 < n) {
            rank[best] = find_rank(bpe, id[best], id[best + 1]);
        }
        if (best > 0) {
            rank[best - 1] = find_rank(bpe, id[best - 1], id[best]);
        }
    }
    return n;
}

static void heap_sink(uint64_t *heap, int64_t count, int64_t i)
{
    uint64_t value = heap[i];
    for (int64_t child = 2 * i + 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count && heap[child + 1] < heap[child]) {
            child++;
        }
        if (heap[child] >= value) {
            break;
        }
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = value;
}

static uint64_t heap_pop(cero_bpe_state *state)
{
    uint64_t top = state->heap[0];
    state->heap_count--;
    state->heap[0] = state->heap[state->heap_count];
    if (state->heap_count > 0) {
        heap_sink(state->heap, state->heap_count, 0);
    }
    return top;
}

static cero_status heap_push(cero_bpe_state *state, uint32_t rank, uint32_t position)
{
    if (rank == NO_RANK) {
        return CERO_OK;
    }
    if (state->heap_count == state->heap_capacity) {
        int64_t count = state->heap_capacity == 0 ? 256 : 2 * state->heap_capacity;
        CERO_TRY(renew(&state->heap, count, sizeof(state->heap[0])));
        state->heap_capacity = count;
    }
    uint64_t value = (uint64_t)rank << 32 | position;
    int64_t i = state->heap_count++;
    while (i > 0 && state->heap[(i - 1) / 2] > value) {
        state->heap[i] = state->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    state->heap[i] = value;
    return CERO_OK;
}

/* Links the symbols and fills the heap with all pairs. */
static cero_status heap_init(const cero_bpe *bpe, cero_bpe_state *state, int64_t n)
{
    CERO_TRY(reserve_long(state, n));
    if (n > state->heap_capacity) {
        CERO_TRY(renew(&state->heap, n, sizeof(state->heap[0])));
        state->heap_capacity = n;
    }
    state->heap_count = 0;
    for (int64_t i = 0; i < n; i++) {
        state->prev[i] = (uint32_t)(i - 1);
        state->next[i] = (uint32_t)(i + 1);
        state->rank[i] = NO_RANK;
        if (i + 1 < n) {
            state->rank[i] = find_rank(bpe, state->id[i], state->id[i + 1]);
        }
        if (state->rank[i] != NO_RANK) {
            state->heap[state->heap_count++] = (uint64_t)state->rank[i] << 32 | (uint64_t)i;
        }
    }
    for (int64_t i = state->heap_count / 2 - 1; i >= 0; i--) {
        heap_sink(state->heap, state->heap_count, i);
    }
    return CERO_OK;
}

/* As merge_scan, with a heap. An entry is stale when the rank at its position is another by now. */
static cero_status merge_heap(const cero_bpe *bpe, cero_bpe_state *state, int64_t *count)
{
    int64_t n = *count;
    CERO_TRY(heap_init(bpe, state, n));
    while (state->heap_count > 0) {
        uint64_t top = heap_pop(state);
        uint32_t at = (uint32_t)top;
        uint32_t rank = (uint32_t)(top >> 32);
        if (state->rank[at] != rank) {
            continue;
        }
        uint32_t gone = state->next[at];
        uint32_t after = state->next[gone];
        state->id[at] = bpe->result[rank];
        state->rank[gone] = NO_RANK;
        state->next[at] = after;
        state->rank[at] = NO_RANK;
        if (after < n) {
            state->prev[after] = at;
            state->rank[at] = find_rank(bpe, state->id[at], state->id[after]);
            CERO_TRY(heap_push(state, state->rank[at], at));
        }
        if (at > 0) {
            uint32_t before = state->prev[at];
            state->rank[before] = find_rank(bpe, state->id[before], state->id[at]);
            CERO_TRY(heap_push(state, state->rank[before], before));
        }
    }
    int64_t left = 0;
    for (uint32_t i = 0; i < n; i = state->next[i]) {
        state->id[left++] = state->id[i];
    }
    *count = left;
    return CERO_OK;
}

static cero_status no_token(const uint8_t *symbol, int n)
{
    char hex[16] = {0};
    for (int i = 0; i < n; i++) {
        (void)snprintf(hex + 3 * i, sizeof(hex) - 3 * (size_t)i, " %02X", symbol[i]);
    }
    return CERO_FAIL(CERO_ERR_INVALID,
                     "no token for the bytes%s of the text: the tokenizer has no unk_token and no "
                     "byte fallback",
                     hex);
}

/* Adds one symbol that is no token; *has_unk tells whether the last one was unknown as well. */
static cero_status add_unknown(const cero_bpe *bpe, cero_bpe_state *state, const uint8_t *symbol,
                               int n, int64_t *count, bool *has_unk)
{
    bool is_all = bpe->byte_fallback;
    for (int i = 0; i < n && is_all; i++) {
        is_all = bpe->fallback[symbol[i]] >= 0;
    }
    if (is_all) {
        for (int i = 0; i < n; i++) {
            state->id[(*count)++] = bpe->fallback[symbol[i]];
        }
        *has_unk = false;
        return CERO_OK;
    }
    if (bpe->unk_id < 0) {
        return no_token(symbol, n);
    }
    if (!(*has_unk && bpe->fuse_unk)) {
        state->id[(*count)++] = bpe->unk_id;
    }
    *has_unk = true;
    return CERO_OK;
}

/* Splits the piece into its first symbols, state->id[0..*count). */
static cero_status split_symbols(const cero_bpe *bpe, cero_bpe_state *state, const uint8_t *piece,
                                 size_t length, int64_t *count)
{
    bool has_unk = false;
    int64_t total = 0;
    int n = 1;
    CERO_TRY(reserve(state, length));
    for (size_t i = 0; i < length; i += (size_t)n) {
        int32_t id;
        if (bpe->is_byte_level) {
            id = bpe->byte_id[piece[i]];
        } else {
            // Bytes that are not UTF-8 are symbols of their own.
            bool is_valid = piece[i] < 0x80 || (piece[i] >= 0xC2 && piece[i] <= 0xF4);
            size_t left = length - i < 4 ? length - i : 4;
            is_valid = is_valid && cero_utf8_invalid_prefix(piece + i, left) == 0;
            n = 1;
            if (is_valid) {
                (void)cero_utf8_get(piece + i, &n);
            }
            id = cero_vocab_find(&bpe->vocab, (const char *)piece + i, (size_t)n);
        }
        if (id >= 0) {
            state->id[total++] = id;
            has_unk = false;
        } else {
            CERO_TRY(add_unknown(bpe, state, piece + i, n, &total, &has_unk));
        }
    }
    *count = total;
    return CERO_OK;
}

/* The token that is the whole piece, -1 if there is none. */
static int32_t find_whole(const cero_bpe *bpe, const uint8_t *piece, size_t length)
{
    char chars[512];
    if (!bpe->is_byte_level) {
        return cero_vocab_find(&bpe->vocab, (const char *)piece, length);
    }
    if (2 * length > sizeof(chars)) {
        return -1; // no vocabulary has tokens of 256 bytes that are not reached by merges
    }
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        n += (size_t)cero_utf8_put(cero_byte_to_char(piece[i]), (uint8_t *)chars + n);
    }
    return cero_vocab_find(&bpe->vocab, chars, n);
}

/* The ids of a piece into state->id[0..*count). */
static cero_status encode_uncached(const cero_bpe *bpe, cero_bpe_state *state, const uint8_t *piece,
                                   size_t length, int64_t *count)
{
    if (bpe->ignore_merges) {
        int32_t id = find_whole(bpe, piece, length);
        if (id >= 0) {
            CERO_TRY(reserve(state, length));
            state->id[0] = id;
            *count = 1;
            return CERO_OK;
        }
    }
    CERO_TRY(split_symbols(bpe, state, piece, length, count));
    if (*count <= SCAN_MAX) {
        *count = merge_scan(bpe, state, *count);
        return CERO_OK;
    }
    return merge_heap(bpe, state, count);
}

static inline void load_key(const uint8_t *piece, size_t length, size_t readable, uint64_t key[2])
{
    uint8_t bytes[16] = {0};
    if (CERO_LIKELY(readable >= 16)) {
        memcpy(bytes, piece, 16);
    } else {
        memcpy(bytes, piece, length);
    }
    memcpy(key, bytes, 16);
    // The bytes behind the piece are masked away (little-endian, as all files of the project).
    uint64_t low = length >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * length) - 1;
    uint64_t high = length <= 8 ? 0 : (UINT64_C(1) << 8 * (length - 8)) - 1;
    key[0] &= low;
    key[1] = (key[1] & high) | (uint64_t)length << 56;
}

static cero_status append(cero_token_ids *out, const int32_t *id, int64_t count)
{
    CERO_TRY(cero_token_ids_reserve(out, count));
    memcpy(out->id + out->count, id, (size_t)count * sizeof(id[0]));
    out->count += count;
    return CERO_OK;
}

/* A miss: encodes, and puts the result first in its pair of slots when it is short. */
static cero_status encode_miss(const cero_bpe *bpe, cero_bpe_state *state, const uint8_t *piece,
                               size_t length, const uint64_t key[2], cache_slot *slot,
                               cero_token_ids *out)
{
    int64_t count = 0;
    CERO_TRY(encode_uncached(bpe, state, piece, length, &count));
    if (slot != NULL && count <= CACHE_IDS) {
        slot[1] = slot[0];
        slot[0].key[0] = key[0];
        slot[0].key[1] = key[1];
        slot[0].count = (int32_t)count;
        memcpy(slot[0].id, state->id, (size_t)count * sizeof(state->id[0]));
    }
    return append(out, state->id, count);
}

cero_status cero_bpe_encode(const cero_bpe *bpe, cero_bpe_state *state, const uint8_t *piece,
                            size_t length, size_t readable, cero_token_ids *out)
{
    uint64_t key[2];
    if (length > CACHE_KEY_MAX) {
        return encode_miss(bpe, state, piece, length, NULL, NULL, out);
    }
    load_key(piece, length, readable, key);
    uint64_t hash = mix(key[0] ^ mix(key[1]));
    cache_slot *slot = &state->cache[(hash >> (32 - CACHE_BITS)) & (CACHE_SLOTS - 2)];
    for (int way = 0; way < 2; way++) {
        if (CERO_LIKELY(slot[way].key[0] == key[0] && slot[way].key[1] == key[1])) {
            if (CERO_UNLIKELY(out->count + CACHE_IDS > out->capacity)) {
                CERO_TRY(cero_token_ids_reserve(out, CACHE_IDS));
            }
            memcpy(out->id + out->count, slot[way].id, sizeof(slot[way].id));
            out->count += slot[way].count;
            return CERO_OK;
        }
    }
    return encode_miss(bpe, state, piece, length, key, slot, out);
}
