# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# The Megatron worker on processors: for rehearsals in a cluster, and for its tests.
#
#   docker build --file docker/worker-cpu.Dockerfile --tag REPOSITORY/worker-cpu:VERSION .
#   python -m scripts.build_image cpu        the same with buildah, on a base from debootstrap
#
# Secrets, both optional: `pip` (a pip.conf) and `certificates` (a bundle that it names as
# /run/secrets/certificates). They are mounted while packages are fetched and stay out of layers.

# Any Debian or Ubuntu with Python 3.12 or newer. The digest is the last build of this tag, as public
# Dockerfiles pin it; no registry was at hand to pull it.
ARG BASE=docker.io/library/debian:13.1-slim@sha256:a347fd7510ee31a84387619a492ad6c8eb0af2f2682b916ff3e643eb076f925a

FROM ${BASE} AS tools
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /build
# Debian takes a version off its mirrors once a fix is out, so that pinned ones stop building.
# The base decides the release, and nothing of this stage is kept.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils gcc libc6-dev python3-pip \
    && rm -rf /var/lib/apt/lists/*
COPY scripts/build_image_packages.py ./

FROM tools AS packages
COPY requirements/worker.txt requirements/muon.txt ./
# Of CUDA only the runtime is installed, which torch calls while it is loaded.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    python3 build_image_packages.py worker.txt --without triton 'cuda-*' 'nvidia-*' \
        --but nvidia-cuda-runtime > cpu.txt \
    && python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --require-hashes --no-deps --requirement cpu.txt --requirement muon.txt \
        --target /opt/seatrial/site
# The engine imports Triton and compiles nothing with it here: its compilers for GPUs are left out.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    python3 build_image_packages.py worker.txt --without '*' --but triton > triton.txt \
    && python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --require-hashes --no-deps --requirement triton.txt --target /opt/seatrial/site \
    && rm -rf /opt/seatrial/site/triton/backends/nvidia/bin \
        /opt/seatrial/site/triton/backends/nvidia/lib /opt/seatrial/site/triton/_C/libproton.so
COPY scripts/build_image_stubs.py ./
# Headers and the compiler of torch are for building extensions.
RUN python3 build_image_stubs.py /opt/seatrial/site \
    && rm -rf /opt/seatrial/site/torch/include /opt/seatrial/site/torch/bin/protoc* \
        /opt/seatrial/site/torch/lib/libtorch_cuda_linalg.so

FROM tools AS wheel
COPY requirements/dev.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    python3 build_image_packages.py dev.txt --of hatchling > build.txt \
    && python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --require-hashes --no-deps --requirement build.txt --target tools
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN PYTHONPATH=tools python3 -m pip wheel --no-cache-dir --no-deps --no-index --no-build-isolation \
        --wheel-dir dist . \
    && python3 -m pip install --no-cache-dir --no-deps --no-index --target seatrial dist/*.whl

FROM ${BASE} AS worker-cpu
# Unpinned for the same reason; the base's own updates come with them.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
    && useradd --uid 1000 --create-home --shell /usr/sbin/nologin worker \
    && ln --symbolic /opt/seatrial/site/bin/seatrial /opt/seatrial/site/bin/torchrun /usr/local/bin/
ENV PYTHONPATH=/opt/seatrial/site \
    PYTHONUNBUFFERED=1 \
    SEATRIAL_DEVICE=cpu \
    TORCHDYNAMO_DISABLE=1
COPY --from=packages /opt/seatrial /opt/seatrial
COPY --from=wheel /build/seatrial /opt/seatrial/site
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="Seatrial worker, Megatron on processors" \
      org.opencontainers.image.description="Trains with Megatron on CPUs; no GPU library inside." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 1000:1000
WORKDIR /home/worker
# A training is started through torchrun, with the run's own arguments.
CMD ["python3", "-m", "torch.distributed.run", "--help"]
