/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of encoding and decoding on one core: bench_tokenizer TOKENIZER FILE [SECONDS].
 *
 * Encodes the file again and again for about SECONDS (default 3) and prints the best pass and the
 * first one (cold cache of pieces), in MB of text per second of processor time.
 */
#include "data/tokenizer.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds of this process, so that a busy machine does not count. */
static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cero_status measure(const char *tokenizer_path, const char *file, double seconds)
{
    cero_status st = CERO_OK;
    cero_tokenizer *tokenizer = NULL;
    cero_file_map map = {0};
    cero_token_ids ids = {0};
    cero_text text = {0};
    double first = 0.0;
    double best = 0.0;

    double opened;
    double begin;
    double decode;
    double start = now();
    CERO_TRY_GOTO(cero_tokenizer_open(tokenizer_path, &tokenizer), out);
    opened = now();
    CERO_TRY_GOTO(cero_file_map_open(file, &map), out);
    for (begin = opened; begin - opened < seconds;) {
        ids.count = 0;
        CERO_TRY_GOTO(cero_tokenizer_encode(tokenizer, map.data, map.length, 0, &ids), out);
        double end = now();
        double speed = (double)map.length / (end - begin) / 1e6;
        first = first == 0.0 ? speed : first;
        best = speed > best ? speed : best;
        begin = end;
    }
    begin = now();
    CERO_TRY_GOTO(cero_tokenizer_decode(tokenizer, ids.id, ids.count, 0, &text), out);
    decode = (double)text.length / (now() - begin) / 1e6;
    printf("%s: %zu bytes, %lld tokens, open %.0f ms, encode %.1f MB/s (first pass %.1f), decode "
           "%.0f MB/s\n",
           file, map.length, (long long)ids.count, 1e3 * (opened - start), best, first, decode);

out:
    cero_text_cleanup(&text);
    cero_token_ids_cleanup(&ids);
    cero_file_map_close(&map);
    cero_tokenizer_destroy(&tokenizer);
    return st;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fprintf(stderr, "usage: %s TOKENIZER FILE [SECONDS]\n", argv[0]);
        return 2;
    }
    if (measure(argv[1], argv[2], argc > 3 ? strtod(argv[3], NULL) : 3.0) != CERO_OK) {
        (void)fprintf(stderr, "%s\n", cero_error_string());
        return 1;
    }
    return 0;
}
