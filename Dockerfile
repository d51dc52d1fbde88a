# The image of histogram-server and histogram-client: the two programs, libc, CA certificates and
# nothing else. No shell, no package manager; runs as user 65532 with a read-only root.
#
#   docker build -t histogram:0.1.0-cpu .
#   docker build -t histogram:0.1.0-cuda13 --build-arg CUDA_VERSION=13.0.1 .
#
# scripts/release builds both with the version and the commit filled in; scripts/image-check tries the
# result. Settings: --env HISTSVC_..., or flags behind the image's name. docs/operations/container.md
# says what to start it with.

# The CUDA Toolkit to build with, by the tag of NVIDIA's image; empty: CPU only. Which driver and which
# GPUs it asks for: docs/operations/container.md.
ARG CUDA_VERSION=
# What to build on, if not on NVIDIA's image or on Debian's: Debian 12 or Ubuntu 24.04; with CUDA=ON its
# toolkit is in /usr/local/cuda.
ARG CUDA_BASE=${CUDA_VERSION:+docker.io/nvidia/cuda:${CUDA_VERSION}-devel-ubuntu24.04}
ARG BUILD_BASE=${CUDA_BASE:-docker.io/library/debian:bookworm-slim}

# ---- The packages and archives that the build needs: changes seldom, so it is a stage of its own.
FROM ${BUILD_BASE} AS deps
WORKDIR /src
COPY scripts/lib/common.sh scripts/lib/
COPY scripts/install-deps scripts/static-deps scripts/
COPY deploy/grpc-patches deploy/grpc-patches
RUN scripts/static-deps

FROM deps AS build
# ON, or OFF for the CPU alone; by itself as CUDA_VERSION says.
ARG CUDA_VERSION=
ARG CUDA=${CUDA_VERSION:+ON}
# Empty: for all GPUs from Turing on. "80" makes a smaller image for one kind.
ARG CUDA_ARCHITECTURES=
ARG VERSION=unknown
ARG COMMIT=unknown
# Another value builds anew what is cached; it has no other effect.
ARG BUILD_RUN=1
COPY . .
RUN scripts/build-static -DHISTOGRAM_CUDA=${CUDA:-OFF} -DHISTOGRAM_COMMIT=${COMMIT} \
    ${CUDA_ARCHITECTURES:+"-DCMAKE_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES}"}
RUN deploy/image/make-root build/static /image "${VERSION}"

FROM scratch
ARG VERSION=unknown
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="histogram" \
      org.opencontainers.image.description="Exact histograms over gRPC, on CPUs and NVIDIA GPUs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /image/ /
# The container is the boundary: listen on all of its addresses. What the driver's container toolkit
# mounts is compute and nvidia-smi; which GPUs is said where the container is started (--gpus, CDI).
ENV HISTSVC_LISTEN=0.0.0.0:50051 \
    HISTSVC_METRICS_LISTEN=0.0.0.0:9464 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
WORKDIR /
# 8080: with HISTSVC_HTTP_LISTEN=0.0.0.0:8080.
EXPOSE 50051/tcp 9464/tcp 8080/tcp
STOPSIGNAL SIGTERM
# Over HTTP on the port for metrics, which wants no certificate and no token, whatever the other wants.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["/usr/bin/histogram-client", "health", "--http", "127.0.0.1:9464", "--timeout", "2"]
ENTRYPOINT ["/usr/bin/histogram-server"]
