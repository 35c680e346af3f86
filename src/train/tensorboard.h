/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorBoard event files: framed records of protocol buffer messages, written by hand.
 *
 * A record is the payload's length (u64), its masked CRC-32C, the payload and the payload's masked
 * CRC-32C, all little-endian. The first payload names the format, each later one holds the scalars of
 * a step.
 */
#ifndef CERO_TRAIN_TENSORBOARD_H
#define CERO_TRAIN_TENSORBOARD_H

#include "train/monitor.h"

/* Writes DIR/events.out.tfevents.<time>.<host>.<pid>.<n>, a new file each time it is opened. */
extern const cero_monitor_ops cero_monitor_tensorboard;

/* CRC-32C (Castagnoli) of `length` bytes; "123456789" gives 0xE3069283. Not collective. */
uint32_t cero_crc32c(const void *bytes, size_t length);

#endif
