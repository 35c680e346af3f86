/* SPDX-License-Identifier: Apache-2.0 */
/* What a run says before its first step of model, batch and formula; of its ranks: world_summary.h. */
#ifndef CERO_CLI_TRAIN_SUMMARY_H
#define CERO_CLI_TRAIN_SUMMARY_H

#include "base/text.h"
#include "cli/run_options.h"
#include "engine/engine.h"
#include "spec/model.h"
#include "spec/train.h"
#include "train/train.h"

/* Appends lines, each ended. `weights` says where weights come from. */
void cero_summary_model(const cero_model_spec *model, const char *weights, cero_text *out);
void cero_summary_training(const cero_train_config *config, const cero_engine *engine, int ranks,
                           cero_text *out);
void cero_summary_data(cero_trainer *trainer, const cero_token_stream *data, cero_text *out);
void cero_summary_saves(const cero_train_options *options, const cero_train_config *config,
                        cero_text *out);

#endif
