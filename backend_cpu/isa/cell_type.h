/* Recurrent cells for one type; included once per type, no include guard. The includer defines T, NAME(x) and
 * FN(x). All of an element is read before any of it is written, since gates are written where they were. */
static void NAME(lstm)(const void *const *in, void *const *out, int64_t n)
{
    const T *xi = in[0], *xf = in[1], *xg = in[2], *xo = in[3];
    const T *hi = in[4], *hf = in[5], *hg = in[6], *ho = in[7], *before = in[8];
    T *i_out = out[0], *f_out = out[1], *g_out = out[2], *o_out = out[3], *c_out = out[4],
      *h_out = out[5];
    CPU_INDEPENDENT
    for (int64_t k = 0; k < n; k++) {
        const T i = FN(sigmoid)(xi[k] + hi[k]), f = FN(sigmoid)(xf[k] + hf[k]);
        const T g = FN(tanh)(xg[k] + hg[k]), o = FN(sigmoid)(xo[k] + ho[k]);
        const T c = f * before[k] + i * g;
        i_out[k] = i;
        f_out[k] = f;
        g_out[k] = g;
        o_out[k] = o;
        c_out[k] = c;
        h_out[k] = o * FN(tanh)(c);
    }
}

static void NAME(lstm_grad)(const void *const *in, void *const *out, int64_t n)
{
    const T *is = in[0], *fs = in[1], *gs = in[2], *os = in[3];
    const T *before = in[4], *cs = in[5], *dh = in[6], *dc = in[7];
    T *di = out[0], *df = out[1], *dg = out[2], *dout = out[3], *dc_before = out[4];
    CPU_INDEPENDENT
    for (int64_t k = 0; k < n; k++) {
        const T i = is[k], f = fs[k], g = gs[k], o = os[k], tanh_c = FN(tanh)(cs[k]);
        const T slope = dc[k] + dh[k] * o * (1 - tanh_c * tanh_c);
        di[k] = slope * g * i * (1 - i);
        df[k] = slope * before[k] * f * (1 - f);
        dg[k] = slope * i * (1 - g * g);
        dout[k] = dh[k] * tanh_c * o * (1 - o);
        dc_before[k] = slope * f;
    }
}

static void NAME(gru)(const void *const *in, void *const *out, int64_t n)
{
    const T *xr = in[0], *xz = in[1], *xn = in[2];
    const T *hr = in[3], *hz = in[4], *hn = in[5], *before = in[6];
    T *r_out = out[0], *z_out = out[1], *n_out = out[2], *hn_out = out[3], *h_out = out[4];
    CPU_INDEPENDENT
    for (int64_t k = 0; k < n; k++) {
        const T r = FN(sigmoid)(xr[k] + hr[k]), z = FN(sigmoid)(xz[k] + hz[k]);
        const T fresh = FN(tanh)(xn[k] + r * hn[k]);
        const T h = fresh + z * (before[k] - fresh);
        r_out[k] = r;
        z_out[k] = z;
        n_out[k] = fresh;
        hn_out[k] = hn[k];
        h_out[k] = h;
    }
}

static void NAME(gru_grad)(const void *const *in, void *const *out, int64_t n)
{
    const T *rs = in[0], *zs = in[1], *ns = in[2], *hns = in[3], *before = in[4], *dh = in[5];
    T *dxr = out[0], *dxz = out[1], *dxn = out[2], *dhr = out[3], *dhz = out[4], *dhn = out[5];
    T *direct = out[6];
    CPU_INDEPENDENT
    for (int64_t k = 0; k < n; k++) {
        const T r = rs[k], z = zs[k], fresh = ns[k], slope = dh[k];
        const T in_n = slope * (1 - z) * (1 - fresh * fresh);
        const T in_r = in_n * hns[k] * r * (1 - r);
        const T in_z = slope * (before[k] - fresh) * z * (1 - z);
        dxr[k] = in_r;
        dxz[k] = in_z;
        dxn[k] = in_n;
        dhr[k] = in_r;
        dhz[k] = in_z;
        dhn[k] = in_n * r;
        direct[k] = slope * z;
    }
}

const cpu_cell_fn CPU_ISA_NAME(NAME(cpu_cells))[CPU_CELLS] = {
    [CPU_CELL_LSTM] = NAME(lstm),
    [CPU_CELL_LSTM_GRAD] = NAME(lstm_grad),
    [CPU_CELL_GRU] = NAME(gru),
    [CPU_CELL_GRU_GRAD] = NAME(gru_grad)
};
