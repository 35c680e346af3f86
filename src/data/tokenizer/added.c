/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens: read from the file, and found in a text: leftmost, then longest, with the word and
 * white-space rules of each. */
#include "data/tokenizer/tokenizer_impl.h"

#include "base/memory.h"
#include "data/unicode/unicode.h"

#include <string.h>

void cero_added_set_cleanup(cero_added_set *set)
{
    cero_delete(set->node);
    *set = (cero_added_set){0};
}

static cero_status add_node(cero_added_set *set, uint8_t byte, int32_t *out)
{
    CERO_TRY(cero_grow((void **)&set->node, set->count, &set->capacity, sizeof(set->node[0])));
    set->node[set->count] =
        (cero_added_node){.added = -1, .child = -1, .sibling = -1, .byte = byte};
    *out = (int32_t)set->count++;
    return CERO_OK;
}

static int32_t find_child(const cero_added_set *set, int32_t node, uint8_t byte)
{
    int32_t child = set->node[node].child;
    while (child >= 0 && set->node[child].byte != byte) {
        child = set->node[child].sibling;
    }
    return child;
}

cero_status cero_added_set_add(cero_added_set *set, const char *text, size_t length, int32_t index)
{
    int32_t node = 0;
    if (set->count == 0) {
        CERO_TRY(add_node(set, 0, &node));
    }
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)text[i];
        int32_t child = find_child(set, node, byte);
        if (child < 0) {
            CERO_TRY(add_node(set, byte, &child));
            set->node[child].sibling = set->node[node].child;
            set->node[node].child = child;
        }
        node = child;
    }
    set->node[node].added = index;
    uint8_t first = (uint8_t)text[0];
    set->first_count += !set->is_first[first];
    set->is_first[first] = true;
    set->first = first;
    return CERO_OK;
}

/* First place from `from` on where a token may begin; length if there is none. */
static size_t find_first(const cero_added_set *set, const uint8_t *text, size_t length, size_t from)
{
    if (set->first_count == 1) {
        const uint8_t *hit = memchr(text + from, set->first, length - from);
        return hit == NULL ? length : (size_t)(hit - text);
    }
    while (from < length && !set->is_first[text[from]]) {
        from++;
    }
    return from;
}

/* The longest token at text[begin]; -1 if there is none. */
static int32_t longest_at(const cero_added_set *set, const uint8_t *text, size_t length,
                          size_t begin, size_t *stop)
{
    int32_t found = -1;
    int32_t node = 0;
    for (size_t i = begin; i < length; i++) {
        node = find_child(set, node, text[i]);
        if (node < 0) {
            break;
        }
        if (set->node[node].added >= 0) {
            found = set->node[node].added;
            *stop = i + 1;
        }
    }
    return found;
}

/* Class bits of the character that ends at `end`, 0 at the start; *n is its bytes. */
static uint32_t class_before(const uint8_t *text, size_t end, int *n)
{
    for (int back = 1; back <= 4 && (size_t)back <= end; back++) {
        const uint8_t *p = text + end - back;
        if ((*p & 0xC0) != 0x80) {
            if (cero_utf8_valid_prefix(p, (size_t)back) != (size_t)back) {
                return 0;
            }
            *n = back;
            return cero_unicode_get(cero_utf8_get(p, n));
        }
    }
    return 0;
}

static uint32_t class_after(const uint8_t *text, size_t length, size_t begin, int *n)
{
    size_t left = length - begin < 4 ? length - begin : 4;
    if (left == 0 || cero_utf8_invalid_prefix(text + begin, left) != 0) {
        return 0;
    }
    return cero_unicode_get(cero_utf8_get(text + begin, n));
}

static bool is_inside_word(const uint8_t *text, size_t length, size_t begin, size_t stop)
{
    int n;
    return (class_before(text, begin, &n) & CERO_UNICODE_WORD) != 0 ||
           (class_after(text, length, stop, &n) & CERO_UNICODE_WORD) != 0;
}

static bool is_space(uint32_t class)
{
    return (class & CERO_UNICODE_CLASS) == CERO_UNICODE_SPACE;
}

