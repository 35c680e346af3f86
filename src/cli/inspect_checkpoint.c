/* SPDX-License-Identifier: Apache-2.0 */
/* `cero inspect` for checkpoints: what `cero ckpt show` and `cero ckpt ls` tell. */
#include "cli/ckpt/ckpt.h"
#include "cli/inspect.h"

cero_status cero_inspect_checkpoint(cero_cli *cli, const cero_inspect_values *values,
                                    const char *path, cero_text *out)
{
    cero_reader *reader = NULL;

    CERO_UNUSED(cli);
    CERO_TRY(cero_reader_open(path, &reader));
    cero_status st = cero_ckpt_write_one(reader, values->json, false, out);
    cero_reader_close(&reader);
    return st;
}

cero_status cero_inspect_checkpoints(cero_cli *cli, const cero_inspect_values *values,
                                     const char *path, cero_text *out)
{
    cero_ckpt_place place = {0};

    CERO_TRY(cero_ckpt_find(cli, path, &place));
    cero_status st = cero_ckpt_write_list(&place, values->json, out);
    cero_ckpt_place_cleanup(&place);
    return st;
}
