/* What the simulator's own tests share. */
#ifndef TESTS_SIM_SIM_CHECK_H
#define TESTS_SIM_SIM_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <cuda_runtime_api.h>
#include <sim_control.h>

#include "tests/sim/kernels.h"

#define assert_cuda(call) assert_int_equal(call, cudaSuccess)

static inline void assert_reported(const char *text)
{
    if (strstr(sim_last_report(), text) == NULL)
        print_error("'%s' is not in: %s\n", text, sim_last_report());
    assert_non_null(strstr(sim_last_report(), text));
}

/* Each test begins with fresh devices and the settings of a first start. */
static inline int fresh(void **state)
{
    (void)state;
    sim_reset();
    return sim_set("DEVICES", "2") | sim_set("MEMORY", "256M") | sim_set("ORDER", "forward") |
           sim_set("ASYNC", "lazy") | sim_set("RACES", "on") | sim_set("CLOCK", "laptop-pcie3");
}
#define TEST(name) cmocka_unit_test_setup(name, fresh)

static inline float *device_floats(int n)
{
    void *data = NULL;
    assert_cuda(cudaMalloc(&data, (size_t)n * sizeof(float)));
    return data;
}

/* n times the value, there when it returns */
static inline float *filled_floats(int n, float value)
{
    float host[4096];
    float *data = device_floats(n);
    for (int i = 0; i < n; i++)
        host[i] = value;
    assert_cuda(cudaMemcpy(data, host, (size_t)n * sizeof(float), cudaMemcpyHostToDevice));
    return data;
}

static inline float first_float(const float *data)
{
    float value = 0;
    assert_cuda(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

#endif
