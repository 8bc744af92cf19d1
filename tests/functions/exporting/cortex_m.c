/* How a program begins on a Cortex-M without a system: qemu loads both words to address 0. */
#include <stdint.h>

extern void _start(void);
void reset(void);

void reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* floats */
    __asm__ volatile("dsb; isb");
    _start();
}

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[2] = {0x20400000u, (uintptr_t)reset};
