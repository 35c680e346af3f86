/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meta device: answers every question about sizes and owns no memory.
 *
 * It plans with the code of the cpu, down to the library's primitive descriptors, so that a plan made
 * here holds there; nothing is compiled. Its run functions are never called: parallel_for and the
 * product assert it.
 */
#include "device/device_impl.h"

const cero_device_backend cero_device_meta = {.name = "meta", .is_meta = true};