bool cero_added_set_find(const cero_added_set *set, const uint8_t *text, size_t length, size_t from,
                         bool has_plain_special, cero_added_match *match)
{
    if (set->count == 0) {
        return false;
    }
    for (size_t i = find_first(set, text, length, from); i < length;
         i = find_first(set, text, length, i)) {
        size_t stop = i + 1;
        int32_t index = longest_at(set, text, length, i, &stop);
        if (index < 0) {
            i++;
            continue;
        }
        const cero_added *a = &set->added[index];
        if ((a->is_special && has_plain_special) ||
            (a->is_single_word && is_inside_word(text, length, i, stop))) {
            i = stop;
            continue;
        }
        int n = 0;
        while (a->strips_left && i > from && is_space(class_before(text, i, &n))) {
            i -= (size_t)n;
        }
        while (a->strips_right && is_space(class_after(text, length, stop, &n))) {
            stop += (size_t)n;
        }
        *match = (cero_added_match){.begin = i < from ? from : i, .stop = stop, .id = a->id};
        return true;
    }
    return false;
}

static cero_status load_added_one(const cero_json *value, int64_t count, cero_tokenizer *t)
{
    static const char *const known[] = {"id",     "content",    "single_word", "lstrip",
                                        "rstrip", "normalized", "special",     NULL};
    const cero_json *id_value = NULL;
    const cero_json *content = NULL;
    int64_t id;
    if (value->type != CERO_JSON_OBJECT) {
        return CERO_JSON_FAIL(value, "an added token is %s, expected an object",
                              cero_json_type_name(value->type));
    }
    CERO_TRY(cero_load_fields(value, "an added token", known));
    CERO_TRY(cero_load_need(value, "id", CERO_JSON_NUMBER, &id_value));
    CERO_TRY(cero_load_need(value, "content", CERO_JSON_STRING, &content));
    CERO_TRY(cero_json_int(id_value, &id));
    CERO_TRY(cero_load_check_id(id_value, id, t->bpe.vocab.count + count));
    int32_t old = cero_vocab_find(&t->bpe.vocab, content->text, content->text_length);
    if (content->text_length == 0 || (old >= 0 && old != id)) {
        return CERO_JSON_FAIL(value,
                              "added token \"%s\" has id %lld, expected a text, and the id of "
                              "\"vocab\" if it is there (%d)",
                              content->text, (long long)id, old);
    }
    CERO_TRY(
        cero_grow((void **)&t->added, t->added_count, &t->added_capacity, sizeof(t->added[0])));
    cero_added *a = &t->added[t->added_count];
    *a = (cero_added){.id = (int32_t)id, .length = content->text_length};
    a->text = cero_strndup(content->text, content->text_length);
    if (a->text == NULL) {
        return CERO_FAIL(CERO_ERR_NOMEM, "no memory for an added token");
    }
    t->added_count++;
    CERO_TRY(cero_load_bool(value, "special", &a->is_special));
    a->is_normalized = !a->is_special;
    CERO_TRY(cero_load_bool(value, "normalized", &a->is_normalized));
    CERO_TRY(cero_load_bool(value, "single_word", &a->is_single_word));
    CERO_TRY(cero_load_bool(value, "lstrip", &a->strips_left));
    return cero_load_bool(value, "rstrip", &a->strips_right);
}

cero_status cero_load_added(const cero_json *list, cero_tokenizer *t)
{
    cero_status st = CERO_OK;
    cero_text text = {0};
    if (list == NULL || list->type == CERO_JSON_NULL) {
        return CERO_OK;
    }
    if (list->type != CERO_JSON_ARRAY) {
        return CERO_JSON_FAIL(list, "\"added_tokens\" is %s, expected a list",
                              cero_json_type_name(list->type));
    }
    for (const cero_json *value = list->child; value != NULL; value = value->next) {
        CERO_TRY(load_added_one(value, list->count, t));
    }
    t->raw_set.added = t->added;
    t->normalized_set.added = t->added;
    for (int64_t i = 0; i < t->added_count; i++) {
        const cero_added *a = &t->added[i];
        if (!a->is_normalized) {
            CERO_TRY_GOTO(cero_added_set_add(&t->raw_set, a->text, a->length, (int32_t)i), out);
            continue;
        }
        text.length = 0;
        CERO_TRY_GOTO(cero_tokenizer_normalize(t, (const uint8_t *)a->text, a->length, &text), out);
        if (text.length > 0) {
            CERO_TRY_GOTO(
                cero_added_set_add(&t->normalized_set, text.data, text.length, (int32_t)i), out);
        }
    }

out:
    cero_text_cleanup(&text);
    return st;
}
