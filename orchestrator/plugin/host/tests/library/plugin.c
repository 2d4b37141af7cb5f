/* A plugin in C, and with -D… each of its bad relatives. Its constructor leaves a file behind, so that
 * a test sees whether any of its code ran. */
#include "ralph_plugin.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION "1.0.0"
#endif
#ifndef MANIFEST
#define MANIFEST                                                                                       \
    "{\"name\":\"in-c\",\"version\":\"" VERSION "\",\"sdk\":\"by hand\","                              \
    "\"provides\":[{\"kind\":\"agent\",\"name\":\"echo\",\"summary\":\"\"}]}"
#endif
#ifndef MAGIC
#define MAGIC "RALPHPLG"
#endif
#ifndef MAJOR
#define MAJOR RALPH_PLUGIN_ABI_MAJOR
#endif
#ifndef MINOR
#define MINOR RALPH_PLUGIN_ABI_MINOR
#endif
#ifndef SIZE
#define SIZE sizeof(struct decl)
#endif
#ifndef OPEN
#define OPEN my_open
#endif
#ifndef SEND
#define SEND my_send
#endif
#ifndef CLOSE
#define CLOSE my_close
#endif

#ifdef MARKER
__attribute__((constructor)) static void constructed(void) {
    int fd = open(MARKER, O_WRONLY | O_CREAT, 0600);
    if (fd >= 0)
        close(fd);
}
#endif

#ifdef UNDEFINED
extern void a_function_that_nobody_has(void);
#endif

static const struct ralph_host_api *host;

static int32_t my_open(const struct ralph_host_api *api, void **out) {
    host = api;
    *out = (void *)&host;
#ifdef UNDEFINED
    a_function_that_nobody_has();
#endif
#ifdef OPEN_FAILS
    return OPEN_FAILS;
#else
    return RALPH_PLUGIN_OK;
#endif
}

/* Answers a hello, and nothing else. */
static int32_t my_send(void *plugin, struct ralph_bytes frame) {
    static const char hello[] = "{\"frame\":\"hello\",\"protocol\":1,\"name\":\"in-c\",\"version\":\"" VERSION
                                "\",\"provides\":[{\"kind\":\"agent\",\"name\":\"echo\"}]}";
    struct ralph_bytes bytes = {hello, sizeof hello - 1};
    if (plugin != (void *)&host || frame.len == 0)
        return RALPH_PLUGIN_INVALID;
    return host->emit(host->ctx, bytes);
}

static int32_t my_close(void *plugin, uint64_t timeout_ms) {
    (void)timeout_ms;
    return plugin == (void *)&host ? RALPH_PLUGIN_OK : RALPH_PLUGIN_INVALID;
}

/* As the header has it, and what a version after it may append. */
struct decl {
    struct ralph_plugin_decl now;
#ifdef NEWER
    void *more[2];
#endif
};

#if defined(DECL_FUNCTION)
int ralph_plugin_decl(void) { return 3; }
#elif defined(DECL_UNDEFINED)
extern const struct decl ralph_plugin_decl;
const void *wanted(void) { return &ralph_plugin_decl; }
#elif defined(DECL_ZERO)
struct decl ralph_plugin_decl;
#elif defined(DECL_TINY)
const int ralph_plugin_decl = 7;
#elif defined(DECL_PREFIX)
const struct {
    char magic[8];
    uint16_t major, minor;
    uint32_t size;
} ralph_plugin_decl = {MAGIC, MAJOR, MINOR, 56};
#elif !defined(DECL_NONE)
const struct decl ralph_plugin_decl = {
    {MAGIC, MAJOR, MINOR, SIZE, {MANIFEST, sizeof MANIFEST - 1}, OPEN, SEND, CLOSE},
};
#endif

#ifndef MANIFEST_NONE
const char ralph_plugin_manifest[] = MANIFEST;
#endif
