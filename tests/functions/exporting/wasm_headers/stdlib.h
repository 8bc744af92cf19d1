void *malloc(__SIZE_TYPE__ size);
void free(void *memory);
