/* Streams: reading in small pieces gives what reading at once gives, and never more than the bound. */
#include <stdlib.h>
#include <string.h>

#include "data/bytes.h"

enum { WHOLE_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t read_in_pieces(const uint8_t *data, size_t size, uint8_t *out, size_t piece)
{
    data_stream stream;
    size_t total = 0;
    data_stream_open(&stream, data, size);
    for (size_t got = 1; got > 0 && total < WHOLE_BYTES; total += got) {
        const size_t room = WHOLE_BYTES - total;
        got = data_stream_read(&stream, out + total, piece < room ? piece : room);
    }
    if (total > data_stream_bound(&stream))
        abort();
    data_stream_close(&stream);
    return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t whole[WHOLE_BYTES], pieces[WHOLE_BYTES];
    const size_t count = read_in_pieces(data, size, whole, WHOLE_BYTES);
    const size_t piece = size > 0 ? 1 + data[size - 1] : 1;
    if (read_in_pieces(data, size, pieces, piece) != count || memcmp(whole, pieces, count) != 0)
        abort();
    return 0;
}
