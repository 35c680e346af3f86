/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of doubles that do not depend on the order of addition: a fixed-point accumulator wide enough
 * for every double (Kulisch), kept in integer limbs.
 *
 * Ranks add what they own, limbs are added over ranks as integers, and the one rounding happens in
 * cero_exact_round. Used for norms and losses, so that they are the same for any partition.
 */
#ifndef CERO_BASE_EXACT_H
#define CERO_BASE_EXACT_H

#include "base/status.h"

/* 2^-1074 .. 2^1024 in digits of 32 bits, and head room for 2^31 additions in each limb. */
enum {
    CERO_EXACT_LIMBS = 68
};

/* Open, so that a transport can add limb by limb: all members are plain integer sums. */
typedef struct cero_exact {
    int64_t limb[CERO_EXACT_LIMBS]; /* value = sum of limb[i] * 2^(32 i - 1088) */
    int64_t not_finite;             /* how many NaNs and infinities were added */
    int64_t pending;                /* additions since the carries were last moved up */
} cero_exact;

void cero_exact_clear(cero_exact *sum);
void cero_exact_add(cero_exact *sum, double x);

/* sum += other */
void cero_exact_merge(cero_exact *sum, const cero_exact *other);

/* The sum rounded to double, within one unit in the last place; NaN if anything was not finite. */
double cero_exact_round(const cero_exact *sum);

#endif
