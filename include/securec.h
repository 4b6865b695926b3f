/* Copies and fills that know the size of their destination, as existing programs call them. 0 is success;
   otherwise nothing is copied and, where there is room, the destination is emptied. */
#ifndef OPSNN_SECUREC_H_
#define OPSNN_SECUREC_H_

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef EOK
#define EOK 0
#endif
typedef int errno_t;

static inline errno_t memset_s(void *dest, size_t destMax, int c, size_t count) {
  if (!dest) return EINVAL;
  if (count > destMax) return ERANGE;
  memset(dest, c, count);
  return EOK;
}
static inline errno_t memmove_s(void *dest, size_t destMax, const void *src, size_t count) {
  if (!dest || (!src && count)) return EINVAL;
  if (count > destMax) return ERANGE;
  if (count) memmove(dest, src, count);
  return EOK;
}
static inline errno_t memcpy_s(void *dest, size_t destMax, const void *src, size_t count) {
  return memmove_s(dest, destMax, src, count);
}
static inline errno_t strncpy_s(char *dest, size_t destMax, const char *src, size_t count) {
  size_t n = 0;
  if (!dest || !destMax) return EINVAL;
  if (!src) {
    dest[0] = '\0';
    return EINVAL;
  }
  while (n < count && src[n]) ++n;
  if (n >= destMax) {
    dest[0] = '\0';
    return ERANGE;
  }
  memmove(dest, src, n);
  dest[n] = '\0';
  return EOK;
}
static inline errno_t strcpy_s(char *dest, size_t destMax, const char *src) {
  return strncpy_s(dest, destMax, src, (size_t)-1);
}
static inline errno_t strcat_s(char *dest, size_t destMax, const char *src) {
  size_t n = 0;
  if (!dest) return EINVAL;
  while (n < destMax && dest[n]) ++n;
  if (n == destMax) return EINVAL;
  return strcpy_s(dest + n, destMax - n, src);
}
/* The number of characters, or -1 where they do not fit. */
static inline int vsnprintf_s(char *dest, size_t destMax, size_t count, const char *format, va_list args) {
  int n;
  size_t room = count < destMax ? count + 1 : destMax;
  if (!dest || !destMax || !format) return -1;
  n = vsnprintf(dest, room, format, args);
  return n < 0 || (size_t)n >= room ? -1 : n;
}
static inline int snprintf_s(char *dest, size_t destMax, size_t count, const char *format, ...) {
  int n;
  va_list args;
  va_start(args, format);
  n = vsnprintf_s(dest, destMax, count, format, args);
  va_end(args);
  return n;
}
static inline int sprintf_s(char *dest, size_t destMax, const char *format, ...) {
  int n;
  va_list args;
  va_start(args, format);
  n = vsnprintf_s(dest, destMax, destMax, format, args);
  va_end(args);
  return n;
}

#endif /* OPSNN_SECUREC_H_ */
