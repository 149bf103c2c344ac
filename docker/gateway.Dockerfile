# Image of the HTTP gateway; see docker/README.md.
ARG BASE=docker.io/library/debian:bookworm-20250520-slim

FROM ${BASE} AS source
ARG JOBS=
WORKDIR /src
COPY scripts/setup.sh scripts/cuda_wheels.txt scripts/
RUN KERNELCAST_CUDA=off scripts/setup.sh --build
COPY . .
ARG REVISION=unknown
RUN cmake --preset dev -DKERNELCAST_BUILD_TESTS=OFF -DKERNELCAST_WERROR=OFF -DKERNELCAST_REVISION=$REVISION >/dev/null \
 && KERNELCAST_PRESET=dev KERNELCAST_JOBS=$JOBS scripts/build.sh --without-tests kernelcast-gateway \
 && install -D -s -t /programs/bin build/dev/bin/kernelcast-gateway \
 && mkdir -p /programs/share/kernelcast \
 && cp -r examples/problems /programs/share/kernelcast/

# Can be replaced by a folder of built programs: --build-context programs=FOLDER
FROM scratch AS programs
COPY --from=source /programs/ /

FROM ${BASE} AS gateway
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates tini \
      libabsl20220623 libcurl4 libgnutls30 libgrpc++1.51 libjemalloc2 libmicrohttpd12 libmuparser2v5 libprometheus-cpp-core1.0 \
      libprometheus-cpp-pull1.0 libprotobuf32 libsqlite3-0 libssl3 libyaml-cpp0.7 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* \
 && groupadd --gid 10001 kernelcast \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin kernelcast \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/kernelcast
COPY --from=programs bin/kernelcast-gateway /opt/kernelcast/bin/
COPY --from=programs share/kernelcast/problems /opt/kernelcast/share/kernelcast/problems
COPY LICENSE /opt/kernelcast/
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kernelcast-gateway" \
      org.opencontainers.image.description="Serves the HTTP APIs of other evaluation servers" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 10001:10001
WORKDIR /var/lib/kernelcast
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/kernelcast/bin/kernelcast-gateway"]
CMD ["--listen=0.0.0.0:8080", "--metrics=0.0.0.0:9464", "--state-dir=/var/lib/kernelcast", "--problems=/opt/kernelcast/share/kernelcast/problems"]
