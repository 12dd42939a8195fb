# For a build on Debian that runs on 64-bit ARM: -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake. Packages:
# gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu, and the libraries as libcjson-dev:arm64 and so on. With
# qemu-user-static its tests run here, too (./run elsewhere arm64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig)
find_program(CMAKE_CROSSCOMPILING_EMULATOR NAMES qemu-aarch64-static qemu-aarch64)
