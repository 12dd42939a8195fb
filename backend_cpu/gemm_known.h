/* Ways of products that were measured (gemm_trial.h), in a file: later processes need not measure, and runs that read the
 * same file give the same bits. Lines of text, each on its own: of other machines (another CPU, library or version of
 * tern) they are left as they are, so that one file serves several. */
#ifndef TERN_BACKEND_CPU_GEMM_KNOWN_H
#define TERN_BACKEND_CPU_GEMM_KNOWN_H

#include "backend_cpu/gemm_key.h"
#include "backend_cpu/gemm_library.h"

/* The way that the file has for this product; NULL: none. Any thread, without a lock; the first call of a process reads
 * TERN_CPU_GEMM_FILE. The way is good as long as the process. */
const cpu_gemm_choice *cpu_gemm_known(int dtype, const cpu_product *g, int threads);
/* Adds a way that has been found to the file, if there is one. What hinders that is said in the log, once. */
void cpu_gemm_note(const cpu_gemm_key *key, const cpu_gemm_choice *way);

typedef enum cpu_gemm_line {
    CPU_GEMM_LINE_BAD,
    CPU_GEMM_LINE_OTHER, /* empty, a remark, of another machine */
    CPU_GEMM_LINE_WAY
} cpu_gemm_line;
/* One line without its end; `machine` as cpu_gemm_machine has it. What is not a way leaves the others as they were. */
cpu_gemm_line cpu_gemm_read_line(const char *line, const char *machine, cpu_gemm_key *out_key,
                                 cpu_gemm_choice *out_way);
enum { CPU_GEMM_LINE_BYTES = 1024 };
/* The line of a way, with its end. */
void cpu_gemm_write_line(char line[CPU_GEMM_LINE_BYTES], const char *machine,
                         const cpu_gemm_key *key, const cpu_gemm_choice *way);
/* "CPU; instruction set and tuning; libraries; tern 0.1.0". Opens the libraries. */
void cpu_gemm_machine(char machine[CPU_GEMM_LINE_BYTES / 2]);

#endif
