#pragma once
// Include before Highway: which targets the kernels are built for. The x86 targets between AVX2 and the portable path cost
// compile time and have no users; arrays of vectors do not exist for scalable vectors.
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
