/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incremental pair counts: words (different pieces with their counts) are merged in place, and a merge
 * touches only the words that hold its pair. The next pair comes from a heap whose entries may be too
 * high: counts of old pairs only fall, so an entry that is out of date goes back with its true count.
 */
#include "data/bpe_train.h"

#include "base/memory.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/piece.h"
#include "data/unicode/unicode.h"

#include <string.h>
#include <xxhash.h>

static const char special_text[] = "<|endoftext|>";
static const char config_text[] = "{\n"
                                  "  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                                  "  \"bos_token\": \"<|endoftext|>\",\n"
                                  "  \"eos_token\": \"<|endoftext|>\",\n"
                                  "  \"unk_token\": \"<|endoftext|>\",\n"
                                  "  \"clean_up_tokenization_spaces\": false\n"
                                  "}\n";

/* A different piece: its symbols are symbol[begin..begin+length). */
typedef struct word {
    int64_t begin;
    int64_t length;
    int64_t count;
    uint64_t hash;
} word;

/* A pair of neighbours: slot of an open hash. */
typedef struct pair {
    uint64_t key; /* left << 32 | right */
    int64_t count;
    int64_t where; /* first of its places, -1 */
    int64_t merge; /* the merge that last raised its count, -1 at the start */
} pair;

/* A word that held the pair when the place was added. */
typedef struct place {
    int64_t next;
    int64_t word;
} place;

typedef struct candidate {
    int64_t count;
    uint64_t key;
} candidate;

typedef struct merge {
    int32_t left;
    int32_t right;
} merge;

struct cero_bpe_trainer {
    cero_bpe_train_params params;
    int32_t *symbol; /* [symbol_count], owned */
    int64_t symbol_count;
    int64_t symbol_capacity;
    word *word; /* [word_count], owned */
    int64_t word_count;
    int64_t word_capacity;
    int64_t *word_slot; /* [word_slots], index + 1, owned */
    int64_t word_slots;
    pair *pair; /* [pair_slots], key UINT64_MAX is free, owned */
    int64_t pair_count;
    int64_t pair_slots;
    place *place; /* [place_count], owned */
    int64_t place_count;
    int64_t place_capacity;
    candidate *heap; /* [heap_count], owned */
    int64_t heap_count;
    int64_t heap_capacity;
    uint64_t *fresh; /* [fresh_count], pairs whose count the merge at hand raised, owned */
    int64_t fresh_count;
    int64_t fresh_capacity;
    merge *merge; /* [merge_count], owned */
    int64_t merge_count;
    int64_t merge_capacity;
    cero_vocab vocab; /* texts of the tokens so far, in the byte alphabet */
    cero_text text;   /* scratch for one token */
    int32_t byte_id[256];
};

/* Ids of bytes follow the code points of the byte alphabet, as in GPT-2. */
static cero_status set_alphabet(cero_bpe_trainer *t)
{
    for (uint32_t cp = 0; cp < 0x144; cp++) {
        int byte = cero_char_to_byte(cp);
        if (byte >= 0) {
            uint8_t utf8[4];
            int n = cero_utf8_put(cp, utf8);
            t->byte_id[byte] = (int32_t)t->vocab.size;
            CERO_TRY(cero_vocab_add(&t->vocab, t->vocab.size, (const char *)utf8, (size_t)n));
        }
    }
    return CERO_OK;
}

cero_status cero_bpe_trainer_create(const cero_bpe_train_params *params, cero_bpe_trainer **out)
{
    CERO_CHECK(params->vocab_size >= 257 && params->vocab_size <= CERO_VOCAB_MAX, CERO_ERR_INVALID,
               "a vocabulary of %lld was asked for, expected 257 (the bytes and one special token) "
               "to %d",
               (long long)params->vocab_size, CERO_VOCAB_MAX);
    cero_bpe_trainer *t = cero_new(1, sizeof(*t));
    if (t == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for a trainer");
    }
    t->params = *params;
    t->params.min_count = params->min_count > 0 ? params->min_count : 2;
    cero_status st = set_alphabet(t);
    if (st != CERO_OK) {
        cero_bpe_trainer_destroy(&t);
        return st;
    }
    *out = t;
    return CERO_OK;
}

