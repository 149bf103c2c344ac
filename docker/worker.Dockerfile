# Images of the worker: target `worker` without NVIDIA's toolkit, `worker-cuda` with it, to compile
# CUDA. See docker/README.md.
ARG BASE=docker.io/library/debian:bookworm-20250520-slim

FROM ${BASE} AS source
# off: builds without NVIDIA's headers and without the cuda target.
ARG CUDA=on
ARG JOBS=
WORKDIR /src
COPY scripts/setup.sh scripts/cuda_wheels.txt scripts/
RUN KERNELCAST_CUDA=$CUDA scripts/setup.sh --build
COPY . .
ARG REVISION=unknown
RUN cmake --preset dev -DKERNELCAST_BUILD_TESTS=OFF -DKERNELCAST_WERROR=OFF -DKERNELCAST_REVISION=$REVISION >/dev/null \
 && KERNELCAST_PRESET=dev KERNELCAST_JOBS=$JOBS scripts/build.sh --without-tests kernelcast-worker \
 && install -D -s -t /programs/bin build/dev/bin/kernelcast-* \
 && mkdir -p /programs/include/kernelcast-candidate \
 && cp -r common/candidate_abi/kernelcast /usr/include/dlpack /programs/include/kernelcast-candidate/

# Can be replaced by existing folders: --build-context programs=FOLDER --build-context
# toolkit=FOLDER
FROM scratch AS programs
COPY --from=source /programs/ /
FROM scratch AS toolkit
COPY --from=source /src/.setup/cuda/ /

FROM ${BASE} AS worker
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates tini g++ \
      libabsl20220623 libcurl4 libgrpc++1.51 libjemalloc2 libmuparser2v5 libprometheus-cpp-core1.0 libprometheus-cpp-pull1.0 \
      libprotobuf32 libseccomp2 libyaml-cpp0.7 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
 && groupadd --gid 10001 kernelcast \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin kernelcast \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/kernelcast
# Includes the runner and the compiler sandbox, and the programs for CUDA if they were built.
COPY --from=programs bin/kernelcast-worker bin/kernelcast-[cr]* /opt/kernelcast/bin/
COPY --from=programs include/kernelcast-candidate /opt/kernelcast/include/kernelcast-candidate
COPY LICENSE /opt/kernelcast/
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kernelcast-worker" \
      org.opencontainers.image.description="Compiles, verifies and times candidate kernels" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 10001:10001
WORKDIR /var/lib/kernelcast
EXPOSE 50051 9464
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/kernelcast/bin/kernelcast-worker"]
CMD ["--listen=0.0.0.0:50051", "--metrics=0.0.0.0:9464", "--cache-dir=/var/lib/kernelcast"]

FROM worker AS worker-cuda
COPY --from=toolkit / /opt/kernelcast/cuda
# Parts of the driver that NVIDIA's container runtime mounts. The user who starts the container chooses
# the devices.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
LABEL org.opencontainers.image.title="kernelcast-worker-cuda"
