/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of files turned into f32 and back, one at a time: how models are read and written when no
 * kernel table may be asked.
 *
 * To f32 is exact for BF16 and F16; from f32, and from F64, values round to the nearest, ties to even.
 * A NaN stays a NaN, what is too big becomes an infinity. Files are little-endian, as are the machines
 * this builds for. All pointers may be unaligned; outputs do not overlap inputs. Nothing here
 * is collective.
 */
#ifndef CERO_CKPT_CONVERT_H
#define CERO_CKPT_CONVERT_H

#include "base/status.h"

void cero_convert_bf16_to_f32(const void *from, int64_t n, float *to);
void cero_convert_f16_to_f32(const void *from, int64_t n, float *to);
void cero_convert_f64_to_f32(const void *from, int64_t n, float *to);
void cero_convert_f32_to_bf16(const float *from, int64_t n, void *to);
void cero_convert_f32_to_f16(const float *from, int64_t n, void *to);

/* How many of x[0..n) are NaN or infinite; *first is the index of the first of them. */
int64_t cero_convert_count_not_finite(const float *x, int64_t n, int64_t *first);

#endif
