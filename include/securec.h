/* The bounds-checked copies that some client programs use: 0 on success, else an errno value. */
#ifndef OPSNN_SECUREC_H_
#define OPSNN_SECUREC_H_

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifndef EOK
#define EOK 0
#endif
typedef int errno_t;

static inline errno_t memcpy_s(void *dest, size_t dest_max, const void *src, size_t count) {
  if (count == 0) return EOK;
  if (dest == NULL || src == NULL) return EINVAL;
  if (count > dest_max) return ERANGE;
  memcpy(dest, src, count);
  return EOK;
}

static inline errno_t memmove_s(void *dest, size_t dest_max, const void *src, size_t count) {
  if (count == 0) return EOK;
  if (dest == NULL || src == NULL) return EINVAL;
  if (count > dest_max) return ERANGE;
  memmove(dest, src, count);
  return EOK;
}

static inline errno_t memset_s(void *dest, size_t dest_max, int c, size_t count) {
  if (dest == NULL) return EINVAL;
  if (count > dest_max) return ERANGE;
  memset(dest, c, count);
  return EOK;
}

static inline errno_t strcpy_s(char *dest, size_t dest_max, const char *src) {
  if (dest == NULL || src == NULL) return EINVAL;
  if (strlen(src) >= dest_max) return ERANGE;
  memcpy(dest, src, strlen(src) + 1);
  return EOK;
}

static inline int snprintf_s(char *dest, size_t dest_max, size_t count, const char *format, ...) {
  int written;
  va_list args;
  if (dest == NULL || format == NULL || count >= dest_max) return -1;
  va_start(args, format);
  written = vsnprintf(dest, count + 1, format, args);
  va_end(args);
  return written > (int)count ? -1 : written;
}

#endif /* OPSNN_SECUREC_H_ */
