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

void cero_summary_training(const cero_train_config *config, const cero_engine *engine,
                           cero_text *out)
{
    const cero_train_spec *t = cero_train_config_spec(config);
    const cero_engine_plan *plan = cero_engine_get_plan(engine);

    cero_text_printf(out, "precision  %s; normaliser: mean over the tokens that count\n",
                     cero_dtype_name(t->compute_dtype));
    cero_text_printf(out,
                     "batch      %lld samples = micro-batches of %lld x %lld accumulated x 1 rank; "
                     "sums in order of micro-batches\n",
                     (long long)t->train_batch_size, (long long)t->train_micro_batch_size_per_gpu,
                     (long long)t->gradient_accumulation_steps);
    cero_text_printf(out, "optimizer  %s\n           lr ", cero_engine_formula(engine));
    cero_text_append_double(out, t->optimizer.lr);
    cero_text_printf(out, ", schedule %s\n", cero_lr_schedule_type_name(t->scheduler.type));
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
    for (int i = 0; i < cero_train_config_note_count(config); i++) {
        cero_text_printf(out, "%s %s\n", i == 0 ? "no effect " : "          ",
                         cero_train_config_note(config, i));
    }
}

void cero_summary_memory(const cero_engine_plan *plan, cero_text *out)
{
    char text[32];

    cero_text_printf(out,
                     "memory     %s:", cero_text_bytes((double)plan->total, text, sizeof(text)));
    for (int c = 0; c < CERO_MEM_COUNT; c++) {
        if (plan->bytes[c] > 0) {
            cero_text_printf(out, " %s %s", cero_mem_category_name((cero_mem_category)c),
                             cero_text_bytes((double)plan->bytes[c], text, sizeof(text)));
        }
    }
    cero_text_printf(out, "\n");
}
