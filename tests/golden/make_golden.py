#!/usr/bin/env python3
"""Writes golden.txt: inputs, results and gradients as PyTorch computes them; see golden.py."""

import math

import torch
import torch.nn.functional as F

from golden import DTYPES, SPECIAL, Golden, draw, draw_int

golden = Golden()


def unary():
    functions = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp,
                 "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "gelu": F.gelu,
                 "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}
    for name, function in functions.items():
        golden.op(name, "elementwise", function, x=draw(3, 5, low=-4, high=4))
        golden.case(name + "_special", "zeros, large values, infinities, NaN",
                    x=SPECIAL, y=function(SPECIAL))
    for name, function in {"log": torch.log, "sqrt": torch.sqrt}.items():
        golden.op(name, "elementwise", function, x=draw(3, 5, low=0.25, high=4))
        golden.case(name + "_special", "zeros, negative and large values, infinities, NaN",
                    x=SPECIAL, y=function(SPECIAL))


def binary():
    positive = draw(3, 4, low=0.25, high=3)
    away = draw(4, low=0.5, high=2)
    for name in ("add", "sub", "mul", "div", "maximum", "minimum"):
        function = getattr(torch, name)
        golden.op(name, "second operand broadcast over rows", function, a=draw(3, 4), b=away)
        golden.op(name + "_outer", "both operands broadcast", function,
                  a=draw(3, 1), b=draw(1, 4) + 4)
    golden.op("pow", "positive base", torch.pow, a=positive, b=draw(3, 4))
    golden.op("pow_square", "exponent 2 as a tensor, negative bases", torch.pow,
              a=draw(3, 4), b=torch.full((3, 4), 2.0, dtype=torch.float64))
    tie = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    golden.op("maximum_tie", "equal elements share the gradient", torch.maximum,
              a=tie, b=tie.clone())
    golden.op("where", "condition, broadcast", lambda a, b, c: torch.where(c.bool(), a, b),
              constants={"c": draw_int(2, 3, 4)}, a=draw(3, 4), b=draw(4))
    nan = torch.tensor([1.0, 2.0, math.nan, 4.0], dtype=torch.float64)
    other = torch.tensor([1.0, 3.0, 3.0, math.nan], dtype=torch.float64)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        golden.case(name, "with NaN on either side", a=nan, b=other,
                    y=getattr(torch, name)(nan, other).long())
    for name in ("maximum", "minimum"):
        golden.case(name + "_nan", "NaN wins", a=nan, b=other, y=getattr(torch, name)(nan, other))


def reductions():
    x = draw(2, 3, 4)
    golden.op("sum_all", "all dimensions", torch.sum, x=x)
    golden.op("sum_dims", "dimensions 0 and 2, kept", lambda t: t.sum((0, 2), keepdim=True), x=x)
    golden.op("mean_all", "all dimensions", torch.mean, x=x)
    golden.op("mean_dim1", "dimension 1", lambda t: t.mean(1), x=x)
    golden.op("amax_ties", "dimension 1, ties share the gradient", lambda t: t.amax(1),
              x=torch.tensor([[1.0, 3, 3], [2, 2, 2], [5, 4, 1]], dtype=torch.float64))
    golden.op("max_ties", "dimension 1, the first place takes the gradient",
              lambda t: tuple(t.max(1)),
              x=torch.tensor([[1.0, 3, 3], [2, 2, 2], [5, 4, 1]], dtype=torch.float64))
    golden.case("argmax", "dimension 2, first of ties",
                x=torch.round(x), y=torch.round(x).argmax(2))
    golden.op("var", "dimension 2, correction 1", lambda t: t.var(2), x=x)
    golden.op("var_0", "all dimensions, correction 0", lambda t: t.var(correction=0), x=x)
    golden.op("var_2", "dimensions 0 and 1, correction 2",
              lambda t: t.var((0, 1), correction=2, keepdim=True), x=x)


def products():
    shapes = {"dot": ((4,), (4,)), "matvec": ((3, 4), (4,)), "vecmat": ((4,), (4, 3)),
              "matmat": ((3, 4), (4, 5)), "batch": ((2, 3, 4), (2, 4, 2)),
              "batch_broadcast": ((2, 1, 3, 4), (3, 4, 2)), "batch_vec": ((2, 3, 4), (4,)),
              "vec_batch": ((4,), (2, 4, 3))}
    for name, (a, b) in shapes.items():
        golden.op("matmul_" + name, f"{list(a)} x {list(b)}", torch.matmul, a=draw(*a), b=draw(*b))
    golden.op("linear", "with bias, three dimensions", F.linear,
              x=draw(2, 3, 4), w=draw(5, 4), b=draw(5))


