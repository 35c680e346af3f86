/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic and wall clocks over clock_gettime. */
#include "base/clock.h"

#include <time.h>

static double seconds(clockid_t id)
{
    struct timespec t;

    (void)clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double cero_clock_now(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double cero_clock_wall(void)
{
    return seconds(CLOCK_REALTIME);
}

double cero_clock_thread(void)
{
    return seconds(CLOCK_THREAD_CPUTIME_ID);
}

void cero_clock_sleep(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    (void)nanosleep(&t, NULL);
}
