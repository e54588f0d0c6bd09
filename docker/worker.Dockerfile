# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# The Megatron worker on GPUs, one target for each fabric, and one for HyperPod's operator:
#
#   docker build --file docker/worker.Dockerfile --target infiniband --tag REPOSITORY/worker-megatron:VERSION .
#   docker build --file docker/worker.Dockerfile --target efa --tag REPOSITORY/worker-megatron-efa:VERSION .
#   docker build --file docker/worker.Dockerfile --target hyperpod --tag REPOSITORY/worker-megatron-hyperpod:VERSION .
#
# Linted, never built: where Seatrial is developed there is no registry to pull the base from.
#
# Secrets, both optional: `pip` (a pip.conf) and `certificates` (a bundle that it names as
# /run/secrets/certificates). They are mounted while packages are fetched and stay out of layers.

# Brings Python 3.12, torch, CUDA, NCCL and Transformer Engine, built for each other. Its digest is
# not known here; give BASE with one where yours is.
ARG BASE=nvcr.io/nvidia/pytorch:26.02-py3

FROM ${BASE} AS wheel
WORKDIR /build
# NVIDIA's image pins what it brings for every pip; the tools here go into a folder of their own.
ENV PIP_CONSTRAINT=""
COPY scripts/build_image_packages.py requirements/dev.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    python3 build_image_packages.py dev.txt --of hatchling > build.txt \
    && python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --require-hashes --no-deps --requirement build.txt --target tools
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN PYTHONPATH=tools python3 -m pip wheel --no-cache-dir --no-deps --no-index --no-build-isolation \
        --wheel-dir dist . \
    && python3 -m pip install --no-cache-dir --no-deps --no-index --target seatrial dist/*.whl

FROM ${BASE} AS worker
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# The lock leaves out torch and NVIDIA's libraries. What it holds goes into a folder of its own, as
# the init container of a run does it, so that the base stays as NVIDIA has tested it.
ENV PIP_CONSTRAINT=""
COPY charts/seatrial/files/worker.txt /opt/seatrial/lock/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --require-hashes --no-deps --requirement /opt/seatrial/lock/worker.txt \
        --target /opt/seatrial/site
COPY --from=wheel /build/seatrial /opt/seatrial/site
ENV PYTHONPATH=/opt/seatrial/site \
    PYTHONUNBUFFERED=1
# A base without one of these is the wrong one, and says so now rather than on the first node.
RUN python3 -c "import sys; from importlib.metadata import version; \
        assert sys.version_info >= (3, 12), sys.version; \
        print(*(f'{name} {version(name)}' for name in ('torch', 'transformer_engine', 'megatron-core')))" \
    && (getent passwd 1000 || useradd --uid 1000 --create-home --shell /usr/sbin/nologin worker)
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM worker AS infiniband
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# The base brings rdma-core.
RUN ldconfig -p | grep libibverbs.so.1 \
    && ldconfig -p | grep libmlx5.so.1
LABEL org.opencontainers.image.title="Seatrial worker, Megatron" \
      org.opencontainers.image.description="Trains with Megatron on GPUs over InfiniBand."
USER 1000:1000
CMD ["python3", "-m", "torch.distributed.run", "--help"]

FROM worker AS efa
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# libfabric, its provider for EFA and the plugin for NCCL, signed by Amazon. --enable-ngc is AWS's
# way for NVIDIA's images since 1.49 (EC2 guide, "Install the EFA software in a container").
ARG EFA_INSTALLER=1.50.0
ARG EFA_KEY=4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC
WORKDIR /tmp/efa
# Ubuntu takes a version off its mirrors once a fix is out, so that pinned ones stop building.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends curl gnupg \
    && address=https://efa-installer.amazonaws.com \
    && archive="aws-efa-installer-${EFA_INSTALLER}.tar.gz" \
    && for file in "${archive}" "${archive}.sig" aws-efa-installer.key; do \
        curl --fail --silent --show-error --remote-name "${address}/${file}" || exit 1; \
    done \
    && gpg --batch --quiet --homedir . --import aws-efa-installer.key \
    && gpg --batch --homedir . --status-fd 1 --verify "${archive}.sig" "${archive}" \
        | grep "VALIDSIG .*${EFA_KEY}" \
    && tar --extract --file "${archive}" \
    && env --chdir=aws-efa-installer ./efa_installer.sh -y --enable-ngc \
    && rm -rf /tmp/efa/* /var/lib/apt/lists/* \
    && /opt/amazon/efa/bin/fi_info --version \
    && find /opt/amazon -name 'libnccl-net*.so' | grep .
WORKDIR /workspace
ENV PATH=/opt/amazon/efa/bin:${PATH}
LABEL org.opencontainers.image.title="Seatrial worker, Megatron, EFA" \
      org.opencontainers.image.description="Trains with Megatron on GPUs over AWS EFA."
USER 1000:1000
CMD ["python3", "-m", "torch.distributed.run", "--help"]

FROM wheel AS hyperpod-agent
COPY requirements/hyperpod.txt ./
# AWS publishes the agent as source only; hatchling builds its wheel. Its licence is the AWS
# Customer Agreement: build this image for your own clusters, and do not publish it.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    PYTHONPATH=tools python3 -m pip wheel --no-cache-dir --no-input --disable-pip-version-check \
        --require-hashes --no-deps --no-build-isolation --requirement hyperpod.txt \
        --wheel-dir agent

FROM efa AS hyperpod
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
USER 0:0
# In a folder of its own: pip would not add hyperpodrun to the programs that are already in the
# worker's folder. The worker's folder comes first, so that both use the same packages.
RUN --mount=type=bind,from=hyperpod-agent,source=/build/agent,target=/build/agent \
    python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --no-deps --no-index --target /opt/seatrial/hyperpod /build/agent/*.whl
ENV PYTHONPATH=/opt/seatrial/site:/opt/seatrial/hyperpod \
    PATH=/opt/seatrial/hyperpod/bin:${PATH}
RUN hyperpodrun --help > /dev/null
LABEL org.opencontainers.image.title="Seatrial worker, Megatron, HyperPod" \
      org.opencontainers.image.description="Trains with Megatron over AWS EFA under HyperPod's operator."
USER 1000:1000
CMD ["hyperpodrun", "--help"]
