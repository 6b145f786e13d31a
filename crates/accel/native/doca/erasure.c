/* Erasure codes of the stand-in: matrices over the field of 256 elements modulo x^8 + x^4 + x^3 + x^2 + 1, by the definitions. */
#include "work.h"

#include <string.h>

static uint8_t products[256][256];
static uint8_t inverses[256];

static uint8_t multiply(unsigned a, unsigned b)
{
    unsigned product = 0;
    for (; b; b >>= 1) {
        product ^= b & 1 ? a : 0;
        a = a << 1 ^ (a & 0x80 ? 0x11d : 0);
    }
    return (uint8_t)product;
}

__attribute__((constructor)) static void set_up(void)
{
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++) {
            products[a][b] = multiply(a, b);
            if (products[a][b] == 1)
                inverses[a] = (uint8_t)b;
        }
}

int matrix_cauchy(struct matrix *parity, size_t inputs, size_t outputs)
{
    if (inputs == 0 || outputs == 0 || inputs + outputs > BLOCKS_MAX)
        return 0;
    parity->inputs = inputs;
    parity->outputs = outputs;
    for (size_t j = 0; j < outputs; j++)
        for (size_t i = 0; i < inputs; i++)
            parity->at[j][i] = inverses[i ^ (inputs + j)];
    return 1;
}

/* Adds `factor` times one row to another. */
static void add_row(uint8_t *to, const uint8_t *row, uint8_t factor, size_t columns)
{
    for (size_t i = 0; i < columns; i++)
        to[i] ^= products[factor][row[i]];
}

/* Multiplies a row by `factor`. */
static void scale_row(uint8_t *row, uint8_t factor, size_t columns)
{
    for (size_t i = 0; i < columns; i++)
        row[i] = products[factor][row[i]];
}

/* Gauss and Jordan: `of` becomes the identity, and `inverse`, which was that, its inverse. */
static int invert(uint8_t (*of)[BLOCKS_MAX], uint8_t (*inverse)[BLOCKS_MAX], size_t rows)
{
    for (size_t pivot = 0; pivot < rows; pivot++) {
        size_t found = pivot;
        while (found < rows && of[found][pivot] == 0)
            found++;
        if (found == rows)
            return 0;
        if (found != pivot) {
            add_row(of[pivot], of[found], 1, rows);
            add_row(inverse[pivot], inverse[found], 1, rows);
        }
        scale_row(inverse[pivot], inverses[of[pivot][pivot]], rows);
        scale_row(of[pivot], inverses[of[pivot][pivot]], rows);
        for (size_t other = 0; other < rows; other++) {
            uint8_t factor = of[other][pivot];
            if (other == pivot || factor == 0)
                continue;
            add_row(of[other], of[pivot], factor, rows);
            add_row(inverse[other], inverse[pivot], factor, rows);
        }
    }
    return 1;
}

/* A block as a sum of data blocks. */
static void row_of(const struct matrix *parity, size_t block, uint8_t *row)
{
    if (block >= parity->inputs) {
        memcpy(row, parity->at[block - parity->inputs], parity->inputs);
        return;
    }
    memset(row, 0, parity->inputs);
    row[block] = 1;
}

/* What remains is a matrix times the data, so that the data is its inverse times what remains, and so is all that is missing. */
int matrix_recover(struct matrix *recover, const struct matrix *parity, const uint32_t *missing, size_t count)
{
    uint8_t remaining[BLOCKS_MAX][BLOCKS_MAX], inverse[BLOCKS_MAX][BLOCKS_MAX];
    size_t inputs = parity->inputs, blocks = inputs + parity->outputs, rows = 0, next = 0;
    if (count == 0 || count > parity->outputs)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (missing[i] >= blocks || (i > 0 && missing[i] <= missing[i - 1]))
            return 0;
    memset(inverse, 0, sizeof inverse);
    for (size_t block = 0; rows < inputs; block++) {
        if (next < count && missing[next] == block) {
            next++;
            continue;
        }
        row_of(parity, block, remaining[rows]);
        inverse[rows][rows] = 1;
        rows++;
    }
    if (!invert(remaining, inverse, inputs))
        return 0;
    recover->inputs = inputs;
    recover->outputs = count;
    for (size_t i = 0; i < count; i++) {
        uint8_t row[BLOCKS_MAX];
        row_of(parity, missing[i], row);
        memset(recover->at[i], 0, inputs);
        for (size_t data = 0; data < inputs; data++)
            add_row(recover->at[i], inverse[data], row[data], inputs);
    }
    return 1;
}

doca_error_t matrix_apply(const struct matrix *matrix, struct piece *piece)
{
    size_t block = piece->src_len / matrix->inputs;
    if (piece->src_len == 0 || block * matrix->inputs != piece->src_len || block % BLOCK_UNIT || block > BLOCK_MAX)
        return DOCA_ERROR_INVALID_VALUE;
    if (piece->dst_len < block * matrix->outputs)
        return DOCA_ERROR_INVALID_VALUE;
    piece->dst_len = block * matrix->outputs;
    memset(piece->dst, 0, piece->dst_len);
    for (size_t j = 0; j < matrix->outputs; j++)
        for (size_t i = 0; i < matrix->inputs; i++)
            add_row(piece->dst + j * block, piece->src + i * block, matrix->at[j][i], block);
    return DOCA_SUCCESS;
}
