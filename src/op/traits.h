// Traits: what an operator's declaration says beyond what a call needs: for proofs and for people.
#ifndef OPSNN_OP_TRAITS_H_
#define OPSNN_OP_TRAITS_H_

#include <cstdint>
#include <span>

#include "op/operator.h"

namespace opsnn::op {

// Which elements of input 0 an element of the result depends on: what a proof needs that a dim may be padded
// and the result cropped (graph/buckets.h). Programs say so themselves and need no word here.
enum class Mixes : uint8_t {
  kAll,       // any
  kNothing,   // the one at its own place, after broadcasting
  kImage,     // those of its image: the first dim counts images
  kReshape,   // the one at the same place in order, under other dims
  kAxis,      // those along attribute `axis`
  kTrailing,  // those along attribute `axis` and the dims behind it
  kReduced,   // those along dims that the result has lost or has at 1
  kProduct,   // rows of A, columns of B
  kGather,    // the slice that an index along attribute `axis` names
  kTranspose  // the one that attribute `perm` brings to its place
};

// By which name an operator may run and when: words for people, held to what the planner does by an example
// that is planned like any call ("f32 4x512 512x512c axis=1": element type, input dims (c: a constant),
// attributes).
struct VariantDecl {
  const char* name;  // what the kernel's own name (Kernel::variant) holds
  const char* when;  // chosen where this holds; of the rows of one operator the first that does
  const char* example;
};

struct Advice;  // op/advice.h

struct Traits {
  Mixes mixes = Mixes::kAll;
  std::span<const VariantDecl> variants;  // empty: there is no choice
  // Arithmetic steps: of each element of input 0, or of each element of the result and place of its window
  // (attribute kernel_shape). 0: they follow from the program, or nothing says.
  double steps = 0, window_steps = 0;
  void (*advise)(Advice&) = nullptr;
};
std::span<const Traits> TraitsTable();  // the generated table, in the order of OperatorTable()
const Traits& TraitsOf(const OpDef& def);

}  // namespace opsnn::op

#endif  // OPSNN_OP_TRAITS_H_
