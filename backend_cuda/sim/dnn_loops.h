/* Convolution and its gradients as loops over dense arrays of REAL, accumulated in REAL: included once
 * for float and once for double. NAME(x) is x with the type in it. */

/* A row of y against a row of x from `from` on, one step apart. */
static REAL NAME(rows)(dnn_kind kind, REAL *y, REAL *x, int64_t n, int step, REAL weight)
{
    REAL sum = 0;
    if (kind == DNN_FORWARD)
        for (int64_t i = 0; i < n; i++)
            y[i] += weight * x[i * step];
    else if (kind == DNN_DATA)
        for (int64_t i = 0; i < n; i++)
            x[i * step] += weight * y[i];
    else
        for (int64_t i = 0; i < n; i++)
            sum += x[i * step] * y[i];
    return sum;
}

/* One cell of one filter, of a plane of x and a plane of y. */
static void NAME(cell)(const dnn_conv *c, dnn_kind kind, REAL *y, REAL *x, REAL *w, int kh, int kw)
{
    const int64_t left = (int64_t)kw * c->dilation[1] - c->pad[1];
    int64_t first = 0, end = c->y.dim[3];
    while (first < end && left + first * c->step[1] < 0)
        first++;
    while (end > first && left + (end - 1) * c->step[1] >= c->x.dim[3])
        end--;
    for (int64_t oh = 0; oh < c->y.dim[2] && first < end; oh++) {
        const int64_t h = oh * c->step[0] - c->pad[0] + (int64_t)kh * c->dilation[0];
        if (h >= 0 && h < c->x.dim[2])
            *w += NAME(rows)(kind, y + oh * c->y.dim[3] + first,
                             x + h * c->x.dim[3] + left + first * c->step[1], end - first,
                             c->step[1], *w);
    }
}

/* Adds into the array of the result, which is zero at first. */
static void NAME(convolve)(const dnn_conv *c, dnn_kind kind, REAL *x, REAL *w, REAL *y)
{
    const int channels = c->w.dim[1], outputs = c->w.dim[0] / c->groups;
    const int64_t x_plane = (int64_t)c->x.dim[2] * c->x.dim[3];
    const int64_t y_plane = (int64_t)c->y.dim[2] * c->y.dim[3];
    for (int64_t n = 0; n < c->x.dim[0]; n++)
        for (int64_t o = 0; o < c->w.dim[0]; o++)
            for (int64_t k = 0; k < channels; k++) {
                REAL *to = y + (n * c->w.dim[0] + o) * y_plane;
                REAL *from = x + (n * c->x.dim[1] + o / outputs * channels + k) * x_plane;
                REAL *cell = w + (o * channels + k) * c->w.dim[2] * c->w.dim[3];
                for (int kh = 0; kh < c->w.dim[2]; kh++)
                    for (int kw = 0; kw < c->w.dim[3]; kw++)
                        NAME(cell)(c, kind, to, from, cell++, kh, kw);
            }
}

/* Elements of a tensor as a dense array; NULL: no memory. */
static REAL *NAME(gather)(const struct cudnnTensorStruct *t, const void *data, bool tf32)
{
    const int64_t n = sim_dnn_numel(t);
    REAL *dense = malloc((size_t)n * sizeof *dense);
    for (int64_t i = 0; i < n && dense != NULL; i++)
        dense[i] = (REAL)(tf32 ? as_tf32(sim_dnn_load(t->type, data, sim_dnn_place(t, i)))
                               : sim_dnn_load(t->type, data, sim_dnn_place(t, i)));
    return dense;
}

/* result = alpha sums + beta result, which is not read where beta is 0. */
static void NAME(blend)(const dnn_work *work, const struct cudnnTensorStruct *t, const REAL *sums)
{
    const int64_t n = sim_dnn_numel(t);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = sim_dnn_place(t, i);
        double value = work->alpha * (double)sums[i];
        if (work->beta != 0)
            value += work->beta * sim_dnn_load(t->type, work->result, at);
        sim_dnn_store(t->type, work->result, at, value);
    }
}

/* Sums lie in the workspace where the algorithm has one. */
static void NAME(run)(const dnn_work *work)
{
    const dnn_conv *c = &work->conv;
    const struct cudnnTensorStruct *t[3] = { &c->x, &c->w, &c->y };
    REAL *dense[3];
    for (int i = 0; i < 3; i++) {
        const size_t bytes = (size_t)sim_dnn_numel(t[i]) * sizeof(REAL);
        const bool result = i == result_of(work->kind);
        dense[i] = !result                   ? NAME(gather)(t[i], work->in[i], work->tf32)
                   : work->workspace != NULL ? work->workspace
                                             : malloc(bytes);
        if (result && dense[i] != NULL)
            memset(dense[i], 0, bytes);
    }
    if (dense[0] != NULL && dense[1] != NULL && dense[2] != NULL) {
        NAME(convolve)(c, work->kind, dense[0], dense[1], dense[2]);
        NAME(blend)(work, t[result_of(work->kind)], dense[result_of(work->kind)]);
    }
    for (int i = 0; i < 3; i++)
        if (dense[i] != work->workspace)
            free(dense[i]);
}

#undef REAL
#undef NAME
