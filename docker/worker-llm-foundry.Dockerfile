# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# The LLM Foundry worker on GPUs:
#
#   docker build --file docker/worker-llm-foundry.Dockerfile --tag REPOSITORY/worker-llm-foundry:VERSION .
#
# Linted, never built: where Seatrial is developed there is no registry to pull the base from.
#
# Secrets, both optional: `pip` (a pip.conf) and `certificates` (a bundle that it names as
# /run/secrets/certificates). They are mounted while packages are fetched and stay out of layers.

# MosaicML's own: Python 3.12, torch 2.7.0, CUDA 12.8, flash attention and the user space of
# InfiniBand, built for each other. Its digest is not known here; give BASE with one where yours is.
ARG BASE=docker.io/mosaicml/llm-foundry:2.7.0_cu128-9867a7b

FROM ${BASE} AS wheel
WORKDIR /build
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

FROM ${BASE} AS worker-llm-foundry
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /opt/seatrial/lock
# torch and NVIDIA's libraries stay those of the base, for which its flash attention was compiled.
COPY scripts/build_image_packages.py src/seatrial/engines/llm_foundry/llm-foundry.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    python3 build_image_packages.py llm-foundry.txt --without torch triton 'nvidia-*' > gpu.txt \
    && python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --require-hashes --no-deps --requirement gpu.txt --target /opt/seatrial/site
COPY --from=wheel /build/seatrial /opt/seatrial/site
ENV PYTHONPATH=/opt/seatrial/site \
    PYTHONUNBUFFERED=1
# A base without one of these is the wrong one, and says so now rather than on the first node.
RUN python3 -c "import sys; from importlib.metadata import version; \
        assert sys.version_info >= (3, 12), sys.version; \
        print(*(f'{name} {version(name)}' for name in ('torch', 'flash-attn', 'llm-foundry')))" \
    && (getent passwd 1000 || useradd --uid 1000 --create-home --shell /usr/sbin/nologin worker)
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="Seatrial worker, LLM Foundry" \
      org.opencontainers.image.description="Trains with LLM Foundry on GPUs over InfiniBand." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 1000:1000
WORKDIR /workspace
CMD ["python3", "-m", "torch.distributed.run", "--help"]
