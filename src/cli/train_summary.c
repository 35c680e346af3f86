/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of train_summary.h. */
#include "cli/train_summary.h"

void cero_summary_model(const cero_model_spec *model, const char *weights, cero_text *out)
{
    cero_text_printf(out,
                     "model      %s: %s, %lld layers of width %lld, %lld heads, vocabulary %lld; "
                     "%lld parameters; %s\n",
                     model->name, model->arch == CERO_ARCH_GPT2 ? "gpt2" : "llama",
                     (long long)model->layers, (long long)model->hidden, (long long)model->heads,
                     (long long)model->vocab_size, (long long)cero_model_spec_param_count(model),
                     weights);
}

/* Where the highest rate of a warm-up comes from. */
static const char *peak_origin(const cero_train_config *config)
{
    cero_lr_schedule_type type = cero_train_config_spec(config)->scheduler.type;

    if (type == CERO_LR_WARMUP_COSINE) {
        return "the optimizer's lr";
    }
    switch (cero_train_config_origin(config, "scheduler.params.warmup_max_lr")) {
    case CERO_ORIGIN_DERIVED:
        return "the optimizer's lr, for warmup_max_lr is not given";
    case CERO_ORIGIN_DEFAULT:
        return "the default of warmup_max_lr, not the optimizer's lr";
    case CERO_ORIGIN_FILE:
    case CERO_ORIGIN_COMMAND:
    default:
        return "warmup_max_lr";
    }
}

static void put_schedule(const cero_train_config *config, cero_text *out)
{
    const cero_train_spec *t = cero_train_config_spec(config);
    const cero_lr_schedule_spec *s = &t->scheduler;
    bool has_warmup = s->type == CERO_LR_WARMUP || s->type == CERO_LR_WARMUP_DECAY ||
                      s->type == CERO_LR_WARMUP_COSINE;

    cero_text_printf(out, "           lr ");
    cero_text_append_double(out, t->optimizer.lr);
    cero_text_printf(out, ", schedule %s", cero_lr_schedule_type_name(s->type));
    if (has_warmup) {
        cero_text_printf(out, " with peak ");
        cero_text_append_double(out,
                                s->type == CERO_LR_WARMUP_COSINE ? s->base_lr : s->warmup_max_lr);
        cero_text_printf(out, " (%s) after %lld updates", peak_origin(config),
                         (long long)s->warmup_num_steps);
    }
    cero_text_printf(out, "\n");
}

static void put_batch(const cero_train_config *config, int ranks, cero_text *out)
{
    const cero_train_spec *t = cero_train_config_spec(config);
    bool is_derived = cero_train_config_origin(config, "train_batch_size") == CERO_ORIGIN_DERIVED;

    cero_text_printf(out,
                     "batch      %lld samples = micro-batches of %lld x %lld accumulated x %d "
                     "rank%s",
                     (long long)t->train_batch_size, (long long)t->train_micro_batch_size_per_gpu,
                     (long long)t->gradient_accumulation_steps, ranks, ranks > 1 ? "s" : "");
    cero_text_printf(out, ranks == 1   ? "; sums in order of micro-batches\n"
                          : is_derived ? "; it grows with the ranks, for train_batch_size is not "
                                         "given\n"
                                       : "\n");
}

void cero_summary_training(const cero_train_config *config, const cero_engine *engine, int ranks,
                           cero_text *out)
{
    const cero_train_spec *t = cero_train_config_spec(config);
    const cero_engine_plan *plan = cero_engine_get_plan(engine);

    cero_text_printf(
        out,
        "precision  %s; normaliser: per token, sums over the batch are divided once by "
        "the tokens that count\n",
        cero_dtype_name(t->compute_dtype));
    put_batch(config, ranks, out);
    cero_text_printf(out, "optimizer  %s\n", cero_engine_formula(engine));
    put_schedule(config, out);
    cero_text_printf(out,
                     "decay      %g on %lld tensors of %lld elements; none on %lld elements; "
                     "%lld frozen\n",
                     t->optimizer.weight_decay, (long long)plan->decay_tensors,
                     (long long)plan->decay_count,
                     (long long)(plan->trained_count - plan->decay_count),
                     (long long)(plan->param_count - plan->trained_count));
    cero_text_printf(out, "clipping   %s", t->gradient_clipping > 0 ? "global norm " : "off\n");
    if (t->gradient_clipping > 0) {
        cero_text_append_double(out, t->gradient_clipping);
        cero_text_printf(out, "\n");
    }
}

void cero_summary_data(cero_trainer *trainer, const cero_token_stream *data, cero_text *text)
{
    int64_t batch = cero_engine_global_batch(cero_trainer_engine(trainer));
    int64_t samples = cero_trainer_epoch_samples(trainer);
    int64_t steps = cero_trainer_steps(trainer);
    int64_t left = steps - cero_trainer_steps_done(trainer);
    int64_t end = cero_trainer_position(trainer) + (left > 0 ? left : 0) * batch;

    cero_text_printf(text,
                     "data       %lld tokens, %lld samples of %lld an epoch (%lld tokens in none); "
                     "%lld steps = %.2f epochs\n",
                     (long long)cero_token_stream_count(data), (long long)samples,
                     (long long)cero_engine_seq_len(cero_trainer_engine(trainer)),
                     (long long)cero_trainer_unused_tokens(trainer), (long long)steps,
                     (double)end / (double)samples);
    if (end < samples) {
        cero_text_printf(text, "           %lld samples of the epoch are unused\n",
                         (long long)(samples - end));
    }
    if (cero_token_stream_empty_documents(data) > 0) {
        cero_text_printf(text, "           %lld of %lld documents are empty\n",
                         (long long)cero_token_stream_empty_documents(data),
                         (long long)cero_token_stream_documents(data));
    }
}

void cero_summary_saves(const cero_train_options *o, const cero_train_config *config,
                        cero_text *text)
{
    bool is_background = cero_train_config_spec(config)->checkpoint_background;

    if (o->save_every == 0) {
        cero_text_printf(text,
                         "saves      none but at a signal; --save-every N makes checkpoints\n");
        return;
    }
    cero_text_printf(text, "saves      every %lld steps and at the end, %s",
                     (long long)o->save_every,
                     is_background ? "in the background" : "while the run waits");
    if (o->keep_checkpoints > 0) {
        cero_text_printf(text, "; the newest %lld stay", (long long)o->keep_checkpoints);
    }
    cero_text_printf(text, "\n");
}
