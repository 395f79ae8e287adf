// What all kernels share: the words of the PTX target, and vectors of four floats.
// Every operation rounds once, as in package kernel. Only fma() fuses.
#define KERNEL __attribute__((nvptx_kernel)) void
#define GLOBAL __attribute__((address_space(1)))
#define SHARED static __attribute__((address_space(3), aligned(16)))
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("unroll")

#define THREAD ((int)__nvvm_read_ptx_sreg_tid_x())
#define BLOCK_X ((int)__nvvm_read_ptx_sreg_ctaid_x())
#define BLOCK_Y ((int)__nvvm_read_ptx_sreg_ctaid_y())
#define BARRIER __nvvm_bar_sync(0)

#define fma __builtin_fmaf

// All kernels have blocks of this many threads.
enum { THREADS = 256 };

// The number of this thread among all threads of a launch whose grid is a line.
#define ELEMENT ((long)BLOCK_X * THREADS + THREAD)

typedef GLOBAL float *out;
typedef const GLOBAL float *in;
typedef float float4 __attribute__((ext_vector_type(4)));

INLINE float from_bits(unsigned u) { return __builtin_bit_cast(float, u); }
INLINE unsigned to_bits(float x) { return __builtin_bit_cast(unsigned, x); }
