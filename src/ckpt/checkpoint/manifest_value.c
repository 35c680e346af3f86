/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a manifest by the type they must have; what is not as expected is named with its place and tensor. */
#include "ckpt/checkpoint/manifest_impl.h"

#include "ckpt/safetensors.h"

#include <stdio.h>
#include <string.h>

cero_status cero_manifest_fail(const cero_json *at, const char *tensor, const char *fmt, ...)
{
    char message[1024];
    char quoted[CERO_SAFETENSORS_QUOTE] = "";
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    if (tensor != NULL) {
        (void)cero_safetensors_quote(tensor, quoted, sizeof(quoted));
    }
    return CERO_FAIL(CERO_ERR_CORRUPT, "%s:%d:%d: %s%s%s%s", at->file, at->line, at->column,
                     tensor != NULL ? "tensor " : "", quoted, tensor != NULL ? ": " : "", message);
}

cero_status cero_manifest_get_members(const cero_json *object, const char *tensor, const char *what,
                                      const char *const *keys, int count, const cero_json **out)
{
    if (object->type != CERO_JSON_OBJECT) {
        return cero_manifest_fail(object, tensor, "%s: expected an object, found %s", what,
                                  cero_json_type_name(object->type));
    }
    memset((void *)out, 0, (size_t)count * sizeof(out[0]));
    for (const cero_json *m = object->child; m != NULL; m = m->next) {
        int i = 0;
        while (i < count && strcmp(m->key, keys[i]) != 0) {
            i++;
        }
        if (i == count) {
            return cero_manifest_fail(m, tensor, "%s: unknown member \"%.60s\"", what, m->key);
        }
        out[i] = m;
    }
    for (int i = 0; i < count; i++) {
        if (out[i] == NULL) {
            return cero_manifest_fail(object, tensor, "%s: the member \"%s\" is missing", what,
                                      keys[i]);
        }
    }
    return CERO_OK;
}

cero_status cero_manifest_get_int(const cero_json *value, const char *tensor, int64_t min,
                                  int64_t max, int64_t *out)
{
    int64_t x = 0;
    bool is_good = value->type == CERO_JSON_NUMBER;

    for (size_t i = 0; is_good && i < value->text_length; i++) {
        int digit = value->text[i] - '0';
        is_good = digit >= 0 && digit <= 9 && !__builtin_mul_overflow(x, (int64_t)10, &x) &&
                  !__builtin_add_overflow(x, (int64_t)digit, &x);
    }
    if (!is_good || x < min || x > max) {
        return cero_manifest_fail(
            value, tensor, "%s%sexpected a whole number from %lld to %lld, found %.40s",
            value->key == NULL ? "" : value->key, value->key == NULL ? "" : ": ", (long long)min,
            (long long)max,
            value->type == CERO_JSON_NUMBER ? value->text : cero_json_type_name(value->type));
    }
    *out = x;
    return CERO_OK;
}

cero_status cero_manifest_get_string(const cero_json *value, const char *tensor, const char **out)
{
    if (value->type != CERO_JSON_STRING || value->text_length != strlen(value->text)) {
        return cero_manifest_fail(value, tensor, "%s: expected a string, found %s", value->key,
                                  value->type == CERO_JSON_STRING
                                      ? "one with the character \\u0000"
                                      : cero_json_type_name(value->type));
    }
    *out = value->text;
    return CERO_OK;
}

cero_status cero_manifest_get_hash(const cero_json *value, const char *tensor, uint64_t *out)
{
    if (value->type != CERO_JSON_STRING || value->text_length != CERO_MANIFEST_HASH_DIGITS ||
        !cero_manifest_parse_hash(value->text, out)) {
        return cero_manifest_fail(value, tensor, "expected a hash of 16 hexadecimal digits");
    }
    return CERO_OK;
}

cero_status cero_manifest_get_array(const cero_json *value, const char *tensor)
{
    return value->type == CERO_JSON_ARRAY
               ? CERO_OK
               : cero_manifest_fail(value, tensor, "%s: expected a list, found %s", value->key,
                                    cero_json_type_name(value->type));
}
