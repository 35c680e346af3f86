/* SPDX-License-Identifier: Apache-2.0 */
/* `cero plan`: what a run needs, from the compilation that the run itself uses. */
#include "cli/cli.h"
#include "cli/run_options.h"
#include "plan/plan.h"

static cero_status print_plan(const cero_plan_options *o, const cero_run_plan *plan)
{
    cero_text text = {0};
    cero_status st = cero_run_plan_write(plan, o->json, &text);

    if (st == CERO_OK && o->dump) {
        st = cero_run_plan_dump(plan, &text);
    }
    st = st != CERO_OK ? st : cero_cli_print(&text);
    cero_text_cleanup(&text);
    return st;
}

static cero_status run(cero_cli *cli, void *values)
{
    const cero_plan_options *o = values;
    cero_model_spec model;
    cero_config *config = NULL;
    cero_run_plan *plan = NULL;
    cero_status st = CERO_OK;
    int size = o->world > 0 ? (int)o->world : 1;

    cero_cli_at(cli, CERO_CLI_USAGE, NULL);
    CERO_CHECK(o->rank < size, CERO_ERR_INVALID, "--rank %lld of --world %d; expected 0 to %d",
               (long long)o->rank, size, size - 1);
    cero_cli_at(cli, CERO_CLI_READING_CONFIG, o->model);
    CERO_TRY(cero_model_spec_resolve(o->model, &model));
    cero_cli_at(cli, CERO_CLI_READING_CONFIG, o->config);
    CERO_TRY_GOTO(cero_train_config_create(
                      &(cero_train_config_params){.path = o->config,
                                                  .overrides = (const char *const *)o->set.word,
                                                  .override_count = o->set.count,
                                                  .dp_size = (int)o->world},
                      &config),
                  out);
    cero_cli_at(cli, CERO_CLI_WORKING, NULL);
    CERO_TRY_GOTO(cero_run_plan_create(
                      &(cero_plan_params){.model = &model,
                                          .config = config,
                                          .seq_len = o->seq_len,
                                          .world_size = (int)o->world,
                                          .world_rank = o->rank >= 0 ? (int)o->rank : size - 1,
                                          .ranks_per_node = (int)o->ranks_per_node,
                                          .no_shared_memory = o->no_shared_memory,
                                          .threads = (int)o->threads,
                                          .no_eval = !o->eval},
                      &plan),
                  out);
    CERO_TRY_GOTO(print_plan(o, plan), out);
out:
    cero_run_plan_destroy(&plan);
    cero_config_destroy(&config);
    return st;
}

const cero_command cero_command_plan = {
    .name = "plan",
    .summary = "Says what a run will need: memory by category, operations, the program",
    .usage = "--model DIR|NAME --config FILE",
    .details = "Nothing of the model's size is allocated: a plan takes seconds for any model.",
    .options = cero_plan_option_table,
    .values_size = sizeof(cero_plan_options),
    .set_defaults = cero_plan_options_set_defaults,
    .run = run,
};
