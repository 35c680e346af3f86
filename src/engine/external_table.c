/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program registers: the rule of units, what a table of parameters may not contain, and the comparison
 * between ranks.
 */
#include "engine/engine_impl.h"

#include <stdlib.h>
#include <string.h>

/* Characters of the name's unit: up to the first component that is a number, else up to the last dot. */
static size_t unit_length(const char *name)
{
    const char *last_dot = strrchr(name, '.');

    for (const char *at = strchr(name, '.'); at != NULL; at = strchr(at + 1, '.')) {
        size_t digits = strspn(at + 1, "0123456789");
        if (digits > 0 && (at[1 + digits] == '.' || at[1 + digits] == '\0')) {
            return (size_t)(at - name) + 1 + digits;
        }
    }
    return last_dot != NULL ? (size_t)(last_dot - name) : strlen(name);
}

const char *cero_engine_unit_of(const cero_external_param *p, size_t *length)
{
    const char *unit = p->unit != NULL ? p->unit : p->name;

    *length = p->unit != NULL ? strlen(p->unit) : unit_length(p->name);
    return unit;
}

bool cero_engine_is_same_unit(const cero_external_param *a, const cero_external_param *b)
{
    size_t a_length;
    size_t b_length;
    const char *a_unit = cero_engine_unit_of(a, &a_length);
    const char *b_unit = cero_engine_unit_of(b, &b_length);

    return a_length == b_length && memcmp(a_unit, b_unit, a_length) == 0;
}

static cero_status check_shape(const cero_external_param *p)
{
    bool is_good = p->shape.ndim >= 0 && p->shape.ndim <= CERO_MAX_NDIM;
    int64_t numel = 1;

    for (int d = 0; is_good && d < p->shape.ndim; d++) {
        is_good = p->shape.dim[d] > 0 && cero_mul_i64(numel, p->shape.dim[d], &numel);
    }
    CERO_CHECK(is_good && numel <= INT64_MAX / 8, CERO_ERR_INVALID,
               "parameter %s: a shape of at most %d dimensions is needed, each 1 or more", p->name,
               CERO_MAX_NDIM);
    return CERO_OK;
}

static cero_status check_param(const cero_external_param *p, int64_t i, cero_dtype compute_dtype)
{
    CERO_CHECK(p->name != NULL && p->name[0] != '\0', CERO_ERR_INVALID,
               "parameter %lld of the program has no name", (long long)i);
    CERO_TRY(check_shape(p));
    CERO_CHECK(p->unit == NULL || p->unit[0] != '\0', CERO_ERR_INVALID,
               "parameter %s: its unit has an empty name; give a name, or NULL", p->name);
    CERO_CHECK(
        p->dtype == CERO_DTYPE_F32 || p->dtype == compute_dtype, CERO_ERR_INVALID,
        "parameter %s is registered as %s, and the config computes in %s; expected f32 or %s",
        p->name, cero_dtype_name(p->dtype), cero_dtype_name(compute_dtype),
        cero_dtype_name(compute_dtype));
    bool is_engines = p->data == NULL || (p->grad == NULL && !p->is_frozen);
    CERO_CHECK(
        !is_engines || p->dtype == compute_dtype, CERO_ERR_INVALID,
        "parameter %s is registered as %s with %s in memory of the engine's, which is of the "
        "config's %s; register it as %s, or give memory",
        p->name, cero_dtype_name(p->dtype), p->data == NULL ? "data" : "grad",
        cero_dtype_name(compute_dtype), cero_dtype_name(compute_dtype));
    return CERO_OK;
}

/* Entries of sorted lists: by name, or memory of data and grads by address. */
typedef struct entry {
    const cero_external_param *param;
    const char *begin;
    const char *end;
} entry;

static int compare_entry_names(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;

    return strcmp(x->param->name, y->param->name);
}

