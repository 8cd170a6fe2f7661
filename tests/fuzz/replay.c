/* replay.c: runs a fuzz target on its committed inputs, without libFuzzer, as one TAP test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_BYTES_MAX);
    uint8_t *exact;
    size_t size;

    if (file == NULL || data == NULL) {
        printf("# could not read %s\n", path);
        return 1;
    }
    size = fread(data, 1, INPUT_BYTES_MAX, file);
    (void)fclose(file);
    exact = malloc(size + (size == 0)); /* ASan reports a read beyond the end */
    if (exact != NULL)
        memcpy(exact, data, size);
    free(data);
    printf("# %s\n", path); /* on a crash, the last line of the output names the input */
    (void)fflush(stdout);
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 0;
}

int
main(int argc, char **argv)
{
    int bad = 0;
    int count = 0;

    puts("1..1");
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        struct dirent *entry;

        while (folder != NULL && (entry = readdir(folder)) != NULL) {
            char path[4096];

            if (entry->d_name[0] == '.')
                continue;
            (void)snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
            bad += replay_file(path);
            count++;
        }
        if (folder != NULL)
            (void)closedir(folder);
    }
    printf("%s 1 - %d inputs\n", bad == 0 && count > 0 ? "ok" : "not ok", count);
    return bad != 0 || count == 0;
}
