/* tern explain: a page for each reason and error code, also found by CUDA's numbers and names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tern/tern.h>

#include "tools/tern/command.h"

static const char name[] = "explain";

typedef struct page_of_code {
    const char *code, *means, *check, *repair;
} page_of_code;

/* clang-format off */
static const page_of_code pages[] = {
#define PAGE(code, means, check, repair) { code, means, check, repair },
#include "tools/tern/explain_pages.def"
#undef PAGE
};
typedef struct cuda_code {
    int number;
    const char *runtime, *driver; /* names */
    const char *page;
} cuda_code;
static const cuda_code cuda_codes[] = {
#define CUDA(number, runtime, driver, page) { number, runtime, driver, page },
#include "tools/tern/explain_cuda.def"
#undef CUDA
};
/* What the driver's codes mean where it does not start, and what to do first. */
static const struct {
    int number;
    const char *words, *next;
} driver_codes[] = {
#define CODE(number, words, next) { number, words, next },
#include "core/cuda/driver_codes.def"
#undef CODE
};
/* clang-format on */
enum { PAGES = sizeof pages / sizeof *pages, CUDA_CODES = sizeof cuda_codes / sizeof *cuda_codes };

/* A copied "[no-gpu]" is no-gpu. */
static void take_brackets_off(char *code)
{
    const size_t n = strlen(code);
    if (n < 3 || code[0] != '[' || code[n - 1] != ']')
        return;
    memmove(code, code + 1, n - 2);
    code[n - 2] = '\0';
}

static const page_of_code *find(const char *code)
{
    for (int i = 0; i < PAGES; i++)
        if (strcmp(pages[i].code, code) == 0)
            return &pages[i];
    return NULL;
}

/* NULL: not CUDA's, or one without a page. */
static const cuda_code *find_cuda(const char *code)
{
    char *end;
    const long number = strtol(code, &end, 10);
    const bool is_number = end != code && *end == '\0';
    for (int i = 0; i < CUDA_CODES; i++)
        if ((is_number && cuda_codes[i].number == number) ||
            (*code != '\0' &&
             (strcmp(cuda_codes[i].runtime, code) == 0 || strcmp(cuda_codes[i].driver, code) == 0)))
            return &cuda_codes[i];
    return NULL;
}

static void put_part(const char *head, const char *text)
{
    printf("\n%s\n", head);
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        printf("  %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

static void put_cuda(const cuda_code *c)
{
    printf("%s%s%s", c->runtime, c->driver[0] != '\0' ? ", " : "", c->driver);
}

/* Of codes that are met elsewhere, too, the page says all that there is to say. */
static void put_driver_code(const cuda_code *c)
{
    for (size_t i = 0; i < sizeof driver_codes / sizeof *driver_codes; i++)
        if (driver_codes[i].number == c->number && strcmp(c->page, "init-failed") == 0)
            printf("  %s\n  try: %s\n", driver_codes[i].words, driver_codes[i].next);
}

static void list_pages(void)
{
    for (int i = 0; i < PAGES; i++)
        printf("%s\n", pages[i].code);
    for (int i = 0; i < CUDA_CODES; i++) {
        printf("%d ", cuda_codes[i].number);
        put_cuda(&cuda_codes[i]);
        puts("");
    }
}

/* What the library can give, asked of the library itself. */
static void list_codes(void)
{
    for (int i = 0; tern_reason_code(i) != NULL; i++)
        printf("%s\n", tern_reason_code(i));
    for (int i = 0; strcmp(tern_status_name((tern_status_t)i), "?") != 0; i++)
        printf("%s\n", tern_status_name((tern_status_t)i));
}

static int explain(int argc, char **argv)
{
    if (argc > 2)
        return command_usage(name, "'%s' is one argument too many", argv[2]);
    if (argc < 2) {
        list_pages();
        return COMMAND_OK;
    }
    if (strcmp(argv[1], "--codes") == 0) {
        list_codes();
        return COMMAND_OK;
    }
    take_brackets_off(argv[1]);
    const cuda_code *cuda = find_cuda(argv[1]);
    const page_of_code *page = find(cuda != NULL ? cuda->page : argv[1]);
    if (page == NULL)
        return command_fail(name, "'%s' is no code: tern explain lists them all", argv[1]);
    if (cuda != NULL) {
        printf("CUDA's %d: ", cuda->number);
        put_cuda(cuda);
        puts("");
        put_driver_code(cuda);
        puts("");
    }
    printf("%s\n", page->code);
    put_part("What it means", page->means);
    put_part("How to check", page->check);
    put_part("How to repair", page->repair);
    return COMMAND_OK;
}

const command explain_command = {
    .name = name,
    .summary = "what a reason or error code means, how to check, how to repair",
    .help =
        "usage: tern explain [CODE]\n"
        "       tern explain --codes\n"
        "\n"
        "Explains a code: the word in brackets of the line that tern writes when it uses the CPU\n"
        "instead of CUDA, an error code (tern_status_name), or a number or name of CUDA's errors\n"
        "(803, cudaErrorNoDevice). Without CODE it lists the pages and the numbers; --codes lists "
        "what the\n"
        "library of this installation can give.\n",
    .run = explain,
};
