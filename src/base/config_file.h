// The config file that the settings came from.
#ifndef OPSNN_BASE_CONFIG_FILE_H_
#define OPSNN_BASE_CONFIG_FILE_H_

#include <string>

namespace opsnn {

// Path of the file that was read (or could not be); "" where there is none.
std::string ConfigFile();

}  // namespace opsnn

#endif  // OPSNN_BASE_CONFIG_FILE_H_
