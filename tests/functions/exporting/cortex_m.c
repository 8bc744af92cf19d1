/* How a program begins on a Cortex-M without a system, and what its C library lacks. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

extern void _start(void);
void reset(void);
int posix_memalign(void **memory, size_t alignment, size_t bytes);

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    *memory = memalign(alignment, bytes);
    return *memory == NULL;
}

void reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* floats */
    __asm__ volatile("dsb; isb");
    _start();
}

/* The stack and the begin, which the processor reads from address 0. */
__attribute__((section(".vectors"), used)) static const uintptr_t vectors[2] = {0x20400000u, (uintptr_t)reset};
