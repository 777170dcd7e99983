# The controller itself, for hosts that have an engine but no Python.
#
#   docker build -t trace-bench/controller .
#   docker run --rm -v /var/run/docker.sock:/var/run/docker.sock -v trace-bench-home:/var/lib/trace-bench \
#     -v /run/lock/trace-bench:/run/lock/trace-bench -v "$PWD":/work -w /work trace-bench/controller run --config CONFIG
#
# The first stage downloads wheels by hash. Another index: --build-arg PIP_INDEX_URL=…; for mode real: --build-arg
# REQUIREMENTS=llm; another base with CPython 3.11 to 3.13 and pip: --build-arg BASE=…. Where a build has no network,
# scripts/build-controller puts the wheels into the context, and nothing is downloaded here.
#
# Who may use the engine's socket may do anything on its host: this container is trusted, those that it starts are not.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS fetch
LABEL trace-bench.stage="wheels"
ARG PIP_INDEX_URL
ARG REQUIREMENTS=host
COPY . /context
RUN set -eu; \
    if [ -d /context/wheelhouse ]; then mv /context/wheelhouse /wheelhouse; exit 0; fi; \
    refuse() { echo "error: $1; or run scripts/build-controller, which downloads the wheels on the host" >&2; exit 1; }; \
    cd /context; \
    [ -f "requirements/$REQUIREMENTS.txt" ] || refuse "there is no requirements/$REQUIREMENTS.txt; use host or llm"; \
    python3 -m pip --version > /dev/null || refuse "the base has no pip; name another with --build-arg BASE=IMAGE"; \
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_QUIET=1 PIP_NO_DEPS=1; \
    mkdir /wheelhouse; \
    awk '/^[^ ]/ { keep = /^(hatchling|packaging|pathspec|pluggy|trove-classifiers)==/ } keep' requirements/dev.txt \
        > /wheelhouse/build.txt; \
    cp "requirements/$REQUIREMENTS.txt" /wheelhouse/requirements.txt; \
    python3 -m pip download --require-hashes --only-binary=:all: --dest /wheelhouse \
        -r /wheelhouse/requirements.txt -r images/bootstrap.txt \
        || refuse "the wheels of requirements/$REQUIREMENTS.txt cannot be downloaded; name an index that the build can reach with --build-arg PIP_INDEX_URL=URL"; \
    python3 -m pip install --require-hashes --only-binary=:all: --target /wheelhouse/build -r /wheelhouse/build.txt \
        || refuse "the wheels that make one of this checkout cannot be downloaded; name an index that the build can reach with --build-arg PIP_INDEX_URL=URL"; \
    PYTHONPATH=/wheelhouse/build python3 -m pip wheel --no-index --no-build-isolation --wheel-dir /wheelhouse .; \
    rm -r /wheelhouse/build /wheelhouse/build.txt

FROM ${BASE} AS wheels
LABEL trace-bench.stage="wheels"
COPY --from=fetch /wheelhouse /wheelhouse
# pip comes along, because the controller downloads the wheels of the images that it builds.
RUN set -eu; \
    pip="$(echo /wheelhouse/pip-*.whl)"; \
    install() { \
        PYTHONPATH="$pip" python3 -m pip install --no-index --find-links /wheelhouse --no-deps --no-compile --no-cache-dir \
            --disable-pip-version-check --root-user-action ignore --quiet --target /install "$@"; \
    }; \
    install --require-hashes -r /wheelhouse/requirements.txt; \
    install /wheelhouse/pip-*.whl /wheelhouse/trace_bench-*.whl; \
    python3 -m compileall -q --invalidation-mode unchecked-hash -s /install -p /opt/trace-bench/host /install

FROM ${BASE}
COPY --from=wheels /install /opt/trace-bench/host
RUN set -eu; \
    site="$(python3 -I -c 'import site; print(site.getsitepackages()[0])')"; \
    mkdir -p "$site"; \
    echo /opt/trace-bench/host > "$site/trace-bench.pth"; \
    printf '%s\n' '#!/usr/bin/env python3' 'import sys' 'from trace_bench.cli import main' 'sys.exit(main())' \
        > /usr/local/bin/trace-bench; \
    chmod 755 /usr/local/bin/trace-bench
ENV TRACE_BENCH_HOME=/var/lib/trace-bench \
    PYTHONDONTWRITEBYTECODE=1
VOLUME /var/lib/trace-bench
ENTRYPOINT ["trace-bench"]
CMD ["--help"]