void cero_bpe_trainer_destroy(cero_bpe_trainer **trainer)
{
    if (trainer == NULL || *trainer == NULL) {
        return;
    }
    cero_bpe_trainer *t = *trainer;
    cero_delete(t->symbol);
    cero_delete(t->word);
    cero_delete(t->word_slot);
    cero_delete(t->pair);
    cero_delete(t->place);
    cero_delete(t->heap);
    cero_delete(t->fresh);
    cero_delete(t->merge);
    cero_vocab_cleanup(&t->vocab);
    cero_text_cleanup(&t->text);
    cero_delete(t);
    *trainer = NULL;
}

static bool is_word(const cero_bpe_trainer *t, const word *w, uint64_t hash, const uint8_t *piece,
                    size_t length)
{
    if (w->hash != hash || w->length != (int64_t)length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (t->symbol[w->begin + (int64_t)i] != t->byte_id[piece[i]]) {
            return false;
        }
    }
    return true;
}

static cero_status grow_words(cero_bpe_trainer *t)
{
    if (2 * (t->word_count + 1) <= t->word_slots) {
        return CERO_OK;
    }
    int64_t slots = t->word_slots == 0 ? 4096 : 2 * t->word_slots;
    int64_t *slot = cero_new((size_t)slots, sizeof(slot[0]));
    if (slot == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %lld different pieces", (long long)slots);
    }
    for (int64_t w = 0; w < t->word_count; w++) {
        uint64_t i = t->word[w].hash & (uint64_t)(slots - 1);
        while (slot[i] != 0) {
            i = (i + 1) & (uint64_t)(slots - 1);
        }
        slot[i] = w + 1;
    }
    cero_delete(t->word_slot);
    t->word_slot = slot;
    t->word_slots = slots;
    return CERO_OK;
}

static cero_status add_symbol(cero_bpe_trainer *t, int32_t symbol)
{
    CERO_TRY(
        cero_grow((void **)&t->symbol, t->symbol_count, &t->symbol_capacity, sizeof(t->symbol[0])));
    t->symbol[t->symbol_count++] = symbol;
    return CERO_OK;
}

static cero_status count_piece(cero_bpe_trainer *t, const uint8_t *piece, size_t length)
{
    CERO_TRY(grow_words(t));
    uint64_t hash = XXH3_64bits(piece, length);
    uint64_t mask = (uint64_t)t->word_slots - 1;
    uint64_t i = hash & mask;
    for (; t->word_slot[i] != 0; i = (i + 1) & mask) {
        word *w = &t->word[t->word_slot[i] - 1];
        if (is_word(t, w, hash, piece, length)) {
            w->count++;
            return CERO_OK;
        }
    }
    CERO_TRY(cero_grow((void **)&t->word, t->word_count, &t->word_capacity, sizeof(t->word[0])));
    word w = {.begin = t->symbol_count, .length = (int64_t)length, .count = 1, .hash = hash};
    for (size_t k = 0; k < length; k++) {
        CERO_TRY(add_symbol(t, t->byte_id[piece[k]]));
    }
    t->word[t->word_count++] = w;
    t->word_slot[i] = t->word_count;
    return CERO_OK;
}

static cero_status count_text(cero_bpe_trainer *t, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t valid = i + cero_utf8_valid_prefix(bytes + i, length - i);
        while (i < valid) {
            size_t end = cero_piece_gpt2(bytes, i, valid);
            CERO_TRY(count_piece(t, bytes + i, end - i));
            i = end;
        }
        size_t n = cero_utf8_invalid_prefix(bytes + i, length - i);
        if (n > 0) {
            CERO_TRY(count_piece(t, bytes + i, n));
        }
        i += n;
    }
    return CERO_OK;
}

