#include "runtime/last_error.h"

#include <deque>

namespace opsnn::runtime {
namespace {

// Enough for the chain of one failure; a program that never asks must not grow without bound.
constexpr size_t kMaxMessages = 16;

struct ThreadMessages {
  std::deque<std::string> pending;
  std::string handed_out;
};

ThreadMessages& Mine() {
  thread_local ThreadMessages messages;
  return messages;
}

}  // namespace

void AddErrorMessage(std::string message) {
  ThreadMessages& m = Mine();
  if (m.pending.size() == kMaxMessages) m.pending.pop_front();
  m.pending.push_back(std::move(message));
}

const char* TakeErrorMessages() {
  ThreadMessages& m = Mine();
  if (m.pending.empty()) return nullptr;
  m.handed_out.clear();
  for (auto s = m.pending.rbegin(); s != m.pending.rend(); ++s) {
    if (!m.handed_out.empty()) m.handed_out += '\n';
    m.handed_out += *s;
  }
  m.pending.clear();
  return m.handed_out.c_str();
}

}  // namespace opsnn::runtime
