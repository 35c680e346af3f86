# SPDX-License-Identifier: Apache-2.0
# Compiler flags for every target, and the extra ones of the instruction-set folders.

set(CERO_WARNINGS
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wold-style-definition -Wundef -Wvla -Wcast-qual -Wcast-align -Wpointer-arith -Wwrite-strings
    -Wformat=2 -Wdouble-promotion -Wswitch-enum -Wnull-dereference -Wimplicit-fallthrough
    -Wconversion -Wno-sign-conversion)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND CERO_WARNINGS -Wduplicated-cond -Wlogical-op -Wjump-misses-init)
else()
  list(APPEND CERO_WARNINGS -Wshorten-64-to-32)
endif()
if(CERO_WERROR)
  list(APPEND CERO_WARNINGS -Werror)
endif()

# Floating point: no fast-math anywhere; contraction only in the folders of an instruction set.
set(CERO_FP_FLAGS -fno-math-errno -ffp-contract=off)
set(CERO_HARDENING -fstack-protector-strong -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)

set(CERO_AVX2_FLAGS -mavx2 -mfma -mf16c -ffp-contract=fast)
set(CERO_AVX512_FLAGS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
                      -mprefer-vector-width=512 -ffp-contract=fast)
set(CERO_AVX512BF16_FLAGS ${CERO_AVX512_FLAGS} -mavx512bf16)

function(cero_target_flags target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src"
                                               "${PROJECT_SOURCE_DIR}/include")
  target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE
                                               $<$<NOT:$<CONFIG:Debug>>:NDEBUG>
                                               $<$<BOOL:${CERO_HAVE_XXH_DISPATCH}>:CERO_HAVE_XXH_DISPATCH>)
  target_compile_options(${target} PRIVATE ${CERO_WARNINGS} ${CERO_FP_FLAGS} ${CERO_HARDENING})
  if(CERO_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${CERO_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=undefined)
    target_link_options(${target} PRIVATE -fsanitize=${CERO_SANITIZE})
  endif()
endfunction()
