/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CSV monitor: one file for each tag, as DeepSpeed's csv_monitor names and heads them.
 *
 * "Train/Samples/lr" goes to Train_Samples_lr.csv, which begins with "step,lr"; what DeepSpeed calls
 * step is the number of samples. Numbers read back to the same double.
 */
#ifndef CERO_TRAIN_CSV_MONITOR_H
#define CERO_TRAIN_CSV_MONITOR_H

#include "train/monitor.h"

/* A file that exists is continued, with a warning that it holds an earlier run's lines unless the run goes on. */
extern const cero_monitor_ops cero_monitor_csv;

#endif
