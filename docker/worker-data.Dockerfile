# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
#
# Data preparation, as Indexed Jobs and as a RayJob: no torch and no engine.
#
#   docker build --file docker/worker-data.Dockerfile --tag REPOSITORY/worker-data:VERSION .
#   python -m scripts.build_image data       the same with buildah, on a base from debootstrap
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
    && apt-get install --yes --no-install-recommends python3-pip \
    && rm -rf /var/lib/apt/lists/*
COPY scripts/build_image_packages.py requirements/dev.txt pyproject.toml ./

FROM tools AS packages
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    python3 build_image_packages.py dev.txt --extras pyproject.toml data ray > data.txt \
    && python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --require-hashes --no-deps --requirement data.txt --target /opt/seatrial/site

FROM tools AS wheel
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=certificates \
    python3 build_image_packages.py dev.txt --of hatchling > build.txt \
    && python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check \
        --require-hashes --no-deps --requirement build.txt --target tools
COPY README.md LICENSE ./
COPY src src
RUN PYTHONPATH=tools python3 -m pip wheel --no-cache-dir --no-deps --no-index --no-build-isolation \
        --wheel-dir dist . \
    && python3 -m pip install --no-cache-dir --no-deps --no-index --target seatrial dist/*.whl

FROM ${BASE} AS worker-data
# Unpinned for the same reason; the base's own updates come with them. KubeRay starts Ray from a
# login shell, which sets a PATH of its own, and looks after it with wget.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 wget \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
    && useradd --uid 1000 --create-home --shell /usr/sbin/nologin worker \
    && ln --symbolic /opt/seatrial/site/bin/seatrial /opt/seatrial/site/bin/ray /usr/local/bin/
ENV PYTHONPATH=/opt/seatrial/site \
    PYTHONUNBUFFERED=1
COPY --from=packages /opt/seatrial /opt/seatrial
COPY --from=wheel /build/seatrial /opt/seatrial/site
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="Seatrial worker, data preparation" \
      org.opencontainers.image.description="Turns a corpus into Megatron data; no engine inside." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 1000:1000
WORKDIR /home/worker
CMD ["python3", "-m", "seatrial", "data", "--help"]