static int compare_entry_places(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* A name that is there twice, or memory, would be two parameters that know nothing of each other. */
static cero_status check_entries(const cero_external_param *params, int64_t count, entry *list)
{
    int64_t n = 0;

    for (int64_t i = 0; i < count; i++) {
        list[i] = (entry){.param = &params[i]};
    }
    qsort(list, (size_t)count, sizeof(entry), compare_entry_names);
    for (int64_t i = 1; i < count; i++) {
        CERO_CHECK(strcmp(list[i - 1].param->name, list[i].param->name) != 0, CERO_ERR_INVALID,
                   "parameter %s is registered twice; register a shared parameter once, with the "
                   "sum of its gradients",
                   list[i].param->name);
    }
    for (int64_t i = 0; i < count; i++) {
        const cero_external_param *p = &params[i];
        size_t nbytes = (size_t)cero_shape_numel(&p->shape) * cero_dtype_size(p->dtype);
        const char *memory[] = {p->data, p->grad};
        for (int k = 0; k < 2; k++) {
            if (memory[k] != NULL) {
                list[n++] = (entry){.param = p, .begin = memory[k], .end = memory[k] + nbytes};
            }
        }
    }
    if (n > 0) {
        qsort(list, (size_t)n, sizeof(entry), compare_entry_places);
    }
    for (int64_t i = 1; i < n; i++) {
        CERO_CHECK(list[i].begin >= list[i - 1].end, CERO_ERR_INVALID,
                   "memory of parameter %s is also registered as that of %s; data and gradient of "
                   "each parameter need memory of their own",
                   list[i].param->name, list[i - 1].param->name);
    }
    return CERO_OK;
}

/* Parameter i begins a unit that none before it has. */
static cero_status check_unit(const cero_external_param *params, int64_t i)
{
    for (int64_t k = 0; k < i; k++) {
        bool is_first = k == 0 || !cero_engine_is_same_unit(&params[k], &params[k - 1]);
        CERO_CHECK(!is_first || !cero_engine_is_same_unit(&params[i], &params[k]), CERO_ERR_INVALID,
                   "parameter %s belongs to the unit of %s, and %s between them does not; register "
                   "a unit's parameters one after the other, or set .unit",
                   params[i].name, params[k].name, params[i - 1].name);
    }
    return CERO_OK;
}

static cero_status check_params(const cero_external_param *params, int64_t count,
                                cero_dtype compute_dtype)
{
    CERO_CHECK(params != NULL && count > 0, CERO_ERR_INVALID,
               "cero_engine_create_external: no parameters are given");
    for (int64_t i = 0; i < count; i++) {
        CERO_TRY(check_param(&params[i], i, compute_dtype));
        if (i > 0 && !cero_engine_is_same_unit(&params[i], &params[i - 1])) {
            CERO_TRY(check_unit(params, i));
        }
    }
    return CERO_OK;
}

/* One line for each parameter, with all that must be the same on all ranks. */
static cero_status describe(const cero_external_param *params, int64_t count, cero_text *text)
{
    char shape[128];

    for (int64_t i = 0; i < count; i++) {
        const cero_external_param *p = &params[i];
        size_t length;
        const char *unit = cero_engine_unit_of(p, &length);
        cero_text_printf(text, "%s %s %s of unit %.*s, data %s, grad %s%s%s\n", p->name,
                         cero_shape_format(&p->shape, shape, sizeof(shape)),
                         cero_dtype_name(p->dtype), (int)length, unit,
                         p->data != NULL ? "the program's" : "the engine's",
                         p->grad != NULL ? "the program's" : "the engine's",
                         p->is_frozen ? ", frozen" : "", p->is_embedding ? ", embedding" : "");
    }
    return cero_text_finish(text);
}

static cero_status check_all(const cero_external_param *params, int64_t count,
                             cero_dtype compute_dtype)
{
    CERO_TRY(check_params(params, count, compute_dtype));
    entry *list = cero_new(2 * (size_t)count, sizeof(entry));
    CERO_CHECK(list != NULL, CERO_ERR_NOMEM, "no memory to check %lld parameters",
               (long long)count);
    cero_status st = check_entries(params, count, list);
    cero_delete(list);
    return st;
}

cero_status cero_engine_check_table(const cero_engine *engine, const cero_external_param *params,
                                    int64_t count)
{
    cero_comm *comm = engine->context->comm;
    cero_text text = {0};
    cero_status st = check_all(params, count, engine->spec->compute_dtype);

    CERO_TRY_GOTO(cero_comm_agree(comm, st), out);
    CERO_TRY_GOTO(cero_comm_agree(comm, describe(params, count, &text)), out);
    CERO_TRY_GOTO(cero_comm_check_same_text(comm, "the table of parameters", &text), out);
out:
    cero_text_cleanup(&text);
    return st;
}
