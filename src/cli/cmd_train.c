/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cero train`: reads config, model and data, runs the loop, leaves metrics, log and the model. Under mpirun,
 * srun or `cero launch` it is one rank of the run: rank 0 speaks and writes what there is one of.
 *
 * SIGINT, SIGTERM and SIGUSR1 end the run after the step at hand, with a checkpoint; after SIGINT the model is
 * exported too. A second one ends at once. SIGUSR1 is what mpirun and srun hand through to the ranks.
 */
#include "base/file.h"
#include "base/log.h"
#include "ckpt/shards.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/resume_options.h"
#include "cli/run_options.h"
#include "cli/train_summary.h"
#include "cli/world_summary.h"
#include "train/run_log.h"
#include "train/train.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_SETS = 64
};

/* Set by signals, read between steps. */
static volatile int stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

/* One run and everything it holds. */
typedef struct train_run {
    cero_cli *cli;
    const cero_train_options *options;
    cero_context *context;
    cero_config *config;
    cero_model_spec model;
    bool has_weights;
    char *config_json;    /* owned; NULL: a built-in model */
    char *tokenizer_path; /* owned; NULL: none */
    cero_tokenizer *tokenizer;
    cero_token_stream *data;
    cero_token_stream *eval_data;
    cero_trainer *trainer;
    cero_run_log *log;
    cero_progress progress;
    char seed_text[64];
    char resume_tag[CERO_FOLDER_MAX_TAG]; /* empty: none was named */
    bool must_go_on; /* the run does not start: a directory that is not there is not made */
} train_run;

static bool is_speaker(const train_run *run)
{
    return cero_context_rank(run->context) == 0;
}

static bool has_file(const char *dir, const char *name)
{
    char *path = cero_file_join(dir, name);
    bool is_there = path != NULL && cero_file_stat(path, NULL) == CERO_FILE_REGULAR;

    cero_delete(path);
    return is_there;
}

static cero_status read_config(train_run *run)
{
    const cero_train_options *o = run->options;
    const char *sets[MAX_SETS];
    int count = 0;

    CERO_CHECK(o->set.count < MAX_SETS, CERO_ERR_INVALID, "--set is given %d times, at most %d",
               o->set.count, MAX_SETS - 1);
    for (; count < o->set.count; count++) {
        sets[count] = o->set.word[count];
    }
    if (o->seed >= 0) {
        (void)snprintf(run->seed_text, sizeof(run->seed_text), "cero.seed=%lld",
                       (long long)o->seed);
        sets[count++] = run->seed_text;
    }
    cero_cli_at(run->cli, CERO_CLI_READING_CONFIG, o->config);
    return cero_config_create(run->context, o->config, sets, count, &run->config);
}

/* A model that starts from nothing ends its documents with the tokenizer's token, not its description's. */
static void adopt_end_of_document(train_run *run)
{
    int32_t eos = cero_tokenizer_eos(run->tokenizer);

    if (run->has_weights || eos < 0) {
        return;
    }
    run->model.eos_token_id[0] = eos;
    run->model.eos_count = 1;
    if (run->model.arch == CERO_ARCH_GPT2) {
        run->model.bos_token_id = eos; // GPT-2's documents begin where the one before ended
    }
}

static cero_status read_model(train_run *run)
{
    const cero_train_options *o = run->options;

    // Before config.json is read: a file of weights, or a folder of another trainer, has none.
    cero_cli_at(run->cli, CERO_CLI_READING_INPUT, o->model);
    CERO_TRY(o->no_weights ? CERO_OK : cero_shards_look(o->model, &run->has_weights));
    cero_cli_at(run->cli, CERO_CLI_READING_CONFIG, o->model);
    CERO_TRY(cero_model_spec_resolve(o->model, &run->model));
    bool is_dir = cero_file_stat(o->model, NULL) == CERO_FILE_DIRECTORY;
    if (is_dir ? has_file(o->model, "config.json")
               : cero_file_stat(o->model, NULL) == CERO_FILE_REGULAR) {
        run->config_json = is_dir ? cero_file_join(o->model, "config.json") : cero_strdup(o->model);
        CERO_CHECK(run->config_json != NULL, CERO_ERR_NOMEM, "no memory for a path");
    }
    if (o->tokenizer != NULL) {
        run->tokenizer_path = cero_strdup(o->tokenizer);
    } else if (is_dir && has_file(o->model, "tokenizer.json")) {
        run->tokenizer_path = cero_strdup(o->model);
    } else {
        return CERO_OK;
    }
    CERO_CHECK(run->tokenizer_path != NULL, CERO_ERR_NOMEM, "no memory for a path");
    cero_cli_at(run->cli, CERO_CLI_READING_INPUT, run->tokenizer_path);
    CERO_TRY(cero_tokenizer_open(run->tokenizer_path, &run->tokenizer));
    adopt_end_of_document(run);
    return CERO_OK;
}

static cero_status open_stream(train_run *run, const cero_words *words, cero_token_stream **out)
{
    cero_token_stream_params params = {
        .path = words->word,
        .path_count = words->count,
        .vocab_size = run->model.vocab_size,
        .tokenizer = run->tokenizer,
        .no_eod = run->options->no_eod,
        .no_special = run->options->no_special,
    };

    cero_cli_at(run->cli, CERO_CLI_READING_INPUT, words->word[0]);
    return cero_token_stream_open(&params, out);
}

static void visit(void *context, const cero_metrics_step *step)
{
    train_run *run = context;
    cero_progress_step shown = {
        .step = step->stats.step,
        .loss = step->stats.loss,
        .lr = step->stats.lr,
        .tokens_per_second = (double)step->step_tokens / step->step_seconds,
        .step_seconds = step->step_seconds,
        .skipped = step->stats.skipped,
    };

    if (!run->cli->common.quiet && is_speaker(run)) {
        cero_progress_update(&run->progress, &shown);
    }
    if (step->has_eval) {
        cero_log(CERO_LOG_INFO, "train", "step %lld: evaluation loss %.6f, perplexity %.4f",
                 (long long)step->stats.step, step->eval_loss, exp(step->eval_loss));
    }
}

static cero_status create_trainer(train_run *run)
{
    const cero_train_options *o = run->options;
    cero_trainer_params params = {
        .context = run->context,
        .config = run->config,
        .model = &run->model,
        .data = run->data,
        .eval_data = run->eval_data,
        .out = o->out,
        .steps = o->steps,
        .seq_len = o->seq_len,
        .order =
            o->order == CERO_CLI_ORDER_SEQUENTIAL ? CERO_SAMPLER_SEQUENTIAL : CERO_SAMPLER_SHUFFLED,
        .eval_every = o->eval_every,
        .has_weights = run->has_weights,
        .export_shard_bytes = o->export_shard_size,
        .config_json = run->config_json,
        .is_profiling = o->profile,
        .visitor = visit,
        .visitor_context = run,
    };

    cero_cli_at(run->cli, CERO_CLI_USAGE, NULL);
    CERO_TRY(
        cero_context_agree(run->context, cero_resume_options_apply(o, run->resume_tag, &params)));
    run->must_go_on = params.resume == CERO_RESUME_AUTO || params.resume == CERO_RESUME_TAG;
    cero_cli_at(run->cli, CERO_CLI_READING_CONFIG, NULL);
    CERO_TRY(cero_trainer_check_options(&params));
    cero_cli_at(run->cli, CERO_CLI_READING_INPUT, o->data.word[0]);
    CERO_TRY(cero_trainer_check_data(&params));
    // What model and config contradict each other in comes out while they are compiled.
    cero_cli_at(run->cli, CERO_CLI_READING_CONFIG, NULL);
    CERO_TRY(cero_trainer_create(&params, &run->trainer));
    cero_cli_at(run->cli, CERO_CLI_CREATING, o->out);
    return cero_trainer_claim(run->trainer);
}

/* What a failed resume is about, for its exit code: a checkpoint that is not there, or one that is. */
static void point_at_checkpoint(train_run *run)
{
    char path[sizeof(run->cli->path)];

    (void)snprintf(path, sizeof(path), "%.800s/checkpoints/%s", run->options->out,
                   run->resume_tag[0] != '\0' ? run->resume_tag : "*");
    cero_cli_at(run->cli, CERO_CLI_READING_INPUT, path);
}

/* Weights of a run that starts. */
static cero_status set_weights(train_run *run)
{
    const cero_train_options *o = run->options;

    if (o->init_from != NULL) {
        cero_cli_at(run->cli, CERO_CLI_READING_INPUT, o->init_from);
        return cero_trainer_init_from(run->trainer, o->init_from, o->partial);
    }
    if (run->has_weights) {
        cero_cli_at(run->cli, CERO_CLI_READING_INPUT, o->model);
        return cero_trainer_import(run->trainer, o->model);
    }
    return CERO_OK;
}

/* Where the run is when its steps begin; its files come last, and make the directory that of a run. */
static cero_status prepare_trainer(train_run *run)
{
    point_at_checkpoint(run);
    CERO_TRY(cero_trainer_resume(run->trainer));
    if (cero_trainer_resumed_from(run->trainer) == NULL) {
        CERO_TRY(set_weights(run));
    }
    cero_cli_at(run->cli, CERO_CLI_CREATING, run->options->out);
    return cero_trainer_open_files(run->trainer);
}

/* Again when it is known where the run goes on. */
static void begin_progress(train_run *run)
{
    bool is_terminal = isatty(STDERR_FILENO) != 0;

    cero_progress_begin(&run->progress,
                        &(cero_progress_params){
                            .stream = stderr,
                            .is_terminal = is_terminal,
                            .has_color = cero_cli_has_color(run->cli, STDERR_FILENO),
                            .width = is_terminal ? cero_progress_terminal_width(STDERR_FILENO) : 0,
                            .first_step = cero_trainer_steps_done(run->trainer),
                            .total_steps = cero_trainer_steps(run->trainer),
                            .steps_per_print = cero_train_config_spec(run->config)->steps_per_print,
                        });
}

static cero_status open_log(train_run *run)
{
    cero_log_level level = run->cli->common.quiet ? CERO_LOG_ERROR
                           : is_speaker(run)      ? CERO_LOG_INFO
                                                  : CERO_LOG_WARN;

    begin_progress(run);
    if (run->must_go_on && cero_file_stat(run->options->out, NULL) == CERO_FILE_ABSENT) {
        return CERO_OK; // it ends where nothing is found
    }
    cero_cli_at(run->cli, CERO_CLI_CREATING, run->options->out);
    return cero_run_log_open(&(cero_run_log_params){.dir = run->options->out,
                                                    .rank = cero_context_rank(run->context),
                                                    .terminal_level = level,
                                                    .next = cero_progress_log_sink,
                                                    .next_context = &run->progress},
                             &run->log);
}

static const char *weights_origin(const train_run *run)
{
    return cero_trainer_resumed_from(run->trainer) != NULL ? "weights from a checkpoint of the run"
           : run->options->init_from != NULL               ? "weights from a checkpoint"
           : run->has_weights                              ? "weights from the directory"
                                                           : "initial weights";
}

static cero_status write_summary(const train_run *run, const cero_world_facts *facts,
                                 cero_text *text)
{
    const cero_engine *engine = cero_trainer_engine(run->trainer);
    const char *unused = cero_engine_unused_param(engine, 0);

    cero_summary_model(&run->model, weights_origin(run), text);
    cero_summary_world(facts, text);
    cero_summary_training(run->config, engine, facts->size, text);
    cero_summary_data(run->trainer, run->data, text);
    cero_summary_saves(run->options, run->config, text);
    cero_summary_zero(facts, text);
    cero_summary_memory(facts, text);
    cero_summary_idle_keys(facts, text);
    for (int i = 0; unused != NULL; unused = cero_engine_unused_param(engine, ++i)) {
        cero_text_printf(text, "unused     %s takes no part in the loss\n", unused);
    }
    CERO_TRY(cero_text_finish(text));
    text->data[text->length - 1] = '\0'; // the log ends the last line itself
    return CERO_OK;
}

/* One rank speaks for all: to its log, and to the terminal. */
static cero_status say_facts(train_run *run, const cero_world_facts *facts)
{
    cero_text summary = {0};
    cero_text warnings = {0};
    cero_status st = write_summary(run, facts, &summary);

    if (st == CERO_OK) {
        cero_run_log_write(run->log, summary.data);
        if (!run->cli->common.quiet) {
            (void)fprintf(stderr, "%s\n", summary.data);
        }
        cero_summary_warnings(facts, &warnings);
    }
    for (const char *p = warnings.data; p != NULL && *p != '\0';) {
        size_t length = strcspn(p, "\n");
        cero_log(CERO_LOG_WARN, "train", "%.*s", (int)length, p);
        p += length + (p[length] == '\n' ? 1 : 0);
    }
    cero_text_cleanup(&warnings);
    cero_text_cleanup(&summary);
    return st;
}

static cero_status say_summary(train_run *run)
{
    cero_world_facts facts = {0};
    cero_status st =
        cero_world_facts_gather(run->context, run->config, cero_trainer_engine(run->trainer),
                                cero_trainer_steps(run->trainer), &facts);

    if (st == CERO_OK && is_speaker(run)) {
        st = say_facts(run, &facts);
    }
    cero_world_facts_cleanup(&facts);
    return st;
}

static const char *signal_name(int number)
{
    return number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "SIGUSR1";
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
}

static cero_status export_model(train_run *run)
{
    static const cero_dtype dtypes[] = {CERO_DTYPE_F32, CERO_DTYPE_BF16, CERO_DTYPE_F16};
    char *dir = cero_file_join(run->options->out, "model");
    cero_status st = CERO_OK;

    CERO_CHECK(dir != NULL, CERO_ERR_NOMEM, "no memory for a path");
    cero_cli_at(run->cli, CERO_CLI_CREATING, dir);
    const char *tokenizer_dir = run->tokenizer_path;
    // A tokenizer named by its file is copied with what lies beside it.
    if (tokenizer_dir != NULL && cero_file_stat(tokenizer_dir, NULL) == CERO_FILE_REGULAR) {
        char *slash = strrchr(run->tokenizer_path, '/');
        if (slash == NULL) {
            tokenizer_dir = ".";
        } else {
            *slash = '\0';
        }
    }
    st = cero_trainer_export(run->trainer, dir, dtypes[run->options->export_dtype], tokenizer_dir);
    cero_delete(dir);
    return st;
}

static cero_status print_profile(const train_run *run)
{
    cero_text text = {0};
    cero_status st = cero_engine_profile_write(cero_trainer_engine(run->trainer), &text);

    st = st != CERO_OK ? st : cero_cli_print(&text);
    cero_text_cleanup(&text);
    return st;
}

/* A run that is asked to leave goes on later: its checkpoint is what counts. */
static bool leaves(const train_run *run)
{
    int stopped_by = cero_trainer_stopped_by(run->trainer);

    return stopped_by == SIGTERM || stopped_by == SIGUSR1;
}

static void say_nothing_to_do(const train_run *run)
{
    int64_t done = cero_trainer_steps_done(run->trainer);
    int64_t steps = cero_trainer_steps(run->trainer);

    if (done >= steps && is_speaker(run)) {
        cero_log(
            CERO_LOG_INFO, "train",
            "the run is finished: its checkpoint is of step %lld, of %lld; the model is exported",
            (long long)done, (long long)steps);
    }
}

static cero_status run_training(train_run *run)
{
    cero_cli_at(run->cli, CERO_CLI_WORKING, NULL);
    say_nothing_to_do(run);
    catch_signals();
    cero_status st = cero_trainer_run(run->trainer, &stop_signal);
    cero_progress_end(&run->progress);
    CERO_TRY(st);
    int signal_number = cero_trainer_stopped_by(run->trainer);
    if (signal_number != 0 && is_speaker(run)) {
        cero_log(CERO_LOG_WARN, "train", "stopped by %s after step %lld of %lld",
                 signal_name(signal_number), (long long)cero_trainer_steps_done(run->trainer),
                 (long long)cero_trainer_steps(run->trainer));
    }
    return leaves(run) ? CERO_OK : export_model(run);
}

/* A run without the checkpoint of its last step did not do what it was asked for, whatever else it did. */
static cero_status check_last_save(train_run *run)
{
    const char *error = cero_trainer_save_error(run->trainer);
    cero_status st = CERO_OK;

    if (error != NULL && is_speaker(run)) {
        cero_cli_at(run->cli, CERO_CLI_WORKING, NULL);
        st = CERO_FAIL(CERO_ERR_IO, "the checkpoint of step %lld, the last, is not there: %s",
                       (long long)cero_trainer_steps_done(run->trainer), error);
    }
    return cero_context_agree(run->context, st);
}

static cero_status print_config(const train_run *run)
{
    cero_text text = {0};
    cero_status st = cero_train_config_write_json(run->config, &text);

    st = st != CERO_OK ? st : cero_cli_print(&text);
    cero_text_cleanup(&text);
    return st;
}

static cero_status read_inputs(train_run *run)
{
    const cero_train_options *o = run->options;

    CERO_TRY(read_model(run));
    CERO_TRY(open_stream(run, &o->data, &run->data));
    return o->eval_data.count > 0 ? open_stream(run, &o->eval_data, &run->eval_data) : CERO_OK;
}

static cero_status train(train_run *run)
{
    const cero_train_options *o = run->options;

    CERO_TRY(cero_context_create(
        &(cero_context_params){.threads = (int)o->threads, .no_shared_memory = o->no_shared_memory},
        &run->context));
    // What one rank cannot read is known to all before they wait for each other.
    CERO_TRY(cero_context_agree(run->context, read_config(run)));
    if (o->print_config) {
        return is_speaker(run) ? print_config(run) : CERO_OK;
    }
    CERO_TRY(cero_context_agree(run->context, read_inputs(run)));
    CERO_TRY(create_trainer(run));
    CERO_TRY(cero_context_agree(run->context, open_log(run)));
    CERO_TRY(prepare_trainer(run));
    begin_progress(run);
    CERO_TRY(say_summary(run));
    CERO_TRY(run_training(run));
    if (o->profile && is_speaker(run)) {
        CERO_TRY(print_profile(run));
    }
    return check_last_save(run);
}

static cero_status run_command(cero_cli *cli, void *values)
{
    train_run run = {.cli = cli, .options = values};
    cero_status st = train(&run);

    cero_run_log_close(&run.log);
    cero_log_set_sink(NULL, NULL);
    if (st != CERO_OK) {
        cero_cli_leave(cli, "train", run.context, st);
    } else {
        cli->is_stopped = run.trainer != NULL && leaves(&run);
    }
    cero_trainer_destroy(&run.trainer);
    cero_token_stream_close(&run.eval_data);
    cero_token_stream_close(&run.data);
    cero_tokenizer_destroy(&run.tokenizer);
    cero_delete(run.tokenizer_path);
    cero_delete(run.config_json);
    cero_config_destroy(&run.config);
    cero_context_destroy(&run.context);
    return st;
}

const cero_command cero_command_train = {
    .name = "train",
    .summary = "Trains a model and leaves it in Hugging Face's format",
    .usage = "--config FILE --model DIR|NAME --data PATH… --out DIR",
    .details =
        "DIR gets metrics.jsonl (one object for each step), log/, checkpoints/ and, at the end, model/.\n"
        "SIGTERM and SIGUSR1 end the run after the step at hand with a checkpoint and exit code 75; "
        "--resume auto goes on from there.\n"
        "SIGINT does the same and exports the model.",
    .options = cero_train_option_table,
    .values_size = sizeof(cero_train_options),
    .set_defaults = cero_train_options_set_defaults,
    .is_parallel = true,
    .run = run_command,
};
