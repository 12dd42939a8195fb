/* A line of a file of measured products: whatever the text, a way that gemm.c can take, which is written as it was read. */
#include <stdint.h>
#include <stdlib.h>

#include "backend_cpu/gemm_known.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const cpu_gemm_key *key, const cpu_gemm_choice *way, const char *machine)
{
    char line[CPU_GEMM_LINE_BYTES];
    cpu_gemm_key again;
    cpu_gemm_choice way_again;
    if (key->m < 1 || key->n < 1 || key->k < 1 || key->threads < 1 || way->threads < 1 ||
        way->threads > key->threads || way->maker >= CPU_BLAS_MAKERS || way->cut >= CPU_BLAS_CUTS ||
        way->own != (way->maker == CPU_BLAS_BY_TABLE))
        abort();
    cpu_gemm_write_line(line, machine, key, way);
    line[strcspn(line, "\n")] = '\0';
    if (cpu_gemm_read_line(line, machine, &again, &way_again) != CPU_GEMM_LINE_WAY ||
        !cpu_gemm_key_is(key, &again) || way->own != way_again.own ||
        way->maker != way_again.maker || way->cut != way_again.cut ||
        way->threads != way_again.threads)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char machine[] = "here; tern";
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    cpu_gemm_key key;
    cpu_gemm_choice way;
    if (cpu_gemm_read_line(text, machine, &key, &way) == CPU_GEMM_LINE_WAY)
        check(&key, &way, machine);
    free(text);
    return 0;
}
