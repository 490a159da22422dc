# One image, two programs: placement-webhook and placement-controller. The chart says which one a pod runs.
# The Python version is the one the tests run on.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/placement
# Dependencies first: they change less often than the source, and this layer is then kept.
COPY requirements/runtime.txt requirements/
RUN /opt/placement/bin/pip install --require-hashes --only-binary :all: -r requirements/runtime.txt
COPY pyproject.toml README.md ./
COPY requirements/runtime.in requirements/
COPY shared shared
COPY webhook webhook
COPY controller controller
RUN pip wheel --no-deps --wheel-dir dist . \
 && /opt/placement/bin/pip install --no-index --no-deps dist/*.whl \
 && /opt/placement/bin/pip check \
 && /opt/placement/bin/pip uninstall --yes pip setuptools

FROM python:${PYTHON}-slim
COPY --from=build /opt/placement /opt/placement
ENV PATH=/opt/placement/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A number, so that the kubelet can tell it is not root.
USER 65532:65532
CMD ["placement-webhook"]
