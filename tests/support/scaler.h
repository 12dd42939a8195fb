/* A parameter of three elements and what a training step with a gradient scaler does to it. */
#ifndef TESTS_SUPPORT_SCALER_H
#define TESTS_SUPPORT_SCALER_H

#include "tern/tern.h"

tern_tensor *scaler_parameter(double value);
/* Over that parameter, named "layer.weight"; its rate is 0.5. */
tern_optimizer *scaler_sgd(tern_tensor *p);
/* One backward whose gradient of p is `slope` everywhere. */
void scaler_backward(tern_grad_scaler *scaler, tern_tensor *p, double slope);
double scaler_first(tern_tensor *t);

#endif
