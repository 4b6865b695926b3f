// Functions of the program that are told what happens to streams, devices and the library.
#ifndef OPSNN_CAPI_API_OBSERVERS_H_
#define OPSNN_CAPI_API_OBSERVERS_H_

#include <string>

#include "acl/acl_rt.h"

namespace opsnn::capi {

void TellStreamState(aclrtStream stream, aclrtStreamState state);
void TellDeviceState(int32_t device, aclrtDeviceState state);
// aclInit has succeeded with this configuration, or aclFinalize is about to end; the first code that is not
// 0.
int TellInit(const std::string& config);
int TellFinalize();

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_API_OBSERVERS_H_
