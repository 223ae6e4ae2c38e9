// Included by kernel files after hwy/highway.h, once for each target.
//
// Gives the target string the 512-bit 8-bit dot products. The best target asks the CPU for them, but the string of this Highway names
// only the 256-bit ones, which some of those CPUs lack: no kernel may sum products of bytes in 256-bit vectors.
#if HWY_TARGET == HWY_AVX3_DL
#define CELLAR_AVX3_DL HWY_TARGET_STR_AVX3 ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512bitalg,avx512vpopcntdq,avx512vnni"
#undef HWY_TARGET_STR
#define HWY_TARGET_STR CELLAR_AVX3_DL
#endif
