#include <stddef.h>
#define stdout 1
#define stderr 2
size_t fwrite(const void *data, size_t size, size_t count, int stream);
int fprintf(int stream, const char *format, ...);
