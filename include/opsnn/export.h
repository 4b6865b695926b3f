// OPSNN_API marks what libopsnn.so exports; everything else is hidden.
#ifndef OPSNN_EXPORT_H_
#define OPSNN_EXPORT_H_
#define OPSNN_API __attribute__((visibility("default")))
#endif  // OPSNN_EXPORT_H_
