# The controller itself, for hosts that have an engine but no Python. Made by scripts/build-controller, which prepares the
# wheelhouse; nothing is downloaded here.
#
#   docker run --rm -v /var/run/docker.sock:/var/run/docker.sock -v trace-bench-home:/var/lib/trace-bench \
#     -v /run/lock/trace-bench:/run/lock/trace-bench -v "$PWD":/work -w /work trace-bench/controller:VERSION run --config CONFIG
#
# Who may use the engine's socket may do anything on its host: this container is trusted, those that it starts are not.
ARG BASE
FROM ${BASE} AS wheels
LABEL trace-bench.stage="wheels"
COPY wheelhouse /wheelhouse
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
