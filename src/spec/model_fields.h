/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a config.json's fields, and the readers of single values, for model_read.c. */
#ifndef CERO_SPEC_MODEL_FIELDS_H
#define CERO_SPEC_MODEL_FIELDS_H

#include "base/json.h"
#include "spec/model.h"

typedef enum cero_model_field_kind {
    CERO_MODEL_FIELD_INT,  /* >= 1, at `offset` */
    CERO_MODEL_FIELD_REAL, /* >= 0 */
    CERO_MODEL_FIELD_BOOL, /* true or false */
    CERO_MODEL_FIELD_FIXED, /* null, false, an empty list or object; anything else changes arithmetic */
    CERO_MODEL_FIELD_READ /* has its own function */
} cero_model_field_kind;

typedef cero_status (*cero_model_field_reader)(const cero_json *value, cero_model_spec *spec);

/* One field of config.json. Two names of one field have the same offset. */
typedef struct cero_model_field {
    const char *key;
    cero_model_field_kind kind;
    bool may_be_null; /* null means the default */
    size_t offset;
    cero_model_field_reader read;
} cero_model_field;

enum {
    CERO_MODEL_MAX_FIELDS = 48
};

/* The fields of an architecture. */
const cero_model_field *cero_model_fields(cero_arch arch, size_t *count);

/* Field i that changes no arithmetic; NULL at the end. */
const char *cero_model_ignorable_field(size_t i);

cero_status cero_model_expect(const cero_json *value, cero_json_type type);
cero_status cero_model_read_int(const cero_json *value, int64_t min, int64_t *out);
cero_status cero_model_read_real(const cero_json *value, double *out);

/* Reads rope_scaling (older files) or rope_parameters. */
cero_status cero_model_read_rope(const cero_json *object, cero_model_spec *spec);

/* UNSUPPORTED with the place: understood, and not offered. */
#define CERO_MODEL_REFUSE(value, ...) \
    (cero_json_fail((value), __FILE__, __LINE__, __func__, __VA_ARGS__), CERO_ERR_UNSUPPORTED)

#endif
