/* The small C API from C: a fused product, or the two operators when the tile does not fit. */
#include <ops_nn.h>
#include <stdio.h>

int main(void) {
  const float a[2 * 3] = {1, -2, 3, -4, 5, -6}, b[3 * 2] = {1, 2, 3, 4, 5, 6};
  const float want[4] = {10, 12, 0, 0};
  float c[4] = {-1, -1, -1, -1};
  TilingArgs t = {0};
  int i;
  if (calc_tiling(2, 2, 3, &t) == 0) {
    if (ops_nn_fused_matmul_relu(a, b, c, 2, 2, 3, t) != 0) goto failed;
  } else {
    if (asccl_matmul(a, b, c, 2, 2, 3) != 0 || asccl_relu(c, c, 2, 2) != 0) goto failed;
  }
  for (i = 0; i < 4; ++i) {
    if (c[i] != want[i]) {
      printf("c[%d] is %g, not %g\n", i, c[i], want[i]);
      return 1;
    }
  }
  if (asccl_relu(NULL, c, 2, 2) == 0 || ops_nn_last_error()[0] == 0) return 1;
  printf("small_c: fine, L1 %d bytes, UB %d bytes\n", get_l1_capacity(), get_ub_capacity());
  return 0;
failed:
  printf("%s\n", ops_nn_last_error());
  return 1;
}
