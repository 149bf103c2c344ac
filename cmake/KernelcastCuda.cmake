# Finds NVIDIA's headers, the only part of CUDA needed to build: the libraries are opened at run
# time. If they exist, defines the target kernelcast::cuda_headers and sets KERNELCAST_CUDA_HOME to
# their toolkit. Otherwise the cuda target is left out.

set(kernelcast_cuda_homes)
foreach(variable KERNELCAST_CUDA_HOME CUDA_HOME CUDA_PATH)
  if(DEFINED ENV{${variable}})
    list(APPEND kernelcast_cuda_homes $ENV{${variable}})
  endif()
endforeach()
list(APPEND kernelcast_cuda_homes /usr/local/cuda ${PROJECT_SOURCE_DIR}/.setup/cuda)

find_path(KERNELCAST_CUDA_INCLUDE_DIR nvrtc.h
  HINTS ${kernelcast_cuda_homes}
  PATH_SUFFIXES include targets/x86_64-linux/include
  DOC "Folder with cuda.h and nvrtc.h")

set(kernelcast_cuda_version 0)
if(KERNELCAST_CUDA_INCLUDE_DIR AND EXISTS ${KERNELCAST_CUDA_INCLUDE_DIR}/cuda.h)
  file(STRINGS ${KERNELCAST_CUDA_INCLUDE_DIR}/cuda.h kernelcast_cuda_line
       REGEX "^#define CUDA_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+$" kernelcast_cuda_version "${kernelcast_cuda_line}")
endif()

if(kernelcast_cuda_version GREATER_EQUAL 12080)
  add_library(kernelcast_cuda_headers INTERFACE IMPORTED GLOBAL)
  add_library(kernelcast::cuda_headers ALIAS kernelcast_cuda_headers)
  target_include_directories(kernelcast_cuda_headers SYSTEM INTERFACE ${KERNELCAST_CUDA_INCLUDE_DIR})
  # The profiler's headers, which a toolkit may have in a separate folder, or lack.
  find_path(KERNELCAST_CUPTI_INCLUDE_DIR cupti_range_profiler.h
    HINTS ${KERNELCAST_CUDA_INCLUDE_DIR} ${KERNELCAST_CUDA_INCLUDE_DIR}/../extras/CUPTI/include
    DOC "Folder with cupti.h and cupti_range_profiler.h")
  if(KERNELCAST_CUPTI_INCLUDE_DIR)
    target_include_directories(kernelcast_cuda_headers SYSTEM INTERFACE ${KERNELCAST_CUPTI_INCLUDE_DIR})
    target_compile_definitions(kernelcast_cuda_headers INTERFACE KERNELCAST_HAS_CUPTI_HEADERS=1)
  else()
    message(STATUS "Hardware counters are left out: no cupti_range_profiler.h; "
                   "scripts/setup.sh gets it, or install CUPTI of the toolkit")
  endif()
  get_filename_component(KERNELCAST_CUDA_HOME ${KERNELCAST_CUDA_INCLUDE_DIR} DIRECTORY)
  message(STATUS "The cuda target is built with CUDA ${kernelcast_cuda_version} of ${KERNELCAST_CUDA_HOME}")
elseif(kernelcast_cuda_version GREATER 0)
  message(STATUS "The cuda target is left out: ${KERNELCAST_CUDA_INCLUDE_DIR} is CUDA "
                 "${kernelcast_cuda_version}, and 12080 is the least that it needs")
else()
  message(STATUS "The cuda target is left out: no cuda.h and nvrtc.h; "
                 "scripts/setup.sh gets them, or set CUDA_HOME")
endif()
