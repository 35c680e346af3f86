/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options from tables: a command lists its options, and the parser fills the fields of a struct.
 *
 * Long options `--name value` and `--name=value`, letters, flags, lists that repeat or take several
 * words, `--` before operands that start with a dash. Help is written from the same table.
 */
#ifndef CERO_CLI_ARGS_H
#define CERO_CLI_ARGS_H

#include "base/status.h"
#include "base/text.h"

typedef enum cero_option_kind {
    CERO_OPTION_FLAG = 0,   /* bool: set to true */
    CERO_OPTION_TEXT = 1,   /* const char *, view into argv */
    CERO_OPTION_INT = 2,    /* int64_t within min..max */
    CERO_OPTION_REAL = 3,   /* double within min..max */
    CERO_OPTION_CHOICE = 4, /* int: index into the names of `choices`, separated by '|' */
    CERO_OPTION_LIST = 5,   /* cero_words: one more word each time it is given */
    CERO_OPTION_WORDS = 6   /* cero_words: every word up to the next option; may repeat */
} cero_option_kind;

/* Words of the command line, in order: an owned array of views into argv. */
typedef struct cero_words {
    const char **word;
    int count;
} cero_words;

/* One option. The last of a table has name NULL. */
typedef struct cero_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    bool is_required; /* an error names it when it is missing */
    cero_option_kind kind;
    size_t offset;       /* of its field in the struct of values */
    const char *value;   /* placeholder in the help: "N"; NULL for flags */
    const char *help;    /* one line */
    const char *choices; /* CHOICE */
    double min;          /* INT and REAL; both zero: no bounds */
    double max;
} cero_option;

/* What stands on the command line without a dash. */
typedef struct cero_operands {
    const char *name; /* "FILE…"; NULL: none are taken */
    int min;
    int max;       /* 0: no bound */
    size_t offset; /* of a cero_words */
} cero_operands;

/* The tables of one command; `common` are the options that every command takes. */
typedef struct cero_args_table {
    const cero_option *options;
    const cero_option *common;
    cero_operands operands;
} cero_args_table;

/*
 * Fills `values` and `common_values`, whose fields hold their defaults before the call.
 *
 * Required options and the number of operands are checked by cero_args_check, so that `--help` works
 * without them. Free the lists with cero_args_cleanup, also after an error.
 * Errors: INVALID, naming the nearest option. NOMEM.
 */
CERO_NODISCARD cero_status cero_args_parse(const cero_args_table *table, int argc,
                                           char *const *argv, void *values, void *common_values);
CERO_NODISCARD cero_status cero_args_check(const cero_args_table *table, const void *values);
void cero_args_cleanup(const cero_args_table *table, void *values);

/* Appends the options of a table, one line each. */
void cero_args_help(const cero_option *options, cero_text *out);

#endif