def indexing():
    index = torch.tensor([[1, 4, 1], [0, 2, 1]])
    golden.op("embedding", "a row used three times", lambda w, i: F.embedding(i, w),
              constants={"index": index}, w=draw(5, 3))
    for dim in (0, 1):
        places = draw_int(3, 2, 3)
        golden.op(f"gather_{dim}", f"dimension {dim}", lambda x, i, d=dim: x.gather(d, i),
                  constants={"index": places}, x=draw(3, 3))


def images():
    def conv(name, note, x, w, bias=True, **options):
        inputs = {"x": draw(*x), "w": draw(*w)}
        if bias:
            inputs["b"] = draw(w[0])
        golden.op(name, note, lambda x_, w_, b_=None: F.conv2d(x_, w_, b_, **options), **inputs)

    conv("conv2d", "padding 1", (2, 3, 5, 6), (4, 3, 3, 3), padding=1)
    conv("conv2d_stride", "stride 2 x 1, padding 0 x 2, no bias", (1, 2, 7, 5), (3, 2, 3, 3), False,
         stride=(2, 1), padding=(0, 2))
    conv("conv2d_dilation", "dilation 2 x 3, padding 2", (1, 2, 8, 9), (2, 2, 3, 2),
         dilation=(2, 3), padding=2)
    conv("conv2d_groups", "2 groups", (2, 4, 4, 4), (6, 2, 3, 3), groups=2, padding=1)
    conv("conv2d_depthwise", "a group per channel, stride 2", (1, 4, 5, 5), (4, 1, 3, 3), groups=4,
         stride=2, padding=1)
    conv("conv2d_1x1", "kernel 1", (2, 3, 3, 3), (5, 3, 1, 1))
    golden.op("max_pool2d", "kernel 2", lambda x: F.max_pool2d(x, 2), x=draw(2, 2, 5, 4))
    golden.op("max_pool2d_overlap", "kernel 3, stride 2, padding 1",
              lambda x: F.max_pool2d(x, 3, 2, 1), x=draw(1, 2, 6, 7))
    golden.op("max_pool2d_ceil", "kernel 2 x 3, stride 2, ceil mode, dilation 1 x 2",
              lambda x: F.max_pool2d(x, (2, 3), 2, 0, (1, 2), ceil_mode=True), x=draw(1, 1, 7, 8))
    golden.op("max_pool2d_ties", "the first place takes the gradient",
              lambda x: F.max_pool2d(x, 2), x=torch.ones(1, 1, 4, 4, dtype=torch.float64))
    golden.op("avg_pool2d", "kernel 2", lambda x: F.avg_pool2d(x, 2), x=draw(2, 2, 5, 4))
    golden.op("avg_pool2d_pad", "kernel 3, stride 2, padding 1, zeros counted",
              lambda x: F.avg_pool2d(x, 3, 2, 1), x=draw(1, 2, 6, 7))
    golden.op("avg_pool2d_exclude", "kernel 3, stride 2, padding 1, ceil mode, zeros not counted",
              lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
              x=draw(1, 2, 6, 7))


def normalisation():
    running = {"mean": draw(3), "var": draw(3, low=0.5, high=2)}

    def batch_norm(training, momentum=0.1):
        def run(x, w, b, mean, var):
            mean, var = mean.clone(), var.clone()
            y = F.batch_norm(x, mean, var, w, b, training, momentum, 1e-5)
            return y, mean, var
        return run

    golden.op("batch_norm_train", "y2, y3: running mean and variance after it; momentum 0.1",
              batch_norm(True), constants=running, x=draw(2, 3, 2, 3), w=draw(3), b=draw(3))
    golden.op("batch_norm_eval", "running statistics are used and stay", batch_norm(False),
              constants=running, x=draw(2, 3, 2, 3), w=draw(3), b=draw(3))
    golden.op("batch_norm_2d", "[N, C], momentum 0.3", batch_norm(True, 0.3), constants=running,
              x=draw(5, 3), w=draw(3), b=draw(3))
    golden.op("batch_norm_plain", "no weight, no bias, no running statistics",
              lambda x: F.batch_norm(x, None, None, training=True), x=draw(2, 3, 2, 2))
    golden.op("layer_norm", "last dimension", lambda x, w, b: F.layer_norm(x, (5,), w, b),
              x=draw(2, 3, 5), w=draw(5), b=draw(5))
    golden.op("layer_norm_2", "last two dimensions, eps 1e-3",
              lambda x, w, b: F.layer_norm(x, (3, 4), w, b, 1e-3),
              x=draw(2, 3, 4), w=draw(3, 4), b=draw(3, 4))
    golden.op("layer_norm_plain", "no weight, no bias", lambda x: F.layer_norm(x, (6,)),
              x=draw(3, 6))


