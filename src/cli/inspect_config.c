/* SPDX-License-Identifier: Apache-2.0 */
/* `cero inspect` for a training config: the effective config, with where each value is from. */
#include "base/json.h"
#include "cli/inspect.h"
#include "spec/train.h"

#include <string.h>

static void put_notes(const cero_train_config *config, bool is_json, cero_text *out)
{
    for (int i = 0; i < cero_train_config_note_count(config); i++) {
        const char *note = cero_train_config_note(config, i);
        if (is_json) {
            cero_text_printf(out, "%s", i > 0 ? ", " : "");
            cero_text_append_json_string(out, note, strlen(note));
        } else {
            cero_text_printf(out, "  without effect: %s\n", note);
        }
    }
}

/* On one line, as every object of `cero inspect`. */
static cero_status put_json(const cero_train_config *config, const cero_text *effective,
                            const char *path, cero_text *out)
{
    cero_json_document *document = NULL;

    CERO_TRY(cero_json_parse(path, effective->data, effective->length, NULL, &document));
    cero_text_printf(out, "{\"kind\": \"config\", \"without_effect\": [");
    put_notes(config, true, out);
    cero_text_printf(out, "], \"config\": ");
    cero_status st = cero_json_write(cero_json_root(document), false, out);
    cero_text_printf(out, "}\n");
    cero_json_destroy(&document);
    return st;
}

static void put_text(const cero_train_config *config, const cero_text *effective, const char *path,
                     cero_text *out)
{
    cero_text_printf(out, "%s: training config\n", path);
    put_notes(config, false, out);
    cero_text_append(out, effective->data, effective->length);
    if (out->length > 0 && out->data[out->length - 1] != '\n') {
        cero_text_append(out, "\n", 1);
    }
}

cero_status cero_inspect_config(cero_cli *cli, const cero_inspect_values *values, const char *path,
                                cero_text *out)
{
    cero_status st = CERO_OK;
    cero_train_config *config = NULL;
    cero_text effective = {0};

    cero_cli_at(cli, CERO_CLI_READING_CONFIG, path);
    CERO_TRY(cero_train_config_create(&(cero_train_config_params){.path = path}, &config));
    CERO_TRY_GOTO(cero_train_config_write_json(config, &effective), out);
    CERO_TRY_GOTO(cero_text_finish(&effective), out);
    if (values->json) {
        CERO_TRY_GOTO(put_json(config, &effective, path, out), out);
    } else {
        put_text(config, &effective, path, out);
    }

out:
    cero_text_cleanup(&effective);
    cero_train_config_destroy(&config);
    return st;
}
