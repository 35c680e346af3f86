/* SPDX-License-Identifier: Apache-2.0 */
/* One number of every step of a metrics.jsonl; see curve.h. */
#include "cli/curve.h"

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static const char *key_at(const void *context, int i)
{
    const cero_json *member = ((const cero_json *)context)->child;

    while (member != NULL && i-- > 0) {
        member = member->next;
    }
    return member == NULL ? NULL : member->key;
}

static cero_status add_point(cero_curve *curve, double step, double value)
{
    // A resumed run: forget what the steps from here on said before.
    while (curve->count > 0 && curve->points[curve->count - 1].x >= step) {
        curve->count--;
    }
    CERO_TRY(cero_grow((void **)&curve->points, curve->count, &curve->capacity,
                       sizeof(curve->points[0])));
    curve->points[curve->count++] = (cero_chart_point){.x = step, .y = value};
    return CERO_OK;
}

static cero_status take_object(const cero_json *object, const char *key, cero_curve *curve)
{
    if (object->type != CERO_JSON_OBJECT) {
        return CERO_JSON_FAIL(object, "expected an object with the metrics of a step, found %s",
                              cero_json_type_name(object->type));
    }
    const cero_json *step = cero_json_find(object, "step");
    const cero_json *value = cero_json_find(object, key);
    if (step == NULL || step->type != CERO_JSON_NUMBER) {
        return CERO_JSON_FAIL(step != NULL ? step : object, "\"step\" is not a number");
    }
    curve->lines++;
    if (value == NULL) {
        return CERO_OK;
    }
    if (value->type == CERO_JSON_NULL) {
        curve->not_finite++;
        return CERO_OK;
    }
    if (value->type != CERO_JSON_NUMBER) {
        return CERO_JSON_FAIL(value, "\"%s\" is %s, not a number", key,
                              cero_json_type_name(value->type));
    }
    return add_point(curve, step->number, value->number);
}

/* Ends with the message for a file in which no line has the key. */
static cero_status fail_no_key(const char *path, const char *key, const cero_json *last)
{
    const char *nearest = last != NULL ? cero_text_nearest(key, key_at, last) : NULL;

    if (nearest != NULL && strcmp(nearest, key) != 0) {
        return CERO_FAIL(CERO_ERR_INVALID, "%s: no line has \"%s\"; did you mean \"%s\"?", path,
                         key, nearest);
    }
    return CERO_FAIL(CERO_ERR_INVALID, "%s: no line has a finite \"%s\"", path, key);
}

static cero_status read_lines(const char *path, const char *bytes, size_t length, const char *key,
                              cero_curve *curve)
{
    cero_json_document *document = NULL;
    cero_status st = CERO_OK;
    int64_t number = 0;

    for (size_t at = 0; at < length;) {
        const char *line = bytes + at;
        const char *end = memchr(line, '\n', length - at);
        if (end == NULL) {
            curve->has_partial_line = true;
            break;
        }
        char name[1200];
        (void)snprintf(name, sizeof(name), "%s, line %lld", path, (long long)++number);
        cero_json_destroy(&document);
        CERO_TRY_GOTO(cero_json_parse(name, line, (size_t)(end - line), NULL, &document), out);
        CERO_TRY_GOTO(take_object(cero_json_root(document), key, curve), out);
        at += (size_t)(end - line) + 1;
    }
    if (curve->count == 0) {
        st = fail_no_key(path, key, document != NULL ? cero_json_root(document) : NULL);
    }

out:
    cero_json_destroy(&document);
    return st;
}

cero_status cero_curve_read(const char *path, const char *key, cero_curve *out)
{
    cero_file_map map;
    cero_curve curve = {0};

    CERO_TRY(cero_file_map_open(path, &map));
    cero_status st = read_lines(path, (const char *)map.data, map.length, key, &curve);
    cero_file_map_close(&map);
    if (st != CERO_OK) {
        cero_curve_cleanup(&curve);
        return st;
    }
    *out = curve;
    return CERO_OK;
}

void cero_curve_cleanup(cero_curve *curve)
{
    cero_delete(curve->points);
    *curve = (cero_curve){0};
}
