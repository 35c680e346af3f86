/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the calls of a program with its own forward and backward go wrong together. Calls that all ranks make at
 * once first agree that they are the same call, with the same unit: then nothing has moved, and the engine is as
 * before. A rank that is wrong elsewhere poisons its engine and tells the others, whose waits end.
 */
#include "engine/engine_impl.h"

#include <stdio.h>

cero_status cero_engine_external_fail(cero_engine *engine, cero_status status, const char *call)
{
    if (status == CERO_OK) {
        return CERO_OK;
    }
    engine->is_poisoned = true;
    status = cero_error_prefix(status, "step %lld, %s: ", (long long)engine->step + 1, call);
    return cero_comm_fail(engine->context->comm, status);
}

cero_status cero_engine_check_external(const cero_engine *engine, const char *call)
{
    CERO_CHECK(engine != NULL, CERO_ERR_INVALID, "%s: the engine is NULL", call);
    CERO_CHECK(
        engine->external != NULL, CERO_ERR_INVALID,
        "%s: the engine has a model of its own; call cero_engine_train_batch, or create it by "
        "cero_engine_create_external",
        call);
    CERO_CHECK(!cero_device_is_meta(engine->context->device), CERO_ERR_INVALID,
               "%s: on the device meta nothing runs", call);
    CERO_CHECK(!engine->is_poisoned, CERO_ERR_INVALID,
               "%s: the engine failed before and can only be destroyed", call);
    return CERO_OK;
}

static const char *const call_names[CERO_ENGINE_CALLS] = {
    [CERO_ENGINE_STEP] = "cero_engine_step",
    [CERO_ENGINE_GATHER] = "cero_engine_gather_unit",
    [CERO_ENGINE_SAVE] = "cero_engine_save",
    [CERO_ENGINE_LOAD] = "cero_engine_load",
};

/* What ranks compare: the least of these over ranks shows the least and the greatest of each value. */
enum {
    MEET_FAILED = 0, /* 0: a rank failed before */
    MEET_CALL = 1,   /* call, number and rank in one value, and the same negated but for the rank */
    MEET_CALL_MAX = 2,
    MEET_PLACE = 3,
    MEET_PLACE_MAX = 4,
    MEET_VALUES = 5
};

/* "cero_engine_gather_unit(h.0)" of a call and its number. */
static const char *describe_call(const cero_engine *engine, int64_t code, char *text, size_t size)
{
    const cero_zero_layout *layout = cero_zero_get_layout(engine->zero);
    int64_t call = code >> 32;
    int64_t number = code & 0xffffffff;
    bool is_unit = call == CERO_ENGINE_GATHER && number < layout->unit_count;

    (void)snprintf(text, size, "%s(%s)",
                   call >= 0 && call < CERO_ENGINE_CALLS ? call_names[call] : "another function",
                   is_unit ? layout->units[number].name : "");
    return text;
}

cero_status cero_engine_meet(cero_engine *engine, cero_engine_call call, int64_t number,
                             int64_t place, cero_status local)
{
    cero_comm *comm = engine->context->comm;
    int64_t size = cero_comm_size(comm);
    int64_t rank = cero_comm_rank(comm);
    int64_t code = ((int64_t)call << 32) + number;
    int64_t least[MEET_VALUES] = {local == CERO_OK, code * size + rank, -code * size + rank, place,
                                  -place};
    char texts[2][160];

    if (size == 1) {
        return local;
    }
    CERO_TRY(cero_comm_all_reduce_i64(comm, CERO_COMM_MIN, least, MEET_VALUES));
    if (least[MEET_FAILED] == 0) {
        return cero_comm_agree(comm, local);
    }
    int64_t low = least[MEET_CALL] / size;
    int64_t high_rank = (least[MEET_CALL_MAX] % size + size) % size;
    int64_t high = -(least[MEET_CALL_MAX] - high_rank) / size;
    CERO_CHECK(
        low == high, CERO_ERR_INVALID,
        "rank %lld calls %s and rank %lld calls %s: all ranks make the same calls in the same "
        "order",
        (long long)(least[MEET_CALL] % size),
        describe_call(engine, low, texts[0], sizeof(texts[0])), (long long)high_rank,
        describe_call(engine, high, texts[1], sizeof(texts[1])));
    CERO_CHECK(least[MEET_PLACE] == -least[MEET_PLACE_MAX], CERO_ERR_INVALID,
               "%s: ranks have different units gathered; all ranks gather and release the same",
               describe_call(engine, low, texts[0], sizeof(texts[0])));
    return CERO_OK;
}
