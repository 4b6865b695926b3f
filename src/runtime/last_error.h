// The error text of a thread: what aclGetRecentErrMsg and ops_nn_last_error hand out.
#ifndef OPSNN_RUNTIME_LAST_ERROR_H_
#define OPSNN_RUNTIME_LAST_ERROR_H_

#include <string>

#include "base/status.h"

namespace opsnn::runtime {

// Adds a sentence to this thread's messages. The newest kMaxMessages are kept.
void AddErrorMessage(std::string message);
inline void AddErrorMessage(const Status& s) { AddErrorMessage(s.message()); }

// This thread's messages, newest first, one a line, and forgets them; null when there are none. The pointer
// is valid until the next call in this thread.
const char* TakeErrorMessages();

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_LAST_ERROR_H_
