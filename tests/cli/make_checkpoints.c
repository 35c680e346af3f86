/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a checkpoint of a tiny GPT-2 for scripts: make_checkpoints DIR TAG FILES CUT STEP VALUES.
 *
 * CUT is flat or tensors. VALUES shifts the values of the weights; equal ones give equal values, whatever the cut.
 * STEP is also in the sections "engine" and "train". DIR/TAG is committed as a save would.
 */
#include "unit/ckpt/checkpoints.h"
#include "unit/ckpt/models.h"

#include "ckpt/checkpoint/folder.h"
#include "ckpt/hf.h"

static float shift;

static float value_of(const char *tensor, int64_t element)
{
    return checkpoints_value(tensor, element) / 32768.0F + shift;
}

/* The model's parameters and one moment of each; names live as long as the program. */
static int64_t list_tensors(const cero_model_spec *spec, cero_rank_file_tensor *out)
{
    cero_hf_table table;
    int64_t n = 0;

    assert_ok(cero_hf_table_init(spec, &table));
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < table.param_count; i++) {
            char name[160];
            assert_true(n < CHECKPOINTS_MAX_TENSORS);
            (void)snprintf(name, sizeof(name), "%s%s", k == 0 ? "" : "optim.exp_avg.",
                           table.entry[i].name);
            out[n++] =
                (cero_rank_file_tensor){.name = cero_strdup(name), .shape = table.entry[i].shape};
        }
    }
    cero_hf_table_cleanup(&table);
    return n;
}

int main(int argc, char **argv)
{
    cero_rank_file_tensor tensors[CHECKPOINTS_MAX_TENSORS];
    cero_model_spec spec = models_gpt2();
    cero_text model = {0};
    cero_text manifest = {0};
    char engine[64];
    char train[96];
    char id[CERO_MANIFEST_ID];
    cero_folder_commit *commit = NULL;

    if (argc != 7) {
        (void)fprintf(stderr, "usage: %s DIR TAG FILES flat|tensors STEP VALUES\n", argv[0]);
        return 2;
    }
    shift = (float)atof(argv[6]);
    assert_ok(cero_model_spec_write_json(&spec, CERO_DTYPE_F32, &model));
    (void)snprintf(engine, sizeof(engine), "{\"step\": %s, \"applied\": %s, \"skipped\": 0}",
                   argv[5], argv[5]);
    (void)snprintf(train, sizeof(train),
                   "{\"data\": {\"epoch\": 1, \"position\": %s}, \"seed\": 42}", argv[5]);
    const cero_manifest_section sections[] = {
        {"engine", engine},
        {"train", train},
        {"config", "{\"bf16.enabled\": {\"value\": true, \"origin\": \"file\"}}"},
        {"model", model.data},
    };
    cero_manifest_make_id(id);
    checkpoints_params p = {.tensors = tensors,
                            .tensor_count = list_tensors(&spec, tensors),
                            .files = atoi(argv[3]),
                            .cut = strcmp(argv[4], "flat") == 0 ? CHECKPOINTS_FLAT
                                                                : CHECKPOINTS_TENSORS,
                            .block_nbytes = 256,
                            .id = id,
                            .run = "0123456789abcdef0123456789abcdef",
                            .step = atoi(argv[5]),
                            .sections = sections,
                            .section_count = 4,
                            .value = value_of};
    assert_ok(cero_folder_begin(argv[1], argv[2], id, &commit));
    checkpoints_write_files(cero_folder_commit_path(commit), &p, &manifest);
    assert_ok(cero_folder_finish(commit, manifest.data, manifest.length));
    cero_folder_end(&commit);
    cero_text_cleanup(&manifest);
    cero_text_cleanup(&model);
    for (int64_t i = 0; i < p.tensor_count; i++) {
        cero_delete((void *)(uintptr_t)tensors[i].name);
    }
    return 0;
}
