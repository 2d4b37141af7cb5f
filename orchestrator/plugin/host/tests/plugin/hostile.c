/* A plugin in C that keeps to the interface and breaks the protocol, as its prompt says. */
#include "ralph_plugin.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef HANDSHAKE
#define HANDSHAKE "good"
#endif
#define MANIFEST                                                                                       \
    "{\"name\":\"hostile\",\"version\":\"1.0.0\","                                                     \
    "\"provides\":[{\"kind\":\"agent\",\"name\":\"hostile\"}]}"
#ifndef HELLO_NAME
#define HELLO_NAME "hostile"
#endif
#define HELLO                                                                                          \
    "{\"frame\":\"hello\",\"protocol\":1,\"name\":\"" HELLO_NAME "\",\"features\":[\"credit\"],"        \
    "\"provides\":[{\"kind\":\"agent\",\"name\":\"hostile\"}]}"

static const struct ralph_host_api *host;

static void bytes(const char *text, size_t length) {
    struct ralph_bytes frame = {text, length};
    host->emit(host->ctx, frame);
}

static void say(const char *text) { bytes(text, strlen(text)); }

static void say_of(const char *format, long number) {
    char text[256];
    snprintf(text, sizeof text, format, number);
    say(text);
}

static long number(const char *frame, const char *key) {
    const char *at = strstr(frame, key);
    return at ? atol(at + strlen(key)) : -1;
}

static int prompt_is(const char *frame, const char *what) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"prompt\":\"%s\"", what);
    return strstr(frame, wanted) != NULL;
}

#define EVENT "{\"frame\":\"event\",\"call\":%ld,\"event\":{\"type\":\"text\",\"text\":\"x\"}}"
#define DONE "{\"frame\":\"done\",\"call\":%ld,\"report\":{\"final_text\":\"fine\"}}"

/* On a thread of its own: the host may make it wait. */
static void *call(void *argument) {
    char *frame = argument;
    long me = number(frame, "\"call\":");
    if (prompt_is(frame, "malformed")) {
        say("this is no frame");
    } else if (prompt_is(frame, "binary")) {
        bytes("\xff\xfe{", 3);
    } else if (prompt_is(frame, "deep")) {
        size_t length = 1000000;
        char *text = malloc(length);
        memset(text, '[', length);
        bytes(text, length);
        free(text);
    } else if (prompt_is(frame, "oversized")) {
        size_t length = RALPH_PLUGIN_MAX_FRAME + 1;
        char *text = malloc(length);
        memset(text, 'x', length);
        bytes(text, length);
        free(text);
    } else if (prompt_is(frame, "wrong keys")) {
        say("{\"frame\":\"done\",\"call\":\"one\"}");
    } else if (prompt_is(frame, "unknown call")) {
        say_of(EVENT, 999);
    } else if (prompt_is(frame, "wrong answer")) {
        say_of("{\"frame\":\"done\",\"call\":%ld,\"found\":\"x\"}", me);
    } else if (prompt_is(frame, "second hello")) {
        say(HELLO);
    } else if (prompt_is(frame, "opened again")) {
        say("{\"frame\":\"opened\",\"instance\":77,\"agent\":{}}");
    } else if (prompt_is(frame, "duplicate")) {
        say_of(DONE, me);
        say_of(DONE, me);
    } else if (prompt_is(frame, "late")) {
        say_of(DONE, me);
        say_of(EVENT, me);
    } else {
        say("{\"frame\":\"of a newer version\",\"x\":1}");
        say_of(DONE, me);
    }
    free(frame);
    return NULL;
}

static int32_t my_open(const struct ralph_host_api *api, void **out) {
    host = api;
    *out = (void *)&host;
    if (!strcmp(HANDSHAKE, "hang in open"))
        sleep(3600);
    return RALPH_PLUGIN_OK;
}

static int32_t my_send(void *plugin, struct ralph_bytes bytes) {
    (void)plugin;
    char *frame = strndup(bytes.ptr, bytes.len);
    if (strstr(frame, "\"frame\":\"hello\"")) {
        if (!strcmp(HANDSHAKE, "silent")) {
        } else if (!strcmp(HANDSHAKE, "other protocol")) {
            say("{\"frame\":\"hello\",\"protocol\":2,\"name\":\"hostile\",\"provides\":[]}");
        } else if (!strcmp(HANDSHAKE, "other frame")) {
            say("{\"frame\":\"pong\",\"n\":1}");
        } else if (!strcmp(HANDSHAKE, "hang in send")) {
            sleep(3600);
        } else {
            say(HELLO);
        }
    } else if (strstr(frame, "\"frame\":\"open\"")) {
        say_of("{\"frame\":\"opened\",\"instance\":%ld,\"agent\":{\"name\":\"hostile\"}}",
               number(frame, "\"instance\":"));
    } else if (strstr(frame, "\"frame\":\"call\"")) {
        if (prompt_is(frame, "hang in send"))
            sleep(3600);
        pthread_t thread;
        pthread_create(&thread, NULL, call, frame);
        pthread_detach(thread);
        return RALPH_PLUGIN_OK;
    }
    free(frame);
    return RALPH_PLUGIN_OK;
}

static int32_t my_close(void *plugin, uint64_t timeout_ms) {
    (void)plugin;
    (void)timeout_ms;
    if (!strcmp(HANDSHAKE, "hang in close"))
        sleep(3600);
    return RALPH_PLUGIN_OK;
}

const char ralph_plugin_manifest[] = MANIFEST;
const struct ralph_plugin_decl ralph_plugin_decl = {
    RALPH_PLUGIN_PREFIX, {MANIFEST, sizeof MANIFEST - 1}, my_open, my_send, my_close,
};