cero_status cero_bpe_trainer_add(cero_bpe_trainer *trainer, const void *bytes, size_t length)
{
    const uint8_t *text = bytes;
    size_t width = sizeof(special_text) - 1;
    size_t begin = 0;
    for (size_t i = 0; i + width <= length;) {
        const uint8_t *hit = memchr(text + i, special_text[0], length - i - width + 1);
        if (hit == NULL) {
            break;
        }
        i = (size_t)(hit - text);
        if (memcmp(hit, special_text, width) != 0) {
            i++;
            continue;
        }
        CERO_TRY(count_text(trainer, text + begin, i - begin));
        i += width;
        begin = i;
    }
    return count_text(trainer, text + begin, length - begin);
}

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static uint64_t pair_start(uint64_t key, int64_t slots)
{
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    return (hash ^ hash >> 32) & (uint64_t)(slots - 1);
}

static pair *find_pair(const cero_bpe_trainer *t, uint64_t key)
{
    uint64_t i = pair_start(key, t->pair_slots);
    while (t->pair[i].key != key && t->pair[i].key != UINT64_MAX) {
        i = (i + 1) & (uint64_t)(t->pair_slots - 1);
    }
    return &t->pair[i];
}

static cero_status grow_pairs(cero_bpe_trainer *t)
{
    if (2 * (t->pair_count + 1) <= t->pair_slots) {
        return CERO_OK;
    }
    int64_t old_slots = t->pair_slots;
    pair *old = t->pair;
    int64_t slots = old_slots == 0 ? 65536 : 2 * old_slots;
    pair *grown = cero_new((size_t)slots, sizeof(grown[0]));
    if (grown == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for %lld pairs", (long long)slots);
    }
    for (int64_t i = 0; i < slots; i++) {
        grown[i].key = UINT64_MAX;
    }
    t->pair = grown;
    t->pair_slots = slots;
    for (int64_t i = 0; i < old_slots; i++) {
        if (old[i].key != UINT64_MAX) {
            *find_pair(t, old[i].key) = old[i];
        }
    }
    cero_delete(old);
    return CERO_OK;
}

static cero_status add_fresh(cero_bpe_trainer *t, uint64_t key)
{
    CERO_TRY(
        cero_grow((void **)&t->fresh, t->fresh_count, &t->fresh_capacity, sizeof(t->fresh[0])));
    t->fresh[t->fresh_count++] = key;
    return CERO_OK;
}

/* Counts a pair of word w once more; the word becomes one of its places. */
static cero_status add_pair(cero_bpe_trainer *t, uint64_t key, int64_t w)
{
    CERO_TRY(grow_pairs(t));
    pair *p = find_pair(t, key);
    if (p->key == UINT64_MAX) {
        *p = (pair){.key = key, .where = -1, .merge = -2};
        t->pair_count++;
    }
    if (p->merge != t->merge_count - 1) {
        p->merge = t->merge_count - 1;
        CERO_TRY(add_fresh(t, key));
    }
    p->count += t->word[w].count;
    if (p->where >= 0 && t->place[p->where].word == w) {
        return CERO_OK;
    }
    CERO_TRY(
        cero_grow((void **)&t->place, t->place_count, &t->place_capacity, sizeof(t->place[0])));
    t->place[t->place_count] = (place){.next = p->where, .word = w};
    p->where = t->place_count++;
    return CERO_OK;
}

static bool is_better(candidate a, candidate b)
{
    return a.count != b.count ? a.count > b.count : a.key < b.key;
}

