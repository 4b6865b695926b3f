// Status and Result<T>: how every function below the C boundary reports failure.
//
// A Status is a code plus one full sentence for the user. The codes carry the numbers of the aclnn C API, so
// that the boundary passes them through unchanged:
//   161001 a required pointer is null          161002 an argument is invalid (the user's mistake)
//   361001 the runtime failed (memory, stream) 561003 declared, but there is no such operator here
//   561000 our own fault                       the rest never cross the C boundary.
// Nothing in opsnn throws across a module; third-party exceptions are caught where the library is called.
#ifndef OPSNN_STATUS_H_
#define OPSNN_STATUS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace opsnn {

enum class Code : int {
  kOk = 0,
  kNull = 161001,
  kInvalid = 161002,
  kRuntime = 361001,
  kInternal = 561000,
  kNotImplemented = 561003,
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message)
      : state_(code == Code::kOk ? nullptr : std::make_shared<State>(State{code, std::move(message)})) {}

  bool ok() const { return state_ == nullptr; }
  Code code() const { return ok() ? Code::kOk : state_->code; }
  const std::string& message() const {
    static const std::string empty;
    return ok() ? empty : state_->message;
  }
  // The same failure with `context: ` before its message.
  Status WithContext(std::string_view context) const {
    return ok() ? *this : Status(code(), std::string(context) + ": " + message());
  }

 private:
  struct State {
    Code code;
    std::string message;
  };
  std::shared_ptr<const State> state_;  // null when ok: a good Status costs one pointer
};

inline Status OkStatus() { return Status(); }

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace opsnn

#endif  // OPSNN_STATUS_H_