def losses():
    for dim in (0, 1, 2):
        x = draw(2, 3, 4, low=-6, high=6)
        golden.op(f"softmax_{dim}", f"dimension {dim}", lambda t, d=dim: t.softmax(d), x=x)
        golden.op(f"log_softmax_{dim}", f"dimension {dim}", lambda t, d=dim: t.log_softmax(d), x=x)
    golden.op("softmax_large", "no overflow", lambda t: t.softmax(0),
              x=torch.tensor([1000.0, 999.0, -1000.0], dtype=torch.float64))
    target = torch.tensor([2, 0, 1, 2])
    weight = draw(3, low=0.25, high=2)
    logits = draw(4, 3, low=-4, high=4)
    for reduction in ("mean", "sum", "none"):
        golden.op("cross_entropy_" + reduction, f"reduction {reduction}",
                  lambda x, t, r=reduction: F.cross_entropy(x, t, reduction=r),
                  constants={"t": target}, x=logits)
    golden.op("cross_entropy_smooth", "label smoothing 0.1",
              lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
              constants={"t": target}, x=logits)
    golden.op("cross_entropy_ignore", "ignore index 0",
              lambda x, t: F.cross_entropy(x, t, ignore_index=0), constants={"t": target}, x=logits)
    golden.op("cross_entropy_weight", "class weights",
              lambda x, t, w: F.cross_entropy(x, t, w),
              constants={"t": target, "w": weight}, x=logits)
    golden.op("cross_entropy_all", "class weights, label smoothing 0.2, ignore index 2",
              lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.2, ignore_index=2),
              constants={"t": target, "w": weight}, x=logits)
    golden.op("cross_entropy_spatial", "[N, C, S] with targets [N, S], smoothing 0.1",
              lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
              constants={"t": draw_int(3, 2, 4)}, x=draw(2, 3, 4))
    golden.op("cross_entropy_nothing", "all targets ignored: NaN",
              lambda x, t: F.cross_entropy(x, t, ignore_index=1),
              constants={"t": torch.tensor([1, 1])}, x=draw(2, 3))
    for reduction in ("mean", "sum", "none"):
        golden.op("mse_" + reduction, f"reduction {reduction}",
                  lambda x, t, r=reduction: F.mse_loss(x, t, reduction=r),
                  x=draw(3, 4), t=draw(3, 4))


def second_order():
    functions = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu, "silu": F.silu,
                 "exp": torch.exp, "softmax": lambda x: x.softmax(1),
                 "layer_norm": lambda x: F.layer_norm(x, (4,))}
    for name, function in functions.items():
        golden.second(name, function, draw(3, 4))


def optimizers():
    kinds = {
        "sgd": (torch.optim.SGD, dict(lr=0.1)),
        "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.25)),
        "sgd_nesterov": (torch.optim.SGD,
                         dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
        "sgd_maximize": (torch.optim.SGD,
                         dict(lr=0.1, momentum=0.5, maximize=True, weight_decay=0.1)),
        "adam": (torch.optim.Adam, dict(lr=0.01)),
        "adam_decay": (torch.optim.Adam,
                       dict(lr=0.01, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-6)),
        "adamw": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1)),
        "adamw_maximize": (torch.optim.AdamW, dict(lr=0.01, maximize=True)),
    }
    start = draw(6)
    grads = [draw(6) for _ in range(4)]
    for name, (kind, options) in kinds.items():
        p = start.clone().requires_grad_()
        optimizer = kind([p], foreach=False, **options)
        path = []
        for g in grads:
            p.grad = g.clone()
            optimizer.step()
            path.append(p.detach().clone())
        note = ", ".join(f"{k} {v}" for k, v in options.items())
        golden.case("optimizer_" + name, note + "; y: the parameter after each step",
                    p=start, g=torch.stack(grads), y=torch.stack(path))


def schedules():
    def rates(make, steps=10):
        p = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([p], lr=0.5)
        schedule = make(optimizer)
        path = []
        for _ in range(steps):
            path.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return torch.tensor(path, dtype=torch.float64)

    lr = torch.optim.lr_scheduler
    golden.case("schedule_step", "base 0.5, every 3 steps times 0.1",
                y=rates(lambda o: lr.StepLR(o, 3)))
    golden.case("schedule_exponential", "base 0.5, gamma 0.9",
                y=rates(lambda o: lr.ExponentialLR(o, 0.9)))
    golden.case("schedule_cosine", "base 0.5, 9 steps to 0.05",
                y=rates(lambda o: lr.CosineAnnealingLR(o, 9, 0.05)))


def clipping():
    a, b = draw(2, 3), draw(4)
    for kind in (2.0, math.inf, 1.0):
        p, q = (torch.zeros_like(t).requires_grad_() for t in (a, b))
        p.grad, q.grad = a.clone(), b.clone()
        norm = torch.nn.utils.clip_grad_norm_([p, q], 1.5, norm_type=kind)
        name = "inf" if math.isinf(kind) else f"{kind:.0f}"
        golden.case("clip_" + name, f"max norm 1.5, norm type {name}; y: the norm",
                    a=a, b=b, y=norm, ya=p.grad, yb=q.grad)


