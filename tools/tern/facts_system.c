/* The stack below tern: system, compiler, environment; and JSON for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif
#include <tern/tern.h>

#include "core/utf8.h"
#include "tools/tern/facts.h"

extern char **environ;

/* VALUE of a line KEY=VALUE or KEY="VALUE" in /etc/os-release. */
static void add_distribution(cJSON *object)
{
    char line[256];
    FILE *file = fopen("/etc/os-release", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "PRETTY_NAME=", 12) != 0)
            continue;
        char *value = line + 12 + strspn(line + 12, "\"'");
        value[strcspn(value, "\"'\n")] = '\0';
        cJSON_AddStringToObject(object, "distribution", value);
    }
    if (file != NULL)
        (void)fclose(file);
}

static const char *container(void)
{
    if (access("/.dockerenv", F_OK) == 0)
        return "docker";
    if (access("/run/.containerenv", F_OK) == 0)
        return "podman";
    if (getenv("KUBERNETES_SERVICE_HOST") != NULL)
        return "kubernetes";
    return getenv("container");
}

cJSON *facts_system(void)
{
    cJSON *object = cJSON_CreateObject();
    char text[64];
    (void)snprintf(text, sizeof text, "%d.%d.%d", TERN_VERSION_MAJOR, TERN_VERSION_MINOR,
                   TERN_VERSION_PATCH);
    cJSON_AddStringToObject(object, "tern", text);
    cJSON_AddStringToObject(object, "compiler", __VERSION__);
#if defined(__GLIBC__)
    cJSON_AddStringToObject(object, "libc", gnu_get_libc_version());
#else
    cJSON_AddStringToObject(object, "libc", "not glibc");
#endif
    struct utsname names;
    if (uname(&names) == 0) {
        (void)snprintf(text, sizeof text, "%.20s %.40s", names.sysname, names.release);
        cJSON_AddStringToObject(object, "kernel", text);
        cJSON_AddStringToObject(object, "machine", names.machine);
    }
    add_distribution(object);
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    int64_t available = 0, most = 0;
    if (pages > 0 && page_bytes > 0)
        cJSON_AddNumberToObject(object, "memory_bytes", (double)pages * (double)page_bytes);
    if (tern_memory_info(TERN_CPU, &available, &most) == TERN_OK && most < pages * page_bytes)
        cJSON_AddNumberToObject(object, "memory_limit_bytes", (double)most); /* of the container */
    if (container() != NULL)
        cJSON_AddStringToObject(object, "container", container());
    return object;
}

/* Whether a variable of that name holds what opens something: NVIDIA_API_KEY, TERN_HUB_TOKEN. */
static bool is_secret(const char *name)
{
    static const char *const words[] = { "KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]) != NULL)
            return true;
    return false;
}

/* Nothing here names a person, a key or a path of a home unless the user put it there. */
cJSON *facts_environment(void)
{
    static const char *const prefixes[] = {
        "TERN_",     "CUDA_", "NVIDIA_", "CUBLAS_",  "PYTORCH_",         "OMP_",       "GOMP_",
        "OPENBLAS_", "DNNL_", "ONEDNN_", "MKL_NUM_", "LD_LIBRARY_PATH=", "LD_PRELOAD="
    };
    cJSON *object = cJSON_CreateObject();
    for (char **entry = environ; *entry != NULL; entry++)
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            const char *equals = strchr(*entry, '=');
            char key[128];
            if (equals == NULL || strncmp(*entry, prefixes[i], strlen(prefixes[i])) != 0)
                continue;
            (void)snprintf(key, sizeof key, "%.*s", (int)(equals - *entry), *entry);
            cJSON_AddStringToObject(object, key, is_secret(key) ? "(set)" : equals + 1);
            break;
        }
    return object;
}

/* ---- for people ----------------------------------------------------------------------------------- */

/* Returns the bytes that it takes. */
static int print_shown(const char *text)
{
    char shown[CORE_UTF8_SHOWN];
    int bytes = 0;
    while (*text != '\0') {
        text += core_utf8_show(text, shown);
        bytes += printf("%s", shown);
    }
    return bytes;
}

static void print_value(const cJSON *item)
{
    if (cJSON_IsBool(item))
        printf("%s", cJSON_IsTrue(item) ? "yes" : "no");
    else if (cJSON_IsNumber(item))
        printf(item->valuedouble < 100 ? "%.4g" : "%.0f",
               item->valuedouble); /* a quota is no whole number */
    else
        (void)print_shown(item->valuestring[0] != '\0' ? item->valuestring : "(empty)");
}

void facts_print(const cJSON *object, int indent)
{
    enum { KEY = 19 };
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        if (cJSON_IsObject(item) && item->string != NULL) {
            printf("%*s%s\n", indent, "", item->string);
            facts_print(item, indent + 2);
        } else if (cJSON_IsObject(item)) {
            facts_print(item, indent);
            printf("%s", item->next != NULL ? "\n" : "");
        } else if (cJSON_IsArray(item)) {
            printf("%*s%s\n", indent, "", item->string);
            facts_print(item, indent + 2);
        } else {
            printf("%*s", indent, "");
            const int width = item->string != NULL ? print_shown(item->string) : KEY;
            printf("%*s", width < KEY ? KEY - width : 0, "");
            printf("%s", item->string != NULL ? " " : "");
            print_value(item);
            printf("\n");
        }
    }
}
