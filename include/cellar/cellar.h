/* cellar for C and for languages that bind to C: the same as cellar/engine.h, whose comments apply. docs/library.md has an example.
 *
 * Calls that can fail return a cellar_code, and fill `error` if it is not NULL. Strings are UTF-8. What a call hands out through `out`
 * is NULL after a failure, and is given back by the function named beside its type; these take NULL. NULL where something is needed is
 * CELLAR_INPUT. Lists are written up to `capacity` entries and `*count` says how many there are, so a first call may ask with capacity 0.
 * Options start with their size and are filled with defaults by their _init macro, so that they can grow: always use it first. Languages that
 * cannot expand it call the _init_sized function with the size of what they declare; it writes no byte behind that, and nothing if it is too small
 * to hold `size`.
 * Sessions keep their engine and engines their model: each may be given back as soon as it is of no more use.
 */
#ifndef CELLAR_CELLAR_H
#define CELLAR_CELLAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something that is here changes; new functions, and new fields at the end of options, leave it. */
#define CELLAR_ABI_VERSION 2
uint32_t cellar_abi_version(void); /* of the library; a program checks that it is its own CELLAR_ABI_VERSION */
const char* cellar_version(void);  /* "0.1.0" */

typedef enum cellar_code {
    CELLAR_OK = 0,
    CELLAR_INPUT = 1,       /* a file, an option or a request is wrong */
    CELLAR_UNSUPPORTED = 2, /* well formed, but this build cannot do it */
    CELLAR_FULL = 3,        /* no room: cells, context, sessions */
    CELLAR_SYSTEM = 4,      /* the operating system said no, or memory ran out */
    CELLAR_CANCELLED = 5,
    CELLAR_INTERNAL = 6
} cellar_code;

typedef struct cellar_error {
    cellar_code code;
    char message[1024]; /* one line, cut at a whole character; empty after CELLAR_OK */
} cellar_error;

typedef struct cellar_model cellar_model;     /* cellar_model_close */
typedef struct cellar_engine cellar_engine;   /* cellar_engine_close */
typedef struct cellar_session cellar_session; /* cellar_session_close */
typedef struct cellar_answer cellar_answer;   /* cellar_answer_free */
typedef struct cellar_cancel cellar_cancel;   /* cellar_cancel_free */

/* --- models */
typedef struct cellar_model_info {
    const char *path, *name, *architecture; /* live as long as the model */
    int32_t layers, embedding;
    int64_t trained_context, vocabulary;
    uint64_t weight_bytes;
    int32_t has_text, has_template;
    int32_t bos, eos; /* -1: none */
} cellar_model_info;

typedef struct cellar_model_options {
    size_t size;
    int32_t pack, threads;
} cellar_model_options;
void cellar_model_options_init_sized(cellar_model_options* options, size_t size);
#define cellar_model_options_init(options) cellar_model_options_init_sized((options), sizeof *(options))

typedef struct cellar_engine_options {
    size_t size;
    int32_t threads, max_sessions, chunk, check_finite;
    int64_t context, cache_tokens;
    const char *cache_type, *cache_type_k, *cache_type_v; /* NULL: as "" */
    const char* kv_budget;                                /* likewise */
} cellar_engine_options;
void cellar_engine_options_init_sized(cellar_engine_options* options, size_t size);
#define cellar_engine_options_init(options) cellar_engine_options_init_sized((options), sizeof *(options))

typedef struct cellar_memory {
    int64_t context;
    uint64_t cache_bytes_per_token, cache_bytes, weight_bytes, transient_bytes, total_bytes;
    uint64_t usable_bytes; /* 0: unknown */
    int32_t fits;
} cellar_memory;

/* options: NULL for the defaults, here and wherever options are asked for. */
cellar_code cellar_model_open(const char* path, const cellar_model_options* options, cellar_model** out, cellar_error* error);
void cellar_model_close(cellar_model* model);
cellar_code cellar_model_get_info(const cellar_model* model, cellar_model_info* out, cellar_error* error);
cellar_code cellar_model_estimate(const cellar_model* model, const cellar_engine_options* options, cellar_memory* out, cellar_error* error);
cellar_code cellar_encode(const cellar_model* model, const char* text, size_t length, int add_special, int parse_special, int32_t* out,
                          size_t capacity, size_t* count, cellar_error* error);
/* `out` gets capacity bytes at most and no NUL. */
cellar_code cellar_decode(const cellar_model* model, const int32_t* ids, size_t ids_count, int show_special, char* out, size_t capacity,
                          size_t* count, cellar_error* error);

/* --- engines */
typedef struct cellar_stats {
    uint64_t used_bytes, table_bytes;
    int64_t context, blocks, blocks_used, blocks_shared; /* blocks of all groups together */
    int32_t open_sessions, threads;
} cellar_stats;
cellar_code cellar_engine_make(const cellar_model* model, const cellar_engine_options* options, cellar_engine** out, cellar_error* error);
void cellar_engine_close(cellar_engine* engine);
cellar_code cellar_engine_get_stats(const cellar_engine* engine, cellar_stats* out, cellar_error* error);

