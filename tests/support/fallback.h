/* A request for CUDA in a process of its own, since a process decides only once, with fake libraries and folders. A
 * test's program starts itself again with "--ask", which is fallback_ask. */
#ifndef TERN_TESTS_SUPPORT_FALLBACK_H
#define TERN_TESTS_SUPPORT_FALLBACK_H

enum { FALLBACK_BYTES = 4096 };

/* Asks for a tensor on CUDA and prints "CODE|device kind|mapped CUDA libraries|error code|text|next step|error", and
 * in seconds.txt how long the request took. */
int fallback_ask(void);

/* Folders of libraries and devices below file_folder(): plugin, driver, ... A group's set-up. */
int fallback_make_folders(void **state);
/* The fake driver is found. */
#define PLUGIN "LD_LIBRARY_PATH=\"$PWD/driver\" "

/* Starts this program with `settings` ("A=1 B=2") before it: its answer, and what it wrote on stderr. */
void fallback_run(const char *settings);
extern char fallback_answer[FALLBACK_BYTES], fallback_said[FALLBACK_BYTES];
/* Under `prefer`: the reason, the words, a CPU tensor, exactly one line, and require says the same. */
void fallback_expect(const char *settings, const char *code, const char *words);
/* A device of the plugin, and no reason. */
void fallback_expect_usable(const char *settings);
/* CUDA's libraries that the answer's process had mapped. */
int fallback_mapped(void);
/* A file of file_folder(). */
void fallback_read(const char *name, char text[FALLBACK_BYTES]);

#endif
