// Does the numerics policy of what is being planned ask for the arithmetic of the numerics page to the bit?
#ifndef OPSNN_OP_EXACT_H_
#define OPSNN_OP_EXACT_H_

namespace opsnn::op {

// Asked while a kernel is planned: the policy of the model whose nodes this thread plans (ScopedExact), else
// the setting `policy`. True: nothing that is quicker and rounds otherwise.
bool PlansExactly();

class ScopedExact {
 public:
  explicit ScopedExact(bool exact);
  ~ScopedExact();
  ScopedExact(const ScopedExact&) = delete;
  ScopedExact& operator=(const ScopedExact&) = delete;

 private:
  int before_;
};

}  // namespace opsnn::op

#endif  // OPSNN_OP_EXACT_H_
