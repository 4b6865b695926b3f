// Does it pay to multiply bf16 matrices with the processor's own dot products of pairs?
#ifndef OPSNN_ISA_BF16_DOTS_H_
#define OPSNN_ISA_BF16_DOTS_H_

namespace opsnn::isa {

// AVX512-BF16 is there, the cap allows it, and its instruction, which does twice the products of an f32
// multiply-add, is issued nearly as often: some cores issue it at a quarter of that rate, and widening to f32
// is twice as fast there. Both loops are timed in registers once per process (0.1 ms); what is known of
// processors lies far from the limit on either side, so that the answer is the same every time.
bool Bf16DotsPay();

}  // namespace opsnn::isa

#endif  // OPSNN_ISA_BF16_DOTS_H_
