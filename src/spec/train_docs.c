/* SPDX-License-Identifier: Apache-2.0 */
/* The key table as Markdown: docs/config.md. */
#include "spec/train_impl.h"

#include <string.h>

static const char head[] =
    "# The training config\n"
    "\n"
    "`cero train --config ds_config.json` reads the file that DeepSpeed users have.\n"
    "This page is generated from the key table of `src/spec/`: `cero info --config-docs > "
    "docs/config.md`.\n"
    "\n"
    "- Every key that DeepSpeed 0.19 knows is **supported**, **accepted without effect** (listed at "
    "start) or **refused** with the reason.\n"
    "  A refused key may stand at its default or null.\n"
    "- A key that nobody knows, a key twice, and a value of another type or sign are errors with "
    "file:line:column, path and the nearest known key.\n"
    "- Comments (`//`, `#`, `/* */`) and trailing commas are accepted. An integer may be written "
    "`5e8` or `2.0`; `\"3\"` and `true` are no integers.\n"
    "- `\"auto\"` stands for the default, or for what other values determine; what nothing "
    "determines is listed in one error.\n"
    "- `--set key.path=value` comes after the file and wins. The value is JSON, or else a string.\n"
    "- Defaults are those of DeepSpeed from 0.19.3 on; `gradient_clipping` is therefore 1.0, where "
    "older releases had 0.\n"
    "\n"
    "With two of `train_batch_size`, `train_micro_batch_size_per_gpu` and "
    "`gradient_accumulation_steps` the third follows; with one of the first two, the accumulation is "
    "1.\n"
    "The product of micro batch, accumulation and data-parallel ranks must be the batch.\n"
    "\n"
    "## Supported\n";

/* Which types of optimizer or schedule have a key. */
static void put_types(const cero_train_key *key, cero_text *out)
{
    bool is_optimizer = strcmp(key->section, "optimizer.params") == 0;
    const char *before = " (";

    for (int t = 0; t < 32 && key->types != 0; t++) {
        if (((key->types >> t) & 1) != 0) {
            cero_text_printf(out, "%s%s", before,
                             is_optimizer ? cero_optim_type_name((cero_optim_type)t)
                                          : cero_lr_schedule_type_name((cero_lr_schedule_type)t));
            before = ", ";
        }
    }
    cero_text_printf(out, "%s", key->types != 0 ? ")" : "");
}

static void put_words(const cero_train_key *key, cero_text *out)
{
    for (int i = 0; key->words != NULL && key->words[i] != NULL; i++) {
        cero_text_printf(out, "%s`%s`", i == 0 ? "" : ", ", key->words[i]);
    }
}

static void put_type(const cero_train_key *key, cero_text *out)
{
    static const char *const names[CERO_TRAIN_TYPE_COUNT] = {
        "integer", "integer", "integer", "number", "bool", "string", "", "two numbers", "list"};

    cero_text_printf(out, "%s%s", names[key->type],
                     key->type == CERO_TRAIN_PATTERNS && key->words != NULL ? " of " : "");
    put_words(key, out);
    if (key->max > 0) {
        cero_text_printf(out, ", at most %g", key->max);
    }
    if ((key->flags & CERO_TRAIN_POSITIVE) != 0) {
        cero_text_printf(out, ", > 0");
    }
    if ((key->flags & CERO_TRAIN_MINUS_ONE) != 0) {
        cero_text_printf(out, ", at least -1");
    }
}

static void put_supported(cero_text *out)
{
    int count;
    const cero_train_key *keys = cero_train_keys(&count);

    for (int i = 0; i < count; i++) {
        char path[CERO_TRAIN_MAX_PATH];
        if (i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0) {
            cero_text_printf(out,
                             "\n### %s\n\n| key | type | default | meaning |\n|---|---|---|---|\n",
                             keys[i].section[0] == '\0' ? "Top level" : keys[i].section);
        }
        cero_text_printf(out, "| `%s` | ",
                         cero_train_path(keys[i].section, keys[i].name, path, sizeof(path)));
        put_type(&keys[i], out);
        const char *quote = keys[i].def != NULL ? "`" : "";
        cero_text_printf(out, " | %s%s%s | %s", quote,
                         keys[i].def != NULL ? keys[i].def : keys[i].def_note, quote,
                         keys[i].meaning);
        put_types(&keys[i], out);
        cero_text_printf(out, " |\n");
    }
}

static void put_class(cero_train_class class, cero_text *out)
{
    int count;
    const cero_train_group *groups = cero_train_groups(&count);

    for (int g = 0; g < count; g++) {
        if (groups[g].class != class) {
            continue;
        }
        for (const cero_train_name *n = groups[g].names; n->name != NULL; n++) {
            char path[CERO_TRAIN_MAX_PATH];
            cero_text_printf(out, "| `%s` | ",
                             cero_train_path(groups[g].section, n->name, path, sizeof(path)));
            cero_text_printf(out, n->def == NULL ? "%s" : "`%s`", n->def == NULL ? "" : n->def);
            cero_text_printf(out, " | %s |\n", groups[g].reason);
        }
    }
}

cero_status cero_train_config_write_docs(cero_text *out)
{
    cero_text_append(out, head, sizeof(head) - 1);
    put_supported(out);
    cero_text_printf(out,
                     "\n## Accepted without effect\n\n| key | default | why |\n|---|---|---|\n");
    put_class(CERO_TRAIN_ACCEPTED, out);
    cero_text_printf(out, "\n## Refused\n\n| key | accepted value | why |\n|---|---|---|\n");
    put_class(CERO_TRAIN_REFUSED, out);
    cero_text_printf(out,
                     "\nOptimizers `OneBitAdam`, `OneBitLamb`, `ZeroOneAdam`, `MuAdam`, `MuAdamW` "
                     "and `MuSGD` are refused: 1-bit and mup optimizers are not offered.\n");
    CERO_TRY(cero_text_finish(out));
    return CERO_OK;
}