static cero_status push_candidate(cero_bpe_trainer *t, candidate c)
{
    CERO_TRY(cero_grow((void **)&t->heap, t->heap_count, &t->heap_capacity, sizeof(t->heap[0])));
    int64_t i = t->heap_count++;
    while (i > 0 && is_better(c, t->heap[(i - 1) / 2])) {
        t->heap[i] = t->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    t->heap[i] = c;
    return CERO_OK;
}

static candidate pop_candidate(cero_bpe_trainer *t)
{
    candidate top = t->heap[0];
    candidate last = t->heap[--t->heap_count];
    int64_t i = 0;
    for (int64_t child = 1; child < t->heap_count; child = 2 * i + 1) {
        if (child + 1 < t->heap_count && is_better(t->heap[child + 1], t->heap[child])) {
            child++;
        }
        if (!is_better(t->heap[child], last)) {
            break;
        }
        t->heap[i] = t->heap[child];
        i = child;
    }
    t->heap[i] = last;
    return top;
}

/* Pairs whose count rose enter the heap with their full count. */
static cero_status push_fresh(cero_bpe_trainer *t)
{
    for (int64_t i = 0; i < t->fresh_count; i++) {
        const pair *p = find_pair(t, t->fresh[i]);
        if (p->count >= t->params.min_count) {
            CERO_TRY(push_candidate(t, (candidate){.count = p->count, .key = p->key}));
        }
    }
    t->fresh_count = 0;
    return CERO_OK;
}

static void drop_pair(cero_bpe_trainer *t, int32_t left, int32_t right, int64_t count)
{
    find_pair(t, pair_key(left, right))->count -= count;
}

/* Replaces left right by id in word w, from left to right, and moves the counts of the neighbours. */
static cero_status merge_word(cero_bpe_trainer *t, int64_t w, merge m, int32_t id)
{
    int32_t *s = t->symbol + t->word[w].begin;
    int64_t n = t->word[w].length;
    int64_t count = t->word[w].count;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i + 1 == n || s[i] != m.left || s[i + 1] != m.right) {
            s[kept++] = s[i];
            continue;
        }
        if (kept > 0) {
            drop_pair(t, s[kept - 1], m.left, count);
            CERO_TRY(add_pair(t, pair_key(s[kept - 1], id), w));
        }
        if (i + 2 < n) {
            drop_pair(t, m.right, s[i + 2], count);
            CERO_TRY(add_pair(t, pair_key(id, s[i + 2]), w));
        }
        s[kept++] = id;
        i++;
    }
    t->word[w].length = kept;
    return CERO_OK;
}

/* The id of the merged token: two ways to the same text are one token. */
static cero_status merged_id(cero_bpe_trainer *t, merge m, int32_t *id)
{
    const int32_t half[2] = {m.left, m.right};
    t->text.length = 0;
    for (int i = 0; i < 2; i++) {
        size_t length = 0;
        const char *text = cero_vocab_text(&t->vocab, half[i], &length);
        cero_text_append(&t->text, text, length);
    }
    CERO_TRY(cero_text_finish(&t->text));
    *id = cero_vocab_find(&t->vocab, t->text.data, t->text.length);
    if (*id < 0) {
        *id = (int32_t)t->vocab.size;
        CERO_TRY(cero_vocab_add(&t->vocab, *id, t->text.data, t->text.length));
    }
    return CERO_OK;
}

static cero_status apply_merge(cero_bpe_trainer *t, uint64_t key)
{
    merge m = {.left = (int32_t)(key >> 32), .right = (int32_t)key};
    int32_t id = -1;
    CERO_TRY(merged_id(t, m, &id));
    CERO_TRY(
        cero_grow((void **)&t->merge, t->merge_count, &t->merge_capacity, sizeof(t->merge[0])));
    t->merge[t->merge_count++] = m;
    for (int64_t i = find_pair(t, key)->where; i >= 0; i = t->place[i].next) {
        CERO_TRY(merge_word(t, t->place[i].word, m, id));
    }
    find_pair(t, key)->count = 0;
    return push_fresh(t);
}

