void free(void *memory);
