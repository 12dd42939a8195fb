/* tern: a small tensor runtime. This header includes the whole public API; conventions are said in
 * tern/base.h. Read in this order: base, tensor, ops, autograd, nn, data. */
#ifndef TERN_TERN_H
#define TERN_TERN_H

#include <stdio.h> /* programs print what comes out */

#include "tern/amp.h"
#include "tern/autograd.h"
#include "tern/base.h"
#include "tern/checkpoint.h"
#include "tern/data.h"
#include "tern/debug.h"
#include "tern/device.h"
#include "tern/dlpack.h"
#include "tern/error.h"
#include "tern/io.h"
#include "tern/memory.h"
#include "tern/nn.h"
#include "tern/numerics.h"
#include "tern/ops.h"
#include "tern/stream.h"
#include "tern/system.h"
#include "tern/tensor.h"
#include "tern/transfers.h"
#include "tern/transformer.h"

#endif