static cero_status find_merges(cero_bpe_trainer *t)
{
    int64_t wanted = t->params.vocab_size - 1; // the last is the special token
    CERO_TRY(grow_pairs(t));
    for (int64_t w = 0; w < t->word_count; w++) {
        const int32_t *s = t->symbol + t->word[w].begin;
        for (int64_t i = 0; i + 1 < t->word[w].length; i++) {
            CERO_TRY(add_pair(t, pair_key(s[i], s[i + 1]), w));
        }
    }
    CERO_TRY(push_fresh(t));
    while (t->vocab.count < wanted && t->heap_count > 0) {
        candidate best = pop_candidate(t);
        int64_t count = find_pair(t, best.key)->count;
        if (count < t->params.min_count) {
            continue;
        }
        if (count != best.count) {
            best.count = count;
            CERO_TRY(push_candidate(t, best));
            continue;
        }
        CERO_TRY(apply_merge(t, best.key));
    }
    return CERO_OK;
}

static void write_head(cero_text *out, int64_t special_id)
{
    cero_text_printf(out,
                     "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                     "  \"added_tokens\": [\n    {\"id\": %lld, \"content\": \"%s\", "
                     "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                     "\"normalized\": false, \"special\": true}\n  ],\n  \"normalizer\": null,\n",
                     (long long)special_id, special_text);
    static const char *const byte_level[] = {"pre_tokenizer", "post_processor", "decoder"};
    for (int i = 0; i < 3; i++) {
        cero_text_printf(out,
                         "  \"%s\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                         "\"trim_offsets\": true, \"use_regex\": true},\n",
                         byte_level[i]);
    }
    cero_text_printf(out, "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                          "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                          "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                          "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n"
                          "    \"vocab\": {\n");
}

static void write_token(const cero_bpe_trainer *t, int64_t id, cero_text *out)
{
    size_t length = 0;
    const char *text = cero_vocab_text(&t->vocab, id, &length);
    cero_text_append_json_string(out, text, length);
}

/* The older form, both parts in one string: every reader knows it, and no symbol of the byte alphabet is a
 * space. */
static void write_merge(const cero_bpe_trainer *t, int64_t i, cero_text *both, cero_text *out)
{
    size_t length = 0;
    const char *left = cero_vocab_text(&t->vocab, t->merge[i].left, &length);

    both->length = 0;
    cero_text_append(both, left, length);
    cero_text_append(both, " ", 1);
    const char *right = cero_vocab_text(&t->vocab, t->merge[i].right, &length);
    cero_text_append(both, right, length);
    cero_text_printf(out, "%s\n      ", i == 0 ? "" : ",");
    cero_text_append_json_string(out, both->data, both->length);
    out->has_failed = out->has_failed || both->has_failed;
}

static void write_model(const cero_bpe_trainer *t, cero_text *out)
{
    cero_text both = {0};

    for (int64_t id = 0; id < t->vocab.size; id++) {
        cero_text_printf(out, "      ");
        write_token(t, id, out);
        cero_text_printf(out, ": %lld,\n", (long long)id);
    }
    cero_text_printf(out, "      \"%s\": %lld\n    },\n    \"merges\": [", special_text,
                     (long long)t->vocab.size);
    for (int64_t i = 0; i < t->merge_count; i++) {
        write_merge(t, i, &both, out);
    }
    cero_text_cleanup(&both);
    cero_text_printf(out, "%s]\n  }\n}\n", t->merge_count == 0 ? "" : "\n    ");
}

cero_status cero_bpe_trainer_finish(cero_bpe_trainer *trainer, cero_tokenizer **out)
{
    cero_status st = CERO_OK;
    cero_text json = {0};
    CERO_CHECK(trainer->word_count > 0, CERO_ERR_INVALID,
               "there is no text to train a tokenizer on: all texts are empty");
    CERO_CHECK(trainer->merge_count == 0, CERO_ERR_INVALID, "the trainer has finished already");
    CERO_TRY(find_merges(trainer));
    write_head(&json, trainer->vocab.size);
    write_model(trainer, &json);
    CERO_TRY_GOTO(cero_text_finish(&json), out);
    CERO_TRY_GOTO(
        cero_tokenizer_parse("the trained tokenizer", json.data, json.length, config_text, out),
        out);

out:
    cero_text_cleanup(&json);
    return st;
}
