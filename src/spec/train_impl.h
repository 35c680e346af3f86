/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key table of the training config, and what its parser, its derivations and its documents share.
 *
 * A key is either a row of its own (supported: it has a field, a type, a range, a default) or a name in a
 * group that shares one class and reason (accepted without effect, or refused). Values of supported keys
 * live in cero_train_values, at the row's offset.
 */
#ifndef CERO_SPEC_TRAIN_IMPL_H
#define CERO_SPEC_TRAIN_IMPL_H

#include "spec/train.h"

enum {
    CERO_TRAIN_MAX_KEYS = 128,
    CERO_TRAIN_MAX_NAME = 64,
    CERO_TRAIN_MAX_PATH = 192
};

/* The spec, and the values that only decide fields of the spec. */
typedef struct cero_train_values {
    cero_train_spec spec;
    char optimizer_type[CERO_TRAIN_MAX_NAME];
    char scheduler_type[CERO_TRAIN_MAX_NAME];
    double betas[2];
    bool adam_w_mode;
    bool fp16_enabled;
    bool bf16_enabled;
    int warmup_type; /* 0 log, 1 linear */
} cero_train_values;

typedef enum cero_train_type {
    CERO_TRAIN_INT,      /* int64_t */
    CERO_TRAIN_SMALL,    /* int */
    CERO_TRAIN_SEED,     /* uint64_t */
    CERO_TRAIN_REAL,     /* double */
    CERO_TRAIN_BOOL,     /* bool */
    CERO_TRAIN_TEXT,     /* char[size] */
    CERO_TRAIN_WORD,     /* int: place in `words` */
    CERO_TRAIN_BETAS,    /* double[2], each at least 0 and below 1 */
    CERO_TRAIN_PATTERNS, /* cero_patterns; each one of `words` when there are words */
    CERO_TRAIN_TYPE_COUNT
} cero_train_type;

enum {
    CERO_TRAIN_NULL = 1,     /* null stands for the default, or for 0 in steps_per_print */
    CERO_TRAIN_NO_AUTO = 2,  /* nothing determines it: "auto" is an error */
    CERO_TRAIN_POSITIVE = 4, /* 0 is refused */
    CERO_TRAIN_MINUS_ONE = 8 /* -1 is accepted: no limit */
};

/* A supported key. Numbers are at least 0, at most `max` where that is not 0. */
typedef struct cero_train_key {
    const char *section; /* "" or "zero_optimization" */
    const char *name;
    cero_train_type type;
    unsigned flags;
    size_t offset;
    size_t size;
    double max;
    const char *const *words; /* ends with NULL */
    uint32_t types;           /* optimizer or schedule types that have it, as bits; 0: all */
    const char *def;          /* default as JSON; NULL: none, or depends: `def_note` says on what */
    const char *def_note;
    const char *meaning;
} cero_train_key;

typedef enum cero_train_class {
    CERO_TRAIN_ACCEPTED, /* without effect */
    CERO_TRAIN_REFUSED   /* unless it is its default or null */
} cero_train_class;

/* A name and its default as JSON, which also gives the type of its values; NULL: any value. */
typedef struct cero_train_name {
    const char *name;
    const char *def;
} cero_train_name;

/* Names of one section that share a class and a reason. */
typedef struct cero_train_group {
    const char *section;
    cero_train_class class;
    const char *reason;
    const cero_train_name *names; /* ends with a NULL name */
} cero_train_group;

/* The table. */
const cero_train_key *cero_train_keys(int *count);
const cero_train_group *cero_train_groups(int *count);

/* Section i by its path ("zero_optimization.offload_param"); NULL at the end. */
const char *cero_train_section(int i);

/* Index of a supported key; -1 if there is none. */
int cero_train_find_key(const char *section, const char *name);

struct cero_train_config {
    cero_train_values values;
    unsigned char origin[CERO_TRAIN_MAX_KEYS];   /* cero_origin */
    bool is_auto[CERO_TRAIN_MAX_KEYS];           /* "auto" stands in the file */
    const cero_json *where[CERO_TRAIN_MAX_KEYS]; /* while it is created: where the value stands */
    cero_json_document **documents;              /* while it is created */
    int64_t document_count;
    int64_t document_capacity;
    char **notes; /* owned strings */
    int64_t note_count;
    int64_t note_capacity;
    const char *source; /* name for messages about the whole, while it is created */
    int dp_size;
};

/* A place in the config that is being read. */
typedef struct cero_train_place {
    cero_train_config *config;
    const char *section;
    const char *name;
    cero_origin origin;
    char path[CERO_TRAIN_MAX_PATH];
} cero_train_place;

/* INVALID: what was expected at a place and what stands there. */
cero_status cero_train_fail_type(const cero_train_place *at, const cero_json *v,
                                 const char *expected);

/* Sets the field of a supported key. */
cero_status cero_train_set_value(const cero_train_place *at, const cero_train_key *key,
                                 const cero_json *v);

/* Reads the members of a file's root, or one override, into the config. */
cero_status cero_train_parse_root(cero_train_config *config, const cero_json *root);
cero_status cero_train_parse_override(cero_train_config *config, const char *path,
                                      const cero_json *value);

/* Sets every supported key to its default of the table. */
cero_status cero_train_set_defaults(cero_train_config *config);

/* Completes what depends on other values, and checks what belongs together. */
cero_status cero_train_derive(cero_train_config *config);

/* "section.name", or the name alone at the top. Returns path. */
const char *cero_train_path(const char *section, const char *name, char *path, size_t size);

/* Appends the value of supported key i as JSON. */
void cero_train_append_value(const cero_train_values *values, int i, cero_text *out);

/* True if the optimizer's or schedule's type in force has key i. */
bool cero_train_key_applies(const cero_train_config *config, int i);

/* The nearest of the names: same but for case, then one that contains it, then by edit distance. */
const char *cero_train_nearest(const char *name, const char *(*next)(const void *context, int i),
                               const void *context);

/* UNSUPPORTED with the place. */
#define CERO_TRAIN_REFUSE(value, ...) \
    (cero_json_fail((value), __FILE__, __LINE__, __func__, __VA_ARGS__), CERO_ERR_UNSUPPORTED)

#endif
