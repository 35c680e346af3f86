/* SPDX-License-Identifier: Apache-2.0 */
/* The cpu device: kernels on ranges over OpenMP threads, products by oneDNN. */
#include "device/device_impl.h"

const cero_device_backend cero_device_cpu = {.name = "cpu", .is_meta = false};