/* --- sessions */
typedef struct cellar_session_options {
    size_t size;
    const char *system, *chat_template; /* NULL: as "" */
    int32_t thinking;                   /* 0, 1, or -1: the template's default */
    int32_t unused;                     /* not read: `size` does not tell whether a program knows of it */
    int32_t overflow;                   /* 0 stop, 1 drop turns, 2 shift, 3 slide */
    int32_t unused_too;                 /* likewise */
} cellar_session_options;
void cellar_session_options_init_sized(cellar_session_options* options, size_t size);
#define cellar_session_options_init(options) cellar_session_options_init_sized((options), sizeof *(options))

typedef struct cellar_generate_options {
    size_t size;
    float temperature, top_p, min_p, typical_p, repetition_penalty, presence_penalty, frequency_penalty;
    int32_t top_k, penalty_last_n, ignore_end, show_special, parse_special;
    uint64_t seed;
    int64_t max_tokens; /* -1: until the model ends, at most as many as the context holds */
    const char* const* stops;
    size_t stops_count;
    int (*on_text)(const char* text, size_t length, void* user); /* 0 ends the answer; the text has no NUL behind it */
    void (*on_progress)(int64_t done, int64_t total, void* user);
    void* user;
    const cellar_cancel* cancel;
} cellar_generate_options;
void cellar_generate_options_init_sized(cellar_generate_options* options, size_t size);
#define cellar_generate_options_init(options) cellar_generate_options_init_sized((options), sizeof *(options))

typedef struct cellar_message {
    const char *role, *content;
} cellar_message;

cellar_code cellar_session_open(cellar_engine* engine, const cellar_session_options* options, cellar_session** out, cellar_error* error);
void cellar_session_close(cellar_session* session);
cellar_code cellar_say(cellar_session* session, const char* text, const cellar_generate_options* options, cellar_answer** out, cellar_error* error);
cellar_code cellar_chat(cellar_session* session, const cellar_message* messages, size_t count, const cellar_generate_options* options,
                        cellar_answer** out, cellar_error* error);
cellar_code cellar_again(cellar_session* session, const cellar_generate_options* options, cellar_answer** out, cellar_error* error);
cellar_code cellar_undo(cellar_session* session, int* undone, cellar_error* error);
cellar_code cellar_generate(cellar_session* session, const char* text, const cellar_generate_options* options, cellar_answer** out,
                            cellar_error* error);
cellar_code cellar_generate_tokens(cellar_session* session, const int32_t* prompt, size_t count, const cellar_generate_options* options,
                                   cellar_answer** out, cellar_error* error);
/* logits: room for `vocabulary` floats, or NULL. */
cellar_code cellar_append(cellar_session* session, const int32_t* ids, size_t count, float* logits, cellar_error* error);
int64_t cellar_length(const cellar_session* session);
cellar_code cellar_tokens(const cellar_session* session, int32_t* out, size_t capacity, size_t* count, cellar_error* error);
cellar_code cellar_fork(cellar_session* session, int64_t at, cellar_session** out, cellar_error* error);
cellar_code cellar_trim(cellar_session* session, int64_t n, int64_t* reached, cellar_error* error);

/* --- answers */
typedef struct cellar_answer_info {
    int32_t stop;  /* 0 end of turn, 1 stop string, 2 max_tokens, 3 context, 4 cancelled */
    int32_t reuse; /* 0 nothing, 1 all, 2 differs, 3 shorter, 4 unrestorable */
    int64_t prompt, reused, first_difference, prompt_tokens, generated_tokens;
    int32_t pure;
    double prompt_seconds, generate_seconds, seconds_saved;
} cellar_answer_info;
const char* cellar_answer_text(const cellar_answer* answer, size_t* length); /* lives as long as the answer; length may be NULL */
const int32_t* cellar_answer_tokens(const cellar_answer* answer, size_t* count);
void cellar_answer_get_info(const cellar_answer* answer, cellar_answer_info* out);
/* How much of the prompt was not run again, from where, and why not more. Set size to sizeof(cellar_receipt) first: fields behind it stay as
 * they are. Texts live as long as the answer. */
typedef struct cellar_receipt {
    size_t size;
    int32_t reuse, source; /* source: 0 nothing, 1 the session, 2 a kept prefix */
    int32_t pure;
    int32_t cached_token, wanted_token; /* at first_difference; -1: none */
    int64_t prompt, reused, first_difference;
    double seconds_saved;
    const char *before, *cached, *wanted; /* around first_difference, as it is */
    const char* explanation;              /* one line for people, escaped */
    int64_t forgotten_turns, forgotten_tokens;
} cellar_receipt;
cellar_code cellar_answer_get_receipt(const cellar_answer* answer, cellar_receipt* out, cellar_error* error);
void cellar_answer_free(cellar_answer* answer);

/* --- stopping: cellar_cancel_set from any thread or a signal handler ends the call after the step it is in. NULL: no memory. */
cellar_cancel* cellar_cancel_make(void);
void cellar_cancel_set(cellar_cancel* cancel, int on);
void cellar_cancel_free(cellar_cancel* cancel);

#ifdef __cplusplus
}
#endif

#endif
