/* SPDX-License-Identifier: Apache-2.0 */
/* `cero inspect` for a training config: the effective config, with where each value is from. */
#include "cli/inspect.h"
#include "spec/train.h"

cero_status cero_inspect_config(cero_cli *cli, const cero_inspect_values *values, const char *path,
                                cero_text *out)
{
    cero_train_config *config = NULL;

    cero_cli_at(cli, CERO_CLI_READING_CONFIG, path);
    CERO_TRY(cero_train_config_create(&(cero_train_config_params){.path = path}, &config));
    if (!values->json) {
        cero_text_printf(out, "%s: training config\n", path);
        for (int i = 0; i < cero_train_config_note_count(config); i++) {
            cero_text_printf(out, "  without effect: %s\n", cero_train_config_note(config, i));
        }
    }
    cero_status st = cero_train_config_write_json(config, out);
    if (out->length > 0 && out->data[out->length - 1] != '\n') {
        cero_text_append(out, "\n", 1);
    }
    cero_train_config_destroy(&config);
    return st;
}
