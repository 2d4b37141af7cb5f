/* The C ABI between ralph-orchestrator (the host) and a plugin library, version 1.0.
 *
 * A plugin exports two data symbols:
 *
 *     const char ralph_plugin_manifest[] = "{\"name\":…}";
 *     const struct ralph_plugin_decl ralph_plugin_decl = {
 *         RALPH_PLUGIN_PREFIX, {ralph_plugin_manifest, sizeof ralph_plugin_manifest - 1},
 *         my_open, my_send, my_close,
 *     };
 *
 * A frame is a JSON object in UTF-8 without a line end, at most 16 MiB; the host reads bytes that are no
 * UTF-8 as U+FFFD. Bytes are lent for one call and have to be copied by whoever needs them longer. No
 * exception may cross. The host never unloads a library. Threading and meaning of each function:
 * docs/dev/plugin-protocol.md, "Libraries in C".
 */
#ifndef RALPH_PLUGIN_H
#define RALPH_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define RALPH_PLUGIN_ABI_MAJOR 1
#define RALPH_PLUGIN_ABI_MINOR 0
#define RALPH_PLUGIN_MAX_FRAME (16 * 1024 * 1024)

enum ralph_plugin_status {
    RALPH_PLUGIN_OK = 0,
    RALPH_PLUGIN_INVALID = -1,
    RALPH_PLUGIN_PANIC = -2,
    RALPH_PLUGIN_CLOSED = -3,
    RALPH_PLUGIN_FAILED = -4,
    RALPH_PLUGIN_BUSY = -5,
};

struct ralph_bytes {
    const char *ptr;
    size_t len;
};

struct ralph_host_api {
    uint32_t size;
    uint16_t abi_major;
    uint16_t abi_minor;
    void *ctx;
    /* Any thread, may block. */
    int32_t (*emit)(void *ctx, struct ralph_bytes frame);
};

struct ralph_plugin_decl {
    char magic[8];
    uint16_t abi_major;
    uint16_t abi_minor;
    uint32_t size;
    struct ralph_bytes manifest;
    int32_t (*open)(const struct ralph_host_api *host, void **out);
    /* Never blocks. */
    int32_t (*send)(void *plugin, struct ralph_bytes frame);
    int32_t (*close)(void *plugin, uint64_t timeout_ms);
};

/* The first four members of a declaration. */
#define RALPH_PLUGIN_PREFIX                                                                            \
    {'R', 'A', 'L', 'P', 'H', 'P', 'L', 'G'}, RALPH_PLUGIN_ABI_MAJOR, RALPH_PLUGIN_ABI_MINOR,          \
        sizeof(struct ralph_plugin_decl)

_Static_assert(sizeof(struct ralph_plugin_decl) == 56, "layout");
_Static_assert(offsetof(struct ralph_plugin_decl, open) == 32, "layout");
_Static_assert(sizeof(struct ralph_host_api) == 24, "layout");

#endif
