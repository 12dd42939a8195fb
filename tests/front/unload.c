/* A program whose plug-in uses tern, and is closed while threads that have called it go on: they end after the
 * last dlclose, and what the library does as they end has to be there still.
 * usage: unload LIBTERN */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* tern/tensor.h's tern_seed: it makes the thread's state, which is let go as the thread ends. */
static void (*seed)(uint64_t seed);
static pthread_barrier_t used, closed;

static void *use(void *unused)
{
    seed(1);
    (void)pthread_barrier_wait(&used);
    (void)pthread_barrier_wait(&closed);
    return unused;
}

static int open_and_close(const char *path)
{
    pthread_t other;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "tern_seed") : NULL;
    if (symbol == NULL) {
        (void)fprintf(stderr, "unload: %s\n", dlerror());
        return 1;
    }
    memcpy(&seed, &symbol, sizeof seed);
    if (pthread_create(&other, NULL, use, NULL) != 0)
        return 1;
    (void)pthread_barrier_wait(&used);
    const int status = dlclose(library);
    (void)pthread_barrier_wait(&closed);
    return pthread_join(other, NULL) != 0 || status != 0;
}

int main(int count, char **arguments)
{
    if (count != 2) {
        (void)fputs("usage: unload LIBTERN\n", stderr);
        return 2;
    }
    (void)pthread_barrier_init(&used, NULL, 2);
    (void)pthread_barrier_init(&closed, NULL, 2);
    return open_and_close(arguments[1]) || open_and_close(arguments[1]);
}