def casts():
    values = torch.tensor([0.0, 1.0, -1.0, 0.1, 3.14159265, 65504.0, 65519.0, 65520.0, 1e-8, 6e-8,
                           6.1e-5, 1.00048828125, 1.001, 1e30, -1e39, math.inf, math.nan, 255.5,
                           -2.75])
    for dtype in (torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        golden.case("cast_" + name, "from f32, to nearest even", x=values.double(),
                    y=values.to(dtype).double())
    small = torch.tensor([0.0, 0.5, -0.5, 1.99, -1.99, 100.0, -100.0])
    golden.case("cast_int", "from f32, towards zero", x=small.double(), y=small.to(torch.int32))
    golden.case("cast_bool", "from f32: not zero, NaN too",
                x=values.double(), y=values.bool().long())
    wide = torch.tensor([0, 1, -1, 127, 128, 255, 256, -129, 70000])
    for dtype in (torch.uint8, torch.int8, torch.int16):
        name = str(dtype).removeprefix("torch.")
        golden.case("cast_" + name, "from i64, modulo", x=wide, y=wide.to(dtype))


def halves():
    """Half tensors with plain numbers and, in place, with wider tensors: what is rounded when."""
    for dtype in (torch.float16, torch.bfloat16):
        name = "half_" + str(dtype).removeprefix("torch.") + "_"
        x = draw(37, low=0.25, high=3).to(dtype)
        wide = draw(37, low=0.5, high=2).float() + 0.001953
        scalar = torch.tensor(0.1)
        numbers = {"mul": lambda t: t * 0.1, "div": lambda t: t / 0.1, "add": lambda t: t + 0.1,
                   "sub": lambda t: t - 0.1, "pow": lambda t: t ** 0.1,
                   "mul_scalar": lambda t: t * scalar, "scalar_mul": lambda t: scalar * t,
                   "div_scalar": lambda t: t / scalar, "le": lambda t: (t <= 1.7).to(dtype)}
        for op, function in numbers.items():
            golden.case(name + op, "with 0.1, a number or a 0-dim f32 tensor; le: with 1.7",
                        x=x.double(), y=function(x).double())
        leaf = x.clone().requires_grad_()
        gy = draw(37).to(dtype)
        gx, = torch.autograd.grad(leaf * 0.1, leaf, gy)
        golden.case(name + "mul_grad", "gradient of x * 0.1",
                    x=x.double(), gy=gy.double(), gx=gx.double())
        for op in ("add", "sub", "mul", "div"):
            y = x.clone()
            getattr(y, op + "_")(wide)
            golden.case(name + op + "_wide", "in place with an f32 tensor",
                        x=x.double(), w=wide.double(), y=y.double())


def promotion():
    """Rows and columns in the order of DTYPES; numbers are 1-based indices into it."""
    index = {d: i + 1 for i, d in enumerate(DTYPES)}
    ones = [torch.ones(1, dtype=d) for d in DTYPES]
    zero_dim = [torch.ones((), dtype=d) for d in DTYPES]

    def result(function, a, b):
        try:
            return index[function(a, b).dtype]
        except RuntimeError:
            return 0

    def table(function, rows, columns):
        return torch.tensor([[result(function, a, b) for b in columns] for a in rows])

    numbers = [True, 2, 2.5]
    golden.case("promote_add", "tensor + tensor", y=table(torch.add, ones, ones))
    golden.case("promote_div", "tensor / tensor", y=table(torch.div, ones, ones))
    golden.case("promote_pow", "tensor ^ tensor", y=table(torch.pow, ones, ones))
    golden.case("promote_zero_dim", "tensor + 0-dim tensor", y=table(torch.add, ones, zero_dim))
    golden.case("promote_number", "tensor + True, 2, 2.5", y=table(torch.add, ones, numbers))
    golden.case("promote_number_div", "tensor / True, 2, 2.5", y=table(torch.div, ones, numbers))
    golden.case("promote_number_zero_dim", "0-dim tensor + True, 2, 2.5",
                y=table(torch.add, zero_dim, numbers))
    for name, function in {"exp": torch.exp, "sum": torch.sum, "abs": torch.abs, "neg": torch.neg,
                           "relu": torch.relu}.items():
        golden.case("promote_" + name, "dtype of the result; 0: an error",
                    y=torch.tensor([result(lambda a, _, f=function: f(a), t, None) for t in ones]))


def main():
    for section in (unary, binary, reductions, products, indexing, images, normalisation, losses,
                    second_order, optimizers, schedules, clipping, casts, promotion, halves):
        section()
    golden.write("golden")


if __name__ == "__main__":
    main()
