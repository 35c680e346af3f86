/* SPDX-License-Identifier: Apache-2.0 */
/* Parsed values back into text, as they stood or in one form for all that mean the same. */
#include "base/json.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static int compare_keys(const void *a, const void *b)
{
    const cero_json *const *x = a;
    const cero_json *const *y = b;

    return strcmp((*x)->key, (*y)->key);
}

static cero_status write_object(const cero_json *object, bool is_sorted, cero_text *out)
{
    cero_status st = CERO_OK;
    size_t n = 0;
    const cero_json **members = cero_new((size_t)object->count, sizeof(members[0]));

    CERO_CHECK(members != NULL, CERO_ERR_NOMEM, "no memory for the %lld members of an object",
               (long long)object->count);
    for (const cero_json *m = object->child; m != NULL; m = m->next) {
        members[n++] = m;
    }
    if (is_sorted) {
        qsort((void *)members, n, sizeof(members[0]), compare_keys);
    }
    cero_text_append(out, "{", 1);
    for (size_t i = 0; i < n; i++) {
        cero_text_append(out, ",", i > 0);
        cero_text_append_json_string(out, members[i]->key, strlen(members[i]->key));
        cero_text_append(out, ":", 1);
        CERO_TRY_GOTO(cero_json_write(members[i], is_sorted, out), out);
    }
    cero_text_append(out, "}", 1);

out:
    cero_delete((void *)members);
    return st;
}

static cero_status write_array(const cero_json *array, bool is_sorted, cero_text *out)
{
    cero_text_append(out, "[", 1);
    for (const cero_json *m = array->child; m != NULL; m = m->next) {
        CERO_TRY(cero_json_write(m, is_sorted, out));
        cero_text_append(out, ",", m->next != NULL);
    }
    cero_text_append(out, "]", 1);
    return CERO_OK;
}

/* The parser bounds the depth. */
cero_status cero_json_write(const cero_json *value, bool is_sorted, cero_text *out)
{
    switch (value->type) {
    case CERO_JSON_OBJECT:
        CERO_TRY(write_object(value, is_sorted, out));
        break;
    case CERO_JSON_ARRAY:
        CERO_TRY(write_array(value, is_sorted, out));
        break;
    case CERO_JSON_STRING:
        cero_text_append_json_string(out, value->text, value->text_length);
        break;
    case CERO_JSON_NUMBER:
        cero_text_append(out, value->text, value->text_length);
        break;
    case CERO_JSON_BOOL:
        cero_text_printf(out, value->boolean ? "true" : "false");
        break;
    case CERO_JSON_NULL:
    case CERO_JSON_COUNT:
        cero_text_printf(out, "null");
        break;
    }
    return cero_text_finish(out);
}
