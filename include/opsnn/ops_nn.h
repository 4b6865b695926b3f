/* A small C API: tile, fuse or fall back by hand.
 *
 *   TilingArgs t = {0};                       // zeros: the solver fills them in
 *   if (calc_tiling(m, n, k, &t) == 0)        // the four blocks of a fused tile fit on chip
 *     ops_nn_fused_matmul_relu(a, b, c, m, n, k, t);
 *   else {
 *     asccl_matmul(a, b, c, m, n, k);
 *     asccl_relu(c, c, m, n);
 *   }
 *
 * Matrices are row-major f32: a is m x k, b is k x n, c is m x n. Functions that return int give 0 on
 * success, -1 on failure, with the reason in ops_nn_last_error(). c must not overlap a or b partly. Sizes of
 * 0 are allowed: nothing is computed, or with k = 0 c becomes zero. Any thread may call. */
#ifndef OPSNN_OPS_NN_H_
#define OPSNN_OPS_NN_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPS_NN_API __attribute__((visibility("default")))

typedef struct {
  int tile_m, tile_n, tile_k; /* rows, columns and depth of a tile; in: 0 leaves the choice to the solver */
  int l1_budget;              /* out: bytes that the four blocks (A, B, C, epilogue) of the tile take */
  int ub_budget;              /* out: bytes of the epilogue block */
  int fuse_enable;            /* 1: fuse; 0: run the two operators one after the other */
} TilingArgs;

/* Fills in the zero tile fields of args and the budgets. 0 with fuse_enable = 1 when the four blocks fit the
 * share of L1 that the reserve knob leaves; else -1 with fuse_enable = 0 and the reason in
 * ops_nn_last_error(). Positive tile fields are kept as they are. */
OPS_NN_API int calc_tiling(int m, int n, int k, TilingArgs *args);

/* Bytes of the chosen profile (OPSNN_PROFILE); -1 when there is no such profile. */
OPS_NN_API int get_l1_capacity(void);
OPS_NN_API int get_ub_capacity(void);

/* Memory aligned to 128 bytes; NULL when it cannot be had. */
OPS_NN_API void *alloc_device(size_t bytes);
OPS_NN_API void free_device(void *ptr);

/* c = relu(a * b). Where args.fuse_enable is not 0, in one pass if the planner finds that faster on this host
 * and OPSNN_FUSION is not off; the result is the same. Tiles that are not legal on the host are
 * planned anew; the log (OPSNN_LOG=info) says so, and OPSNN_STRICT=1 makes it an error. */
OPS_NN_API int ops_nn_fused_matmul_relu(const float *a, const float *b, float *c, int m, int n, int k,
                                        TilingArgs args);
/* c = a * b */
OPS_NN_API int asccl_matmul(const float *a, const float *b, float *c, int m, int n, int k);
/* y = max(x, 0) over m x n values; y may be x */
OPS_NN_API int asccl_relu(const float *x, float *y, int m, int n);

/* What went wrong in the last of these calls in this thread; "" when nothing did. Valid until the next one.
 */
OPS_NN_API const char *ops_nn_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* OPSNN_OPS_NN_H_ */
